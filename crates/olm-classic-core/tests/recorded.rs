//! Upstream's recorded answers, all of them.

use mainstay_olm_classic_core::cases;
use mainstay_olm_classic_core::steps::{self, Loaded};
use serde_json::Value;

/// The answer without what one of the two sides does not tell.
fn comparable(mut answer: Value, recorded: &Value) -> Value {
    if recorded["constraintsVary"].is_array() {
        // Which minimal set upstream reports is chance; that there is no solution is not.
        return if answer["errorKind"] == "unsatisfiable" { recorded.clone() } else { answer };
    }
    if recorded["errorOrderVaries"] == true {
        answer["error"] = recorded["error"].clone();
        answer["errorOrderVaries"] = true.into();
    }
    answer
}

/// The first place at which two values differ.
fn difference(path: &str, ours: &Value, upstream: &Value) -> Option<String> {
    match (ours, upstream) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |map: &serde_json::Map<String, Value>, key: &String| map.get(key).cloned().unwrap_or(Value::String("(absent)".into()));
            keys.into_iter().find_map(|key| difference(&format!("{path}.{key}"), &of(a, key), &of(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        _ if ours == upstream => None,
        _ => {
            let short = |value: &Value| value.to_string().chars().take(400).collect::<String>();
            Some(format!("{path}:\n  ours     {}\n  upstream {}", short(ours), short(upstream)))
        }
    }
}

fn assert_equal(of: usize, different: &[String]) {
    let shown = different[..different.len().min(12)].join("\n");
    assert!(different.is_empty(), "{} of {of} differ:\n{shown}", different.len());
}

/// OLM0-RES-05, OLM0-RES-06, OLM0-RES-09, OLM0-RES-11, OLM0-UPG-09, OLM0-UPG-15: worlds of a namespace, solved and not.
#[test]
fn resolutions() {
    let Some(lines) = mainstay_testing::data::json_lines("olm-classic/resolve.jsonl.gz") else { return };
    let mut different = Vec::new();
    for line in &lines {
        let answer = cases::resolution(&line["input"]).unwrap();
        for part in ["resolve", "steps"] {
            let ours = comparable(answer[part].clone(), &line[part]);
            different.extend(difference(&format!("{} {part}", line["id"]), &ours, &line[part]));
        }
    }
    assert_equal(2 * lines.len(), &different);
}

/// The answers of a record that are neither its input nor its name.
fn answers(line: &Value) -> Value {
    let mut answers = line.clone();
    for key in ["id", "input", "csv"] {
        answers.as_object_mut().unwrap().remove(key);
    }
    answers
}

fn compare(name: &str, answer: impl Fn(&Value) -> Value) {
    let Some(lines) = mainstay_testing::data::json_lines(&format!("olm-classic/{name}.jsonl.gz")) else { return };
    let different = lines.iter().enumerate().filter_map(|(at, line)| {
        let ours = answer(line);
        difference(&format!("{name} {at} {}", line["id"]), &ours, &answers(line))
    });
    let different: Vec<String> = different.collect();
    assert_equal(lines.len(), &different);
}

/// The files of the folder that a record names.
fn loaded(line: &Value) -> Loaded {
    let id = line["id"].as_str().unwrap();
    let (root, path) = id.split_once('/').unwrap();
    let files = if root == "bundles" { mainstay_testing::bundles::bundles() } else { mainstay_testing::bundles::legacy() }.unwrap();
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    let files = &files[&format!("{}/{}", parts[0], parts[1])];
    let folder = format!("{}/", parts.get(2).unwrap_or(&"manifests"));
    let names = files.iter().filter_map(|(name, bytes)| Some((name.strip_prefix(&folder)?, bytes.as_slice())));
    let loaded = steps::load(names.filter(|(name, _)| !name.contains('/')));
    assert!(!loaded.csv_json.is_empty(), "{id} has no CSV");
    loaded
}

/// OLM0-API-21: the plan steps of every bundle.
#[test]
fn plan_steps() {
    compare("steps", |line| serde_json::json!({"steps": cases::plan(&loaded(line), &line["input"]).unwrap()}));
}

/// OLM0-CSV-17, OLM0-CSV-19: names, labels and hashes of the roles of every bundle.
#[test]
fn permissions() {
    compare("rbac", |line| serde_json::json!({"permissions": cases::permissions(&loaded(line)).unwrap()}));
}

/// OLM0-CSV-12: the Deployments of every bundle, with and without certificates.
#[test]
fn deployments() {
    compare("deployments", |line| cases::deployments(&loaded(line)).unwrap());
}

/// OLM0-OG-22: intersections of OperatorGroups.
#[test]
fn intersections() {
    compare("operatorgroups", |line| cases::intersection(&line["input"]).unwrap());
}

/// OLM0-API-16, OLM0-CSV-13: a Subscription's configuration.
#[test]
fn overrides() {
    compare("overrides", |line| {
        let mut answer = cases::overridden(&line["input"]).unwrap();
        // An empty node selector in the configuration clears the Deployment's, but the records do not show an empty one.
        let place = "/deployment/spec/template/spec";
        let cleared = line.pointer(&format!("{place}/nodeSelector")).is_none() && line["input"]["config"]["nodeSelector"].is_null();
        if cleared {
            answer.pointer_mut(place).unwrap().as_object_mut().unwrap().remove("nodeSelector");
        }
        answer
    });
}

/// Permissions that a CSV demands; the rest of its requirements is not there yet.
#[test]
fn rules() {
    compare("rulechecker", |line| cases::rule_satisfied(&line["input"]).unwrap());
}

/// The newest supported platform.
#[test]
fn maximum_platform() {
    compare("maxopenshift", |line| cases::maximum_platform(&line["input"]));
}

/// OLM0-OG-03, OLM0-OG-04: install modes and targets.
#[test]
fn install_modes() {
    compare("installmodes", |line| cases::install_modes(&line["input"]).unwrap());
}
