//! Upstream's recorded answers, all of them.

use mainstay_olm_classic_core::cases;
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

/// OLM0-RES-01 to OLM0-RES-27, OLM0-UPG-01 to OLM0-UPG-16: worlds of a namespace, solved and not.
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
