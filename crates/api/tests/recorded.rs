//! The types against the definitions that upstream publishes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use serde_json::{Map, Value};

fn recorded(file: &str) -> Option<Value> {
    Some(mainstay_yaml::parse(&mainstay_testing::data::text(&format!("api-definitions/olm-v1/{file}"))?).unwrap())
}

/// What programs read of a definition: no prose, and lists whose order means nothing in one order.
pub(crate) fn facts(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut out: Map<String, Value> = map.iter().map(|(key, value)| (key.clone(), facts(value))).collect();
            if matches!(out.get("description"), Some(Value::String(_))) {
                out.remove("description");
            }
            for key in ["required", "enum"] {
                if let Some(Value::Array(items)) = out.get_mut(key) {
                    items.sort_by_key(Value::to_string);
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(facts).collect()),
        other => other.clone(),
    }
}

/// A place where two definitions differ.
pub(crate) struct Difference {
    pub path: String,
    pub ours: Value,
    pub theirs: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ours {}, recorded {}", self.path, self.ours, self.theirs)
    }
}

pub(crate) fn differences(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                differences(&format!("{path}/{key}"), left.get(key).unwrap_or(&Value::Null), right.get(key).unwrap_or(&Value::Null), out);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}/{index}"), left, right, out);
            }
        }
        _ if ours == theirs => {}
        _ => out.push(Difference { path: path.to_owned(), ours: ours.clone(), theirs: theirs.clone() }),
    }
}

/// OLM1-GEN-02, OLM1-API-01, OLM1-API-03, OLM1-CAT-01, OLM1-CAT-02: schemas, rules, messages and columns are those of upstream.
#[test]
fn definitions_are_those_of_upstream() {
    let manifests = mainstay_api::manifests().unwrap();
    // The others are ours alone.
    let upstreams: Vec<_> =
        manifests.iter().filter(|manifest| manifest.definition["spec"]["group"] == "olm.operatorframework.io").collect();
    assert_eq!(upstreams.len(), 2);
    for manifest in upstreams {
        let Some(theirs) = recorded(&manifest.file) else { return };
        let mut theirs = facts(&theirs);
        // `spec.config` stands in upstream's experimental definitions only (OLM1-API-06).
        let config = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/config";
        if let Some(ours) = manifest.definition.pointer(config) {
            let newer = facts(&recorded("experimental_clusterextensions.yaml").unwrap());
            let properties = theirs.pointer_mut(config.trim_end_matches("/config")).unwrap();
            assert!(ours.is_object() && properties["config"].is_null());
            properties["config"] = newer.pointer(config).unwrap().clone();
        }
        let mut out = Vec::new();
        differences("", &facts(&manifest.definition)["spec"], &theirs["spec"], &mut out);
        // What the root requires: upstream admits a ClusterExtension without a spec, ours does not; metadata is always there.
        out.retain(|difference| !difference.path.contains("openAPIV3Schema/required"));
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{}:\n{}", manifest.file, shown.join("\n"));
    }
}

/// The manifests that are checked in are those that the types give; `cargo xtask manifests` writes them.
#[test]
fn manifests_are_up_to_date() {
    for manifest in mainstay_api::manifests().unwrap() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests").join(&manifest.file);
        let stored = mainstay_yaml::parse(&std::fs::read_to_string(&path).unwrap_or_default()).unwrap();
        assert_eq!(stored, manifest.definition, "{} is not what the types give: run cargo xtask manifests", path.display());
    }
}
