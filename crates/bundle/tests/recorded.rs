//! The recorded answers of upstream's renderer and of `opm render`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use serde_json::{Value, json};

/// A rendered object as the recording shows it: of a CRD only the head, the conversion and a hash.
fn shown(object: &Value) -> String {
    if object["kind"] != "CustomResourceDefinition" {
        return object.to_string();
    }
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": object["metadata"],
        "specConversion": object["spec"]["conversion"],
        "specSha256": common::sha256(&object["spec"]),
    })
    .to_string()
}

/// OLM1-INST-02, OLM1-INST-07, OLM1-INST-08, OLM1-INST-09, OLM1-INST-10, OLM1-INST-12, OLM1-INST-16, OLM1-INST-17: 18 real bundles under
/// five choices of target namespaces give the objects that upstream's renderer gave, or its error word for word.
#[test]
fn rendering_equals_upstreams() {
    let Some(bundles) = common::bundles() else { return };
    let mut failures = Vec::new();
    let Some(cases) = common::recorded("olmv1-render.jsonl") else { return };
    assert_eq!(cases.len(), 90);
    for case in &cases {
        let name = case["bundle"].as_str().unwrap();
        let what = format!("{name} {}", case["targetNamespaces"]);
        let options = RenderOptions {
            install_namespace: case["installNamespace"].as_str().unwrap().to_owned(),
            target_namespaces: serde_json::from_value(case["targetNamespaces"].clone()).unwrap(),
            certificates: CertificateProvider::None,
            deployment: None,
        };
        let bundle = match Bundle::read(&bundles[name]) {
            Ok(bundle) => bundle,
            Err(error) => {
                if case["loadError"] != error.to_string() {
                    failures.push(format!("{what}: {error}"));
                }
                continue;
            }
        };
        match render(&bundle, &options) {
            Err(error) if case["error"] == error.to_string() => {}
            Err(error) => failures.push(format!("{what}: {error}\nwanted {}", case["error"])),
            Ok(objects) => {
                let mut ours: Vec<_> = objects.iter().map(shown).collect();
                let mut theirs: Vec<_> = case["objects"].as_array().into_iter().flatten().map(ToString::to_string).collect();
                ours.sort();
                theirs.sort();
                if ours != theirs {
                    let extra: Vec<_> = ours.iter().filter(|object| !theirs.contains(object)).collect();
                    let lacking: Vec<_> = theirs.iter().filter(|object| !ours.contains(object)).collect();
                    failures.push(format!("{what}:\n  ours   {extra:#?}\n  theirs {lacking:#?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// OLM1-BUILD-05, OLM0-BUNDLE-09, OLM0-BUNDLE-11: properties, related images and every embedded object of 36 real bundles equal
/// `opm render`'s.
#[test]
fn catalog_entries_equal_opms() {
    let Some(bundles) = common::bundles() else { return };
    let mut failures = Vec::new();
    let Some(cases) = common::recorded("opm-render.jsonl") else { return };
    assert_eq!(cases.len(), 36);
    for case in &cases {
        let name = case["bundle"].as_str().unwrap();
        let bundle = match Bundle::read_for_catalog(&bundles[name]) {
            Ok(bundle) => bundle,
            Err(error) => {
                if case["error"].is_null() {
                    failures.push(format!("{name}: {error}"));
                }
                continue;
            }
        };
        let mut blob = bundle.catalog_blob("", mainstay_bundle::Content::Objects).unwrap();
        let mut objects: Vec<_> = bundle
            .objects
            .iter()
            .map(|object| {
                json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"], "sha256": common::sha256(object)})
            })
            .collect();
        let properties = blob["properties"].as_array_mut().unwrap();
        properties.retain(|property| property["type"] != "olm.bundle.object");
        if blob != case["render"] {
            failures.push(format!("{name}:\n  ours   {blob}\n  theirs {}", case["render"]));
        }
        // The recording lists objects by kind and name.
        let theirs = case["objects"].as_array().cloned().unwrap_or_default();
        objects.sort_by_key(|object| (object["kind"].to_string(), object["name"].to_string()));
        for (ours, theirs) in objects.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs) {
            failures.push(format!("{name}: ours {ours} theirs {theirs}"));
        }
        assert_eq!(objects.len(), theirs.len(), "{name}");
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.len(), failures.join("\n"));
}
