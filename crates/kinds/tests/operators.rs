//! What real operators apply is accepted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, registry, validate_create};
use serde_json::{Value, json};

/// KAPI-REST-07: no rendered object of a real operator is refused, and filling in defaults twice changes nothing.
#[test]
fn objects_of_real_operators_are_accepted() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bundle-oracle/olmv1-render.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "shared data is absent");
        eprintln!("skipped: ../shared/data is absent");
        return;
    };
    let context = Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() };
    let (mut accepted, mut refused) = (0, Vec::new());
    for line in text.lines() {
        let render: Value = serde_json::from_str(line).unwrap();
        for object in render["objects"].as_array().into_iter().flatten() {
            let object = object.get("object").unwrap_or(object);
            let (Some(version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else { continue };
            let gvk = Gvk::of(version, kind);
            let Some(resource) = registry().resource_of_kind(&gvk) else { continue };
            if kind == "CustomResourceDefinition" {
                continue;
            }
            let mut object = object.clone();
            default(&gvk, &mut object);
            let once = object.clone();
            default(&gvk, &mut object);
            assert_eq!(object, once, "defaults of {gvk} are not stable");
            // What a server does with the namespace of a request.
            if !resource.namespaced {
                object["metadata"].as_object_mut().unwrap().remove("namespace");
            } else if object["metadata"].get("namespace").is_none() {
                object["metadata"]["namespace"] = json!("ns");
            }
            object["metadata"]["uid"] = json!("u");
            prepare_create(&gvk, &mut object, &context);
            let errors = validate_create(&gvk, &object);
            if errors.is_empty() {
                accepted += 1;
            } else {
                refused.push(format!("{} {gvk} {}: {}", render["bundle"], object["metadata"]["name"], errors[0]));
            }
        }
    }
    eprintln!("{accepted} objects accepted, {} refused", refused.len());
    for line in refused.iter().take(20) {
        eprintln!("{line}");
    }
    assert!(refused.is_empty());
    assert!(accepted > 300, "only {accepted} objects were found");
}
