//! The recorded changes of built-in objects, asked of this crate: strategy and validation of updates.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use crate::common::{normal, pointers_of, steps};
use mainstay_kinds::{
    AllocationError, Allocator, Context, Gvk, Requester, allocate_service, default, prepare_create, prepare_update, registry,
    validate_create, validate_update,
};
use serde_json::{Value, json};

/// Scenarios whose changes need nothing but the kinds.
const SCENARIOS: &[&str] = &[
    "admission/priority",
    "crud/generation",
    "crud/uid-precondition-on-update",
    "object/lease",
    "object/pod-status",
    "lifecycle/finalizer-names",
    "workload/job-suspend",
    "workload/deployment-paused",
    "patch/merge-basics",
    "patch/merge-invalid-outcome",
    "patch/strategic-volume-two-sources",
    "service/cluster-ip-errors",
    "service/load-balancer",
    "validation/deployment-selector-immutable",
];

struct Pools;

impl Allocator for Pools {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
        match wanted {
            Some(address) if !address.starts_with("10.96.") => Err(AllocationError::OutOfRange("10.96.0.0/16".into())),
            other => Ok(other.unwrap_or("10.96.0.9").to_owned()),
        }
    }

    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError> {
        Ok(wanted.unwrap_or(30000))
    }
}

/// RFC 7386; lists of conditions and volumes merge by their keys, as strategic patches have it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        match (value, map.get_mut(key)) {
            (Value::Null, _) => {
                map.remove(key);
            }
            (Value::Array(items), Some(Value::Array(known))) if ["conditions", "volumes"].contains(&key.as_str()) => {
                for item in items {
                    match known.iter_mut().find(|known| known["type"] == item["type"] && known["name"] == item["name"]) {
                        Some(known) => merge(known, item),
                        None => known.push(item.clone()),
                    }
                }
            }
            (value, Some(known)) => merge(known, value),
            (value, None) => {
                let mut fresh = Value::Null;
                merge(&mut fresh, value);
                map.insert(key.clone(), fresh);
            }
        }
    }
}

/// The kind, name and subresource that a path of the API means.
fn target(path: &str) -> Option<(Gvk, Option<String>, Option<String>)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        other => other,
    };
    let (plural, rest) = rest.split_first()?;
    let resource = registry().resource(group, version, plural)?;
    Some((resource.gvk(), rest.first().map(|name| (*name).to_owned()), rest.get(1).map(|sub| (*sub).to_owned())))
}

/// KAPI-REST-01, KAPI-REST-04, KAPI-REST-05: recorded changes give the recorded objects, or the recorded causes.
#[test]
fn changes_are_the_recorded_ones() {
    let Some(steps) = steps() else { return };
    let context = Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() };
    let mut stored: HashMap<(String, Gvk, String), Value> = HashMap::new();
    let (mut passed, mut gaps) = (0, Vec::new());
    for step in steps.iter().filter(|step| SCENARIOS.contains(&step.scenario.as_str())) {
        let Some((gvk, name, sub)) = target(&step.path) else { continue };
        let json_patch = step.headers["Content-Type"] == "application/json-patch+json";
        // What pods get of their priority class is admission's.
        if !step.body.is_object() || json_patch || (gvk.kind == "Pod" && step.scenario.starts_with("admission/")) {
            continue;
        }
        let (errors, result) = match (step.method.as_str(), name) {
            ("POST", None) => {
                let mut object = step.body.clone();
                default(&gvk, &mut object);
                object["metadata"]["uid"] = json!("u");
                if registry().resource_of_kind(&gvk).unwrap().namespaced {
                    object["metadata"]["namespace"] = json!("ns");
                }
                prepare_create(&gvk, &mut object, &context);
                let mut errors = validate_create(&gvk, &object);
                if errors.is_empty() && gvk.kind == "Service" {
                    errors = allocate_service(&mut object, None, &mut Pools).err().unwrap_or_default();
                }
                (errors, object)
            }
            ("PATCH" | "PUT", Some(name)) => {
                let Some(old) = stored.get(&(step.scenario.clone(), gvk.clone(), name)).cloned() else { continue };
                let mut object = old.clone();
                if step.method == "PUT" {
                    object = step.body.clone();
                    for field in ["uid", "namespace"] {
                        if object["metadata"].get(field).is_none() {
                            object["metadata"][field] = old["metadata"][field].clone();
                        }
                    }
                } else {
                    merge(&mut object, &step.body);
                }
                if object["kind"] != old["kind"] || object["apiVersion"] != old["apiVersion"] {
                    continue;
                }
                default(&gvk, &mut object);
                prepare_update(&gvk, &mut object, &old, sub.as_deref(), &context);
                let mut errors = validate_update(&gvk, &object, &old, sub.as_deref());
                if errors.is_empty() && gvk.kind == "Service" && sub.is_none() {
                    errors = allocate_service(&mut object, Some(&old), &mut Pools).err().unwrap_or_default();
                }
                (errors, object)
            }
            _ => continue,
        };
        let status = step.answer["status"].as_u64().unwrap();
        let place = format!("{} step {}", step.scenario, step.index);
        if status == 422 {
            let ignored = step.answer.pointer("/body/details/causes/0/message") == Some(&json!("<ignored>"));
            let of = |cause: &Value| json!([cause["reason"], cause["field"], if ignored { json!(null) } else { cause["message"].clone() }]);
            let ours: Vec<Value> = errors
                .iter()
                .map(|error| of(&json!({"reason": error.reason(), "message": error.body(), "field": error.field.to_string()})))
                .collect();
            let wanted: Vec<Value> = step.answer["body"]["details"]["causes"].as_array().unwrap().iter().map(of).collect();
            // Taken addresses are the pool's to know.
            if ours == wanted || wanted.iter().any(|cause| cause.to_string().contains("already allocated")) {
                passed += 1;
            } else {
                gaps.push(format!("{place}:\n  ours   {}\n  wanted {}", json!(ours), json!(wanted)));
            }
            continue;
        }
        if status >= 400 {
            continue;
        }
        if !errors.is_empty() {
            gaps.push(format!("{place}: refused: {}", errors[0]));
            continue;
        }
        let body = &step.answer["body"];
        for (pointer, wanted) in body.as_object().into_iter().flatten().filter(|(pointer, _)| pointer.starts_with('/')) {
            let ours = normal(&pointers_of(&result, pointer).unwrap());
            if ours == normal(wanted) || wanted.as_str().is_some_and(|text| text.starts_with('<')) {
                passed += 1;
            } else {
                gaps.push(format!("{place} {pointer}:\n  ours   {ours}\n  wanted {}", normal(wanted)));
            }
        }
        let name = result["metadata"]["name"].as_str().unwrap().to_owned();
        stored.insert((step.scenario.clone(), gvk, name), result);
    }
    eprintln!("{passed} changes as recorded, {} gaps", gaps.len());
    for gap in &gaps {
        eprintln!("{gap}");
    }
    assert!(gaps.is_empty());
    assert!(passed > 35, "only {passed} changes were compared");
}
