//! What a real kube-apiserver (v1.36.2 emulating 1.34) answered about devices: `data/devices.json.gz` holds scenarios, each a sequence of
//! requests with the causes of refusals, or what was stored.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use mainstay_kinds::{
    Context, Gvk, Requester, admin_access, default, prepare_create, prepare_update, refuse_admin_access, registry, validate_create,
    validate_update, warnings,
};
use mainstay_schema::field::Error;
use serde_json::{Value, json};

/// RFC 7386.
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
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The kind, name and subresource that a path means.
fn target(path: &str) -> (Gvk, Option<&str>, Option<&str>) {
    let rest = path.trim_start_matches("/apis/resource.k8s.io/v1/").trim_start_matches("namespaces/ns/");
    let mut parts = rest.split('/');
    let resource = registry().resource("resource.k8s.io", "v1", parts.next().unwrap()).unwrap();
    (resource.gvk(), parts.next(), parts.next())
}

/// The objects that a scenario has made.
#[derive(Default)]
struct World(HashMap<(String, String), Value>);

impl World {
    /// Plays a request: findings, or the object that is stored, with its warnings. `None` for what needs a server.
    fn play(&mut self, step: &Value) -> Option<(Vec<Error>, Value, Vec<String>)> {
        let context = Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() };
        let (gvk, name, sub) = target(step["path"].as_str().unwrap());
        let name = name.or(step["body"]["metadata"]["name"].as_str()).unwrap_or_default();
        let key = (gvk.kind.clone(), name.to_owned());
        let old = self.0.get(&key).cloned();
        let mut object = step["body"].clone();
        let namespaced = gvk.kind.starts_with("ResourceClaim");
        let (errors, old) = match (step["method"].as_str().unwrap(), old) {
            ("DELETE", Some(mut old)) => {
                if old["metadata"].get("finalizers").is_some() {
                    old["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
                    self.0.insert(key, old);
                } else if step["query"]["dryRun"].is_null() {
                    self.0.remove(&key);
                }
                return None;
            }
            ("POST", _) => {
                if namespaced {
                    object["metadata"]["namespace"] = json!("ns");
                }
                default(&gvk, &mut object);
                prepare_create(&gvk, &mut object, &context);
                let asked = admin_access(&gvk, &object, None, None);
                let mut errors: Vec<Error> = asked.and_then(|field| refuse_admin_access(&field, None)).into_iter().collect();
                errors.extend(validate_create(&gvk, &object));
                (errors, None)
            }
            ("PUT" | "PATCH", Some(old)) => {
                if step["method"] == "PATCH" {
                    let patch = object;
                    object = old.clone();
                    merge(&mut object, &patch);
                }
                if namespaced {
                    object["metadata"]["namespace"] = json!("ns");
                }
                default(&gvk, &mut object);
                prepare_update(&gvk, &mut object, &old, sub, &context);
                let asked = admin_access(&gvk, &object, Some(&old), sub);
                let mut errors: Vec<Error> = asked.and_then(|field| refuse_admin_access(&field, None)).into_iter().collect();
                errors.extend(validate_update(&gvk, &object, &old, sub));
                (errors, Some(old))
            }
            _ => return None,
        };
        let said = warnings(&gvk, &object, old.as_ref(), sub);
        if errors.is_empty() && step["query"]["dryRun"].is_null() {
            self.0.insert(key, object.clone());
        }
        Some((errors, object, said))
    }
}

/// KAPI-REST-01, KAPI-REST-04, KAPI-REST-07: requests about devices are answered as a real server did.
#[test]
fn devices_are_kept_as_recorded() {
    let recorded = mainstay_testing::data::own_json(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/devices.json.gz"));
    let (mut refused, mut stored, mut gaps) = (0, 0, Vec::new());
    for scenario in recorded.as_array().unwrap() {
        let mut world = World::default();
        for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            let status = step["status"].as_u64().unwrap();
            if !matches!(status, 200 | 201 | 422) || step["method"] == "GET" {
                continue;
            }
            let Some((errors, object, said)) = world.play(step) else { continue };
            let cause = |error: &Error| json!({"reason": error.reason(), "message": error.body(), "field": error.field.to_string()});
            let causes: Value = errors.iter().map(cause).collect::<Vec<_>>().into();
            let (ours, wanted) = if status == 422 {
                refused += 1;
                (causes, step["causes"].clone())
            } else if errors.is_empty() {
                stored += 1;
                let ours = json!({"spec": object["spec"], "status": object["status"], "generation": object["metadata"]["generation"], "said": said.len()});
                let mut wanted = step["answer"].clone();
                wanted["said"] =
                    json!(step["warning"].as_array().into_iter().flatten().filter(|said| said.to_string().contains("spec.driver")).count());
                (ours, wanted)
            } else {
                (causes, step["answer"].clone())
            };
            if ours != wanted {
                gaps.push(format!("{} step {index}\n  ours   {ours}\n  wanted {wanted}", scenario["name"]));
            }
        }
    }
    eprintln!("{refused} refusals and {stored} writes, {} gaps", gaps.len());
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
    assert!(refused > 150 && stored > 60, "only {refused} refusals and {stored} writes were compared");
}
