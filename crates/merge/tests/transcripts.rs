//! Replays the recorded `patch/` and `apply/` scenarios against this crate, with a server of forty lines around it.
//!
//! The server knows no defaults of built-in kinds, so what it stores is compared as "everything in it is in the recorded
//! answer, and lists have the same length and order"; ownership, conflicts and messages are compared exactly.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use mainstay_merge::managed::{from_scale, to_scale};
use mainstay_merge::patch::{decode_json_patch, decode_object_patch};
use mainstay_merge::{
    ApplyError, FieldSet, Managed, Path as FieldPath, Write, apply, json_patch, keep_times, merge_patch, strategic_merge_patch, update,
};
use mainstay_schema::{Schema, SchemaRef};
use mainstay_testing::data;
use mainstay_testing::transcripts::{Transcript, transcript};
use serde_json::{Value, json};

/// The schemas of one recorded OpenAPI document.
struct Document {
    raw: Value,
    nodes: BTreeMap<String, SchemaRef>,
}

impl Document {
    fn load(name: &str) -> Option<Self> {
        Some(Self { raw: data::json(&format!("kubernetes-openapi/v3/{name}"))?, nodes: BTreeMap::new() })
    }

    fn node(&mut self, name: &str) -> SchemaRef {
        if let Some(node) = self.nodes.get(name) {
            return node.clone();
        }
        let node = SchemaRef::pending();
        self.nodes.insert(name.to_owned(), node.clone());
        let raw = self.raw["components"]["schemas"][name].clone();
        let schema = Schema::read(&raw, &mut |name: &str| Some(self.node(name))).unwrap();
        node.fill(schema);
        node
    }
}

struct Server {
    schemas: BTreeMap<&'static str, SchemaRef>,
    thing: Option<SchemaRef>,
    objects: BTreeMap<String, Value>,
    clock: u32,
}

enum Answer {
    Object(u16, Value),
    Message(u16, String, Vec<(String, String)>),
}

impl Server {
    fn new() -> Option<Self> {
        let mut core = Document::load("api_v1.json.gz")?;
        let mut apps = Document::load("apis_apps_v1.json.gz")?;
        let schemas = BTreeMap::from([
            ("configmaps", core.node("io.k8s.api.core.v1.ConfigMap")),
            ("services", core.node("io.k8s.api.core.v1.Service")),
            ("deployments", apps.node("io.k8s.api.apps.v1.Deployment")),
        ]);
        Some(Self { schemas, thing: None, objects: BTreeMap::new(), clock: 0 })
    }

    fn call(&mut self, step: &Value) -> Answer {
        self.clock += 1;
        let path = step["path"].as_str().unwrap();
        let method = step["method"].as_str().unwrap();
        let body = match step.get("bodyText") {
            Some(text) => text.as_str().unwrap().as_bytes().to_vec(),
            None => step["body"].to_string().into_bytes(),
        };
        if path.contains("customresourcedefinitions") {
            let crd: Value = serde_json::from_slice(&body).unwrap();
            let schema = Schema::from_json(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
            self.thing = Some(SchemaRef::new(schema));
            return Answer::Object(201, crd);
        }
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let at = parts.iter().position(|part| *part == "namespaces").unwrap() + 2;
        let resource = parts[at];
        let api_version = parts[1..at - 2].join("/");
        let schema = self.schemas.get(resource).or(self.thing.as_ref()).unwrap().clone();
        let custom = resource == "things";
        let sub = parts.get(at + 2).copied().unwrap_or("");
        let posted: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = parts.get(at + 1).map_or_else(|| posted["metadata"]["name"].as_str().unwrap(), |name| *name);
        let key = format!("{resource}/{name}");
        let live = self.objects.get(&key).cloned().unwrap_or_default();
        let query = |name: &str| step["query"][name].as_str().unwrap_or("");
        let content = step["headers"]["Content-Type"].as_str().unwrap_or("application/json");
        let manager = if query("fieldManager").is_empty() { "kube-replay" } else { query("fieldManager") };
        let now = format!("2026-01-01T00:00:{:02}Z", self.clock);
        let reset: FieldSet = match (custom, sub) {
            (true, "status") => [FieldPath::fields(["spec"])].into_iter().collect(),
            (true, _) => [FieldPath::fields(["status"])].into_iter().collect(),
            _ => FieldSet::new(),
        };
        let write = Write { manager, api_version: &api_version, subresource: sub, schema: &schema, reset: &reset, now: &now };
        if method == "GET" {
            return Answer::Object(200, live);
        }
        let result = match content {
            "application/apply-patch+yaml" => match apply(&live, &posted, &write, query("force") == "true") {
                Ok(applied) => Ok((applied.object, true)),
                Err(ApplyError::Conflict(conflicts)) => return Answer::Message(409, conflicts.to_string(), conflicts.causes()),
                Err(other) => return Answer::Message(500, other.to_string(), Vec::new()),
            },
            "application/json-patch+json" => decode_json_patch(&body).and_then(|operations| {
                let mut object = live.clone();
                json_patch(&mut object, &operations).map(|()| (object, false))
            }),
            "application/merge-patch+json" => decode_object_patch(&body).map(|patch| {
                let mut object = live.clone();
                merge_patch(&mut object, &patch);
                (object, false)
            }),
            "application/strategic-merge-patch+json" => {
                decode_object_patch(&body).and_then(|patch| strategic_merge_patch(&live, &patch, &schema)).map(|object| (object, false))
            }
            _ => Ok((posted, false)),
        };
        let (mut object, applied) = match result {
            Ok(result) => result,
            Err(error) => return Answer::Message(error.code(), error.to_string(), Vec::new()),
        };
        match (custom, sub) {
            (true, "status") => object["spec"] = live["spec"].clone(),
            (true, _) => object["status"] = live["status"].clone(),
            _ => {}
        }
        if custom && object["spec"]["n"].is_null() {
            object["spec"]["n"] = json!(3);
        }
        tidy(&mut object, custom);
        if !applied {
            object = update(&live, &object, &write);
        }
        keep_times(&live, &mut object);
        object["metadata"]["uid"] = json!("<uid>");
        let code = if live.is_null() { 201 } else { 200 };
        self.objects.insert(key, object.clone());
        Answer::Object(code, object)
    }
}

/// As the kinds in these scenarios are stored: no nulls, no empty maps of strings.
fn tidy(value: &mut Value, custom: bool) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|value| tidy(value, custom));
            map.retain(|key, value| {
                let droppable = matches!(key.as_str(), "data" | "labels" | "annotations" | "finalizers") && !custom;
                !(value.is_null() || droppable && (value == &json!({}) || value == &json!([])))
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|value| tidy(value, custom)),
        _ => {}
    }
}

/// Everything of `mine` is in `theirs`.
fn within(mine: &Value, theirs: &Value) -> bool {
    match (mine, theirs) {
        (Value::Object(mine), Value::Object(theirs)) => {
            mine.iter().all(|(key, value)| theirs.get(key).is_some_and(|other| within(value, other)))
        }
        (Value::Array(mine), Value::Array(theirs)) => mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| within(a, b)),
        _ => mine == theirs,
    }
}

fn at(value: &Value, pointer: &str) -> Value {
    let mut found = vec![value.clone()];
    let mut many = false;
    for part in pointer.split('/').skip(1) {
        found = found
            .iter()
            .flat_map(|value| match (part.split_once('='), value) {
                _ if part == "*" => {
                    many = true;
                    value.as_array().cloned().unwrap_or_default()
                }
                (Some((key, wanted)), Value::Array(items)) => items.iter().filter(|item| item[key] == wanted).cloned().collect(),
                _ => value.get(part).cloned().into_iter().collect(),
            })
            .collect();
    }
    if many {
        return Value::Array(found);
    }
    found.pop().unwrap_or_else(|| json!("(absent)"))
}

fn timeless(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("2026-01-01T") => json!("<time>"),
        Value::Array(items) => Value::Array(items.iter().map(timeless).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), timeless(value))).collect()),
        other => other.clone(),
    }
}

fn same_owners(mine: &Value, theirs: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut items: Vec<String> = value.as_array().unwrap_or(&Vec::new()).iter().map(|item| timeless(item).to_string()).collect();
        items.sort();
        items
    };
    sorted(mine) == sorted(theirs)
}

fn check(scenario: &str, skipped_steps: &[usize]) {
    let (Some(recorded), Some(mut server)) = (transcript(scenario).map(Transcript::with_names), Server::new()) else { return };
    for (index, step) in recorded.steps.iter().enumerate() {
        if step.get("until").is_some() {
            continue;
        }
        let answer = server.call(step);
        if skipped_steps.contains(&index) || step["path"].as_str().unwrap().contains("customresourcedef") {
            continue;
        }
        let recorded = &step["answer"];
        let body = &recorded["body"];
        let place = format!("{scenario} step {index}");
        match answer {
            Answer::Message(code, message, causes) => {
                assert_eq!((json!(code), json!(message)), (recorded["status"].clone(), body["message"].clone()), "{place}");
                let recorded: Vec<(String, String)> = body["details"]["causes"]
                    .as_array()
                    .unwrap_or(&Vec::new())
                    .iter()
                    .map(|cause| (cause["message"].as_str().unwrap().to_owned(), cause["field"].as_str().unwrap().to_owned()))
                    .collect();
                assert_eq!(causes, recorded, "{place}");
            }
            Answer::Object(code, object) => {
                assert_eq!(json!(code), recorded["status"], "{place}: {object} {body}");
                match step.get("only") {
                    None => {
                        let (mine, theirs) = (&object["metadata"]["managedFields"], &body["metadata"]["managedFields"]);
                        assert!(same_owners(mine, theirs), "{place}:\n{mine}\n{theirs}");
                        for member in ["data", "spec"] {
                            assert!(object.get(member).is_none_or(|mine| within(mine, &body[member])), "{place}: {object}\n{body}");
                        }
                        for member in ["annotations", "finalizers", "labels"] {
                            assert_eq!(object["metadata"].get(member), body["metadata"].get(member), "{place}: {member}");
                        }
                    }
                    Some(pointers) => {
                        for pointer in pointers.as_array().unwrap() {
                            let pointer = pointer.as_str().unwrap();
                            let (mine, theirs) = (at(&object, pointer), &body[pointer]);
                            let equal = if pointer.ends_with("managedFields") && theirs.is_array() {
                                same_owners(&mine, theirs)
                            } else {
                                within(&timeless(&mine), theirs)
                            };
                            assert!(equal, "{place} {pointer}:\n{mine}\n{theirs}");
                        }
                    }
                }
            }
        }
    }
}

/// KAPI-PATCH-01: the recorded patches, but for steps whose answer is the kind's own validation.
#[test]
fn recorded_patches() {
    for (scenario, skipped) in [
        ("json-not-a-list", &[][..]),
        ("json-test-fails", &[]),
        ("json-too-many", &[]),
        ("json-unknown-op", &[]),
        // Step 4: managedFields of fields that only defaults set.
        ("merge-basics", &[4]),
        ("strategic-bad-directive", &[]),
        ("strategic-container-by-name", &[]),
        ("strategic-container-delete", &[]),
        ("strategic-container-replace", &[]),
        ("strategic-env-merge", &[]),
        ("strategic-map-replace", &[]),
        ("strategic-no-merge-key", &[]),
        ("strategic-ownerreferences", &[]),
        ("strategic-ports-merge", &[]),
        ("strategic-secret-configmap", &[2]),
        ("strategic-service-ports", &[]),
        ("strategic-set-element-order-conflict", &[]),
        ("strategic-strategy-retainkeys", &[]),
        ("strategic-volume-retainkeys", &[]),
    ] {
        check(&format!("patch/{scenario}"), skipped);
    }
}

/// KAPI-SSA-01: the recorded applies.
#[test]
fn recorded_applies() {
    for scenario in [
        "atomic-list",
        "client-side-migration",
        "conflict-with-update",
        "custom-resource",
        "custom-resource-default",
        "custom-resource-status",
        "custom-resource-unknown-field",
        "drop-field",
        "list-map-conflict",
        "list-map-default-key",
        "list-map-order",
        "managed-fields-survive-update",
        "many-updaters",
        "nested-remove-parent",
        "noop",
        "set",
        "update-removes-owned",
    ] {
        check(&format!("apply/{scenario}"), &[]);
    }
}

/// KAPI-SSA-01: ownership through scale, as `apply/scale-subresource` records it.
#[test]
fn ownership_through_scale() {
    let replicas = FieldPath::fields(["spec", "replicas"]).0;
    let entries = json!([{
        "manager": "ann", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}}
    }]);
    let parent = Managed::decode(Some(&entries)).unwrap();
    let schema = Schema::from_json(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}))
    .unwrap();
    let mut scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "uid": "u"}, "spec": {"replicas": 0}});
    scale["metadata"]["managedFields"] = Value::Array(to_scale(&parent, &replicas).encode());
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2}});
    let write = Write {
        manager: "ben",
        api_version: "autoscaling/v1",
        subresource: "scale",
        schema: &schema,
        reset: &FieldSet::new(),
        now: "2026-01-01T00:00:02Z",
    };
    let Err(ApplyError::Conflict(conflicts)) = apply(&scale, &config, &write, false) else {
        panic!("no conflict");
    };
    assert_eq!(conflicts.to_string(), "Apply failed with 1 conflict: conflict with \"ann\": .spec.replicas");
    let applied = apply(&scale, &config, &write, true).unwrap().object;
    let scale = Managed::decode(applied["metadata"].get("managedFields")).unwrap();
    let after = from_scale(&parent, &scale, &replicas, "apps/v1").encode();
    assert_eq!(
        Value::Array(after),
        json!([
            {"manager": "ben", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}, "subresource": "scale"},
            {"manager": "ann", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:paused": {}}}}
        ])
    );
}
