//! Answers that upstream's own code gave. What 4.19 answers otherwise is left out, as the data's description lists it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_cluster_version_core::cases;
use serde_json::{Map, Value, json};

/// A value without nulls, empty objects and empty lists: a typed client does not write them, or writes them unasked.
fn filled(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), filled(value))).filter(|(_, value)| !is_empty(value));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(filled).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What the records leave out.
pub fn recorded_form(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    filled(&object)
}

pub fn difference(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                difference(&format!("{path}.{key}"), &ours[key], &theirs[key], out);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                difference(&format!("{path}[{index}]"), left, right, out);
            }
        }
        _ if ours == theirs => {}
        _ => out.push(format!("{path}: ours {ours}, recorded {theirs}")),
    }
}

/// CVO-APPLY-01, CVO-APPLY-02, CVO-APPLY-04, CVO-APPLY-05, CVO-APPLY-06: every recorded merge that 4.19 does in the same way.
#[test]
fn merges() {
    let Some(lines) = mainstay_testing::data::json_lines("cluster-version/merge.jsonl.gz") else { return };
    let (mut compared, mut wrong) = (0, Vec::new());
    for line in lines.iter().filter(|line| line.get("newer").is_none()) {
        compared += 1;
        let ours = cases::merge(line).unwrap();
        let mut out = Vec::new();
        difference("verbs", &ours["verbs"], &line["verbs"], &mut out);
        difference("", &recorded_form(&ours["result"]), &recorded_form(&line["result"]), &mut out);
        if !out.is_empty() {
            wrong.push(format!("{} {} {}: {}", line["case"], line["kind"], line["how"], out.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1200, "{compared}");
}

fn others(kind: &str) -> Vec<Value> {
    let lines = mainstay_testing::data::json_lines("cluster-version/others.jsonl.gz").unwrap_or_default();
    lines.into_iter().filter(|line| line["type"] == kind).collect()
}

/// CVO-DEL-01, CVO-DEL-02, CVO-DEL-03: every recorded deletion.
#[test]
fn deletions() {
    for line in others("delete") {
        assert_eq!(cases::other(&line).unwrap(), line);
    }
}

/// What 4.19 says of a wish for nothing.
const NOTHING: &str = "spec.desiredUpdate: Required value: must specify architecture, version, or image";

/// CVO-API-09, CVO-API-10: every recorded check, in the words of 4.19.
#[test]
fn validations() {
    for line in others("validate") {
        let text = line.to_string();
        let text = text.replace("spec.desiredUpdate.version: Required value: must specify version or image", NOTHING);
        let text = text.replace(
            "when image is empty the update must be a previous version or an available update",
            "when image is empty the update must be an available update",
        );
        let mut wanted: Value = serde_json::from_str(&text).unwrap();
        for error in wanted["errors"].as_array_mut().unwrap().iter_mut().filter(|error| error["text"] == NOTHING) {
            error["field"] = json!("spec.desiredUpdate");
        }
        let ours = cases::other(&line).unwrap();
        assert_eq!(ours["errors"], wanted["errors"], "{}", line["case"]);
        assert_eq!(ours["specAfterClearing"], wanted["specAfterClearing"], "{}", line["case"]);
    }
}

/// CVO-PRE-05: every recorded answer of the precondition that both versions have and judge alike.
#[test]
fn preconditions() {
    let version = |text: &Value| mainstay_versions::Version::parse(text.as_str()?).ok();
    let mut compared = 0;
    for line in others("precondition") {
        let history = &line["clusterVersion"]["status"]["history"];
        let completed = history.as_array().into_iter().flatten().find(|entry| entry["state"] == "Completed");
        let newest = &history[0]["version"];
        let (Some(completed), Some(current), Some(target)) =
            (completed.and_then(|entry| version(&entry["version"])), version(newest), version(&line["desiredVersion"]))
        else {
            continue;
        };
        // This module compares with what is completed, and lets overrides block nothing but minor updates.
        if completed != current || target.cmp_precedence(&current).is_lt() {
            continue;
        }
        let mut asked = line.clone();
        asked["clusterVersion"]["status"]["desired"] = json!({"version": newest, "image": history[0]["image"]});
        let of = |answer: &Value| -> Vec<(Value, Value)> {
            let errors = answer["errors"].as_array().into_iter().flatten();
            let errors = errors.filter(|error| error["name"] == "ClusterVersionUpgradeable");
            errors.map(|error| (error["reason"].clone(), error["error"].clone())).collect()
        };
        assert_eq!(of(&cases::other(&asked).unwrap()), of(&line), "{line}");
        compared += 1;
    }
    assert!(compared == 0 || compared > 5, "{compared}");
}
