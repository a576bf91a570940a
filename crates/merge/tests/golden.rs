//! Replays what apimachinery and structured-merge-diff made of random inputs (see `data/README.md`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_kinds::{Gvk, registry};
use mainstay_merge::managed::{Conflicts, Write};
use mainstay_merge::{ApplyError, FieldSet, PatchError, Path, apply, strategic_merge_patch, update};
use mainstay_schema::Schema;
use serde_json::{Value, json};

fn recorded(name: &str) -> Value {
    mainstay_testing::data::own_json(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name))
}

fn report(differences: &[String], total: usize) {
    let shown: Vec<&String> = differences.iter().take(200).collect();
    assert!(differences.is_empty(), "{} of {total} differ\n{shown:#?}", differences.len());
}

/// KAPI-PATCH-01: strategic merge patches of ten kinds, right and wrong ones, have Kubernetes' results and errors.
#[test]
fn strategic_merge_is_that_of_apimachinery() {
    let cases = recorded("strategic.json.gz");
    let cases = cases.as_array().unwrap();
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let (api_version, kind) = case["kind"].as_str().unwrap().rsplit_once('/').unwrap();
        let schema = registry().schema(&Gvk::of(api_version, kind)).unwrap();
        let same = match strategic_merge_patch(&case["current"], &case["patch"], &schema) {
            Ok(result) => case.get("result") == Some(&result),
            Err(error) => {
                let text = match &error {
                    PatchError::Rejected { detail } => detail.clone(),
                    other => other.to_string(),
                };
                case["errors"].as_array().is_some_and(|texts| texts.contains(&json!(text)))
            }
        };
        if !same {
            let ours = strategic_merge_patch(&case["current"], &case["patch"], &schema).map_err(|error| error.to_string());
            differences.push(format!(
                "{index} {kind}: {} + {} is {}{}, not {}",
                case["current"],
                case["patch"],
                case["result"],
                case["errors"],
                ours.unwrap_or_else(|error| json!(error))
            ));
        }
    }
    report(&differences, cases.len());
}

/// The object with its owners in a fixed order and without times.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") {
        for entry in entries.iter_mut() {
            entry.as_object_mut().unwrap().remove("time");
        }
        entries.sort_by_key(Value::to_string);
    }
    object
}

/// Go says what is wrong in any order.
fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn causes(conflicts: &Conflicts) -> Value {
    let mut causes: Vec<Value> = conflicts.causes().into_iter().map(|(message, field)| json!([message, field])).collect();
    causes.sort_by_key(Value::to_string);
    Value::Array(causes)
}

/// What is recorded of a step: the object, or the error and its causes.
type Outcome = Result<Value, (String, Value)>;

fn write(live: &Value, step: &Value, write: &Write<'_>) -> Outcome {
    if step["operation"] == "update" {
        return Ok(update(live, &step["body"], write));
    }
    match apply(live, &step["body"], write, step["force"] == true) {
        Ok(applied) => Ok(applied.object),
        Err(ApplyError::Conflict(conflicts)) => Err(("conflict".into(), causes(&conflicts))),
        Err(other) => Err((sorted_lines(&other.to_string()), Value::Null)),
    }
}

fn expected(step: &Value) -> Outcome {
    let Some(text) = step["error"].as_str() else { return Ok(comparable(&step["object"])) };
    let mut causes = step["causes"].clone();
    if let Value::Array(causes) = &mut causes {
        causes.sort_by_key(Value::to_string);
    }
    Err((sorted_lines(text), causes))
}

/// The object as the API server keeps it.
fn kept(outcome: Outcome) -> Outcome {
    outcome.map(|mut object| {
        object["metadata"]["uid"] = json!("u");
        object
    })
}

/// KAPI-SSA-01: applies, updates and writes of the status by several managers leave the objects, owners, conflicts and errors
/// that Kubernetes' field manager leaves. Forced applies of a Deployment are among them: a struct or an item is owned itself (`.`)
/// where it is for Kubernetes.
#[test]
fn ownership_is_that_of_structured_merge_diff() {
    let data = recorded("apply.json.gz");
    let thing = Schema::from_json(&data["thing"]).unwrap();
    let deployment = registry().schema(&Gvk::of("apps/v1", "Deployment")).unwrap();
    let (mut differences, mut steps, mut forced) = (Vec::new(), 0, 0);
    for (number, sequence) in data["sequences"].as_array().unwrap().iter().enumerate() {
        let kind = sequence["kind"].as_str().unwrap();
        let (api_version, schema) = if kind == "Thing" { ("e.com/v1", &thing) } else { ("apps/v1", &*deployment) };
        let mut live = json!({"apiVersion": api_version, "kind": kind});
        for (index, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            steps += 1;
            forced += usize::from(kind == "Deployment" && step["force"] == true && step["object"].is_object());
            let (subresource, fixed) = if step["status"] == true { ("status", "spec") } else { ("", "status") };
            let reset: FieldSet = [Path::fields([fixed])].into_iter().collect();
            let now = format!("2026-01-01T00:00:{:02}Z", index + 1);
            let manager = step["manager"].as_str().unwrap();
            let outcome = kept(write(&live, step, &Write { manager, api_version, subresource, schema, reset: &reset, now: &now }));
            let ours = outcome.as_ref().map(comparable).map_err(Clone::clone);
            if ours != expected(step) {
                differences.push(format!("{number}.{index} {kind}: {live}\n{step}\nours {}", ours.unwrap_or_else(|error| json!(error))));
                break;
            }
            if let Ok(object) = outcome {
                live = object;
            }
        }
    }
    report(&differences, steps);
    assert!(forced > 200, "only {forced} forced applies of a Deployment are recorded");
}
