//! Discovery and OpenAPI documents against the recorded ones.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use crate::xtask_facts::newer;
use mainstay_kinds::{discovery, openapi, registry};
use mainstay_testing::data;
use serde_json::{Value, json};

fn recorded(file: &str) -> Option<Value> {
    data::json(&format!("kubernetes-openapi/{file}"))
}

/// KAPI-DISC-01: every APIResourceList equals the recorded one.
#[test]
fn resource_lists_are_the_recorded_ones() {
    for group in registry().groups() {
        for version in &group.versions {
            let file = if group.name.is_empty() { format!("resources_{version}") } else { format!("resources_{}_{version}", group.name) };
            let Some(wanted) = recorded(&format!("discovery/{file}.json.gz")) else { return };
            assert_eq!(discovery::api_resource_list(&group.name, version).unwrap(), wanted, "{}/{version}", group.name);
        }
    }
}

/// KAPI-DISC-01: the groups and the aggregated documents equal the recorded ones.
#[test]
fn groups_are_the_recorded_ones() {
    let Some(wanted) = recorded("discovery/apis.json.gz") else { return };
    let groups: Vec<Value> = registry().groups().iter().filter(|group| !group.name.is_empty()).map(discovery::api_group).collect();
    assert_eq!(groups, *wanted["groups"].as_array().unwrap());

    for (file, core) in [("discovery/aggregated-api.json.gz", true), ("discovery/aggregated-apis.json.gz", false)] {
        let document = recorded(file).unwrap();
        let wanted: Vec<Value> = document["items"].as_array().unwrap().clone();
        let ours: Vec<Value> =
            registry().groups().iter().filter(|group| group.name.is_empty() == core).map(discovery::aggregated_group).collect();
        assert_eq!(Value::Array(ours), Value::Array(wanted), "{file}");
    }
}

/// Every recorded definition that 1.34 has.
fn recorded_definitions() -> Option<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for path in openapi::v3_paths() {
        let Value::Object(schemas) = recorded(&format!("v3/{}.json.gz", path.replace('/', "_")))?["components"]["schemas"].take() else {
            panic!("{path}: no schemas");
        };
        all.extend(schemas);
    }
    newer::remove(&mut all).unwrap();
    Some(all)
}

/// KAPI-REST-08, KAPI-DISC-02: schemas of the documents equal the recorded ones, without what is newer than the emulated version; the
/// operations clients look for are there.
#[test]
fn openapi_v3_serves_the_recorded_schemas() {
    let Some(definitions) = recorded_definitions() else { return };
    for path in openapi::v3_paths() {
        let Some(wanted) = recorded(&format!("v3/{}.json.gz", path.replace('/', "_"))) else { return };
        let ours = openapi::v3(&path).unwrap();
        let (ours_schemas, wanted_schemas) =
            (ours["components"]["schemas"].as_object().unwrap(), wanted["components"]["schemas"].as_object().unwrap());
        for name in wanted_schemas.keys() {
            let Some(schema) = definitions.get(name) else {
                assert!(!ours_schemas.contains_key(name), "{path}: {name} is newer");
                continue;
            };
            if name.ends_with("ComponentStatus") || name.contains("ComponentCondition") || name.ends_with("ComponentStatusList") {
                continue;
            }
            let mut ours = ours_schemas.get(name).unwrap_or_else(|| panic!("{path}: {name} is missing")).clone();
            let mut wanted = schema.clone();
            if name.ends_with("DeleteOptions") || name.ends_with("WatchEvent") {
                ours["x-kubernetes-group-version-kind"] = json!(null);
                wanted["x-kubernetes-group-version-kind"] = json!(null);
            }
            assert_eq!(ours, wanted, "{path}: {name}");
        }
        for (place, item) in wanted["paths"].as_object().unwrap() {
            if place.contains("/watch/")
                || place.contains("componentstatuses")
                || place.contains("proxy")
                || place.matches('/').count() <= 3
                || place.ends_with('/')
            {
                continue;
            }
            for (method, operation) in item.as_object().unwrap() {
                if method == "parameters" || operation["x-kubernetes-action"] == "connect" {
                    continue;
                }
                let ours = &ours["paths"][place][method];
                assert_eq!(ours["x-kubernetes-action"], operation["x-kubernetes-action"], "{place} {method}");
                assert_eq!(ours["x-kubernetes-group-version-kind"], operation["x-kubernetes-group-version-kind"], "{place} {method}");
                if operation["x-kubernetes-action"] == "patch" {
                    assert_eq!(ours["parameters"], operation["parameters"], "{place} {method}");
                }
            }
        }
    }
}

/// KAPI-DISC-02: the older document has every definition that a newer one has, with the same properties, however these are called.
#[test]
fn openapi_v2_has_every_kind() {
    let document = openapi::v2();
    for resource in registry().resources() {
        let name = registry().definition_name(&resource.gvk()).unwrap();
        assert!(document["definitions"][name]["properties"].is_object(), "{name}");
    }
    assert_eq!(
        document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"],
        json!({"format": "int-or-string", "type": "string"})
    );
    let mut compared = 0;
    for path in openapi::v3_paths() {
        let newer = openapi::v3(&path).unwrap();
        for (name, schema) in newer["components"]["schemas"].as_object().unwrap() {
            let names = |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
            // Definitions that only the newer document splits off have no name in the older one.
            if let Some(older) = document["definitions"].get(name) {
                assert_eq!(names(older), names(schema), "{path}: {name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
    assert!(!document.to_string().contains("components/schemas"));
}
