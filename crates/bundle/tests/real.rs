//! All real bundles of the test data: reading, facts, permissions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::common;
use mainstay_bundle::permissions::{self, Account, Scope};
use mainstay_bundle::{Bundle, Content, RenderOptions, render};
use mainstay_rbac::{PolicyRule, breakdown, covers};
use mainstay_testing::data;
use serde_json::Value;

/// OLM1-INST-06, OLM0-BUNDLE-02: which of the 142 bundles cannot be read, and what is said about them.
#[test]
fn every_real_bundle_reads_or_says_why() {
    let Some(bundles) = common::bundles() else { return };
    assert_eq!(bundles.len(), 142);
    let mut report = String::new();
    for (name, files) in bundles {
        for (how, result) in [("install", Bundle::read(files)), ("catalog", Bundle::read_for_catalog(files))] {
            match result {
                Err(error) => {
                    let _ = writeln!(report, "{name} {how}: {error}");
                }
                Ok(bundle) => {
                    for finding in bundle.check().into_iter().filter(|_| how == "install") {
                        let _ = writeln!(report, "{name} check: {finding}");
                    }
                    for warning in bundle.warnings {
                        let _ = writeln!(report, "{name} {how} warning: {warning}");
                    }
                }
            }
        }
    }
    insta::assert_snapshot!(report);
}

/// OLM0-BUNDLE-03, OLM0-BUNDLE-05: name, version, edges and CRDs of every bundle equal the recorded index.
#[test]
fn facts_equal_the_index() {
    let Some(bundles) = common::bundles() else { return };
    let Some(index) = data::json("bundles-index.json.gz") else { return };
    let mut compared = 0;
    for record in index.as_array().unwrap() {
        let text = |key: &str| record[key].as_str().unwrap_or_default().trim().to_owned();
        let name = format!("{}/{}", text("pkg"), text("dir"));
        let Ok(bundle) = Bundle::read_for_catalog(&bundles[&name]) else { continue };
        let facts = bundle.facts();
        assert_eq!(facts.name, text("name"), "{name}");
        assert_eq!(facts.version, text("version"), "{name}");
        assert_eq!(facts.replaces.unwrap_or_default(), text("replaces"), "{name}");
        assert_eq!(facts.skip_range.unwrap_or_default(), text("skipRange"), "{name}");
        let skips: Vec<String> = serde_json::from_value(record["skips"].clone()).unwrap_or_default();
        assert_eq!(facts.skips, skips, "{name}");
        assert_eq!(facts.package, record["ann"]["operators.operatorframework.io.bundle.package.v1"], "{name}");
        let modes: Vec<String> = serde_json::from_value(record["im"].clone()).unwrap_or_default();
        let mut modes: Vec<_> = modes.iter().map(String::as_str).collect();
        modes.sort_unstable();
        assert_eq!(bundle.csv.supported_modes(), modes, "{name}");
        assert_eq!(bundle.csv.owned_api_services.len() as u64, record["apiown"].as_u64().unwrap_or_default(), "{name}");
        compared += 1;
    }
    assert!(compared > 130, "{compared}");
}

/// The value without empty text, lists and mappings: the recorded catalog was not written by Go's structs, which decide those.
fn filled(value: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => Value::Array(items.iter().map(filled).filter(|item| !empty(item)).collect()),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, item)| (key.clone(), filled(item))).filter(|(_, item)| !empty(item)).collect())
        }
        other => other.clone(),
    }
}

/// OLM1-BUILD-03, OLM1-BUILD-05: the migrated entries equal those of the recorded catalog, which was made from the same CSVs.
#[test]
fn migrated_entries_equal_the_catalogs() {
    let Some(bundles) = common::bundles() else { return };
    let Some(blobs) = data::json_lines("catalog-60.json.gz") else { return };
    let catalog: BTreeMap<String, Value> = blobs
        .into_iter()
        .filter(|blob| blob["schema"] == "olm.bundle")
        .map(|blob| (blob["name"].as_str().unwrap().to_owned(), blob))
        .collect();
    let (mut compared, mut failures) = (0, Vec::new());
    for (name, files) in bundles {
        let Ok(bundle) = Bundle::read_for_catalog(files) else { continue };
        let Some(mut theirs) = catalog.get(&bundle.csv.name).cloned() else { continue };
        // One author wrote a group beside the name; Go's struct has no such field.
        for property in theirs["properties"].as_array_mut().unwrap().iter_mut().filter(|property| property["type"] == "olm.csv.metadata") {
            for crd in property["value"]["crdDescriptions"]["owned"].as_array_mut().into_iter().flatten() {
                crd.as_object_mut().unwrap().remove("group");
            }
        }
        let ours = bundle.catalog_blob(theirs["image"].as_str().unwrap(), Content::CsvMetadata).unwrap();
        let property = |blob: &Value, kind: &str| -> Vec<Value> {
            blob["properties"].as_array().unwrap().iter().filter(|property| property["type"] == kind).map(filled).collect()
        };
        for kind in ["olm.package", "olm.gvk", "olm.gvk.required", "olm.package.required", "olm.csv.metadata"] {
            if property(&ours, kind) != property(&theirs, kind) {
                failures.push(format!("{name} {kind}"));
            }
        }
        compared += 1;
    }
    assert!(failures.is_empty(), "{} of {compared}\n{}", failures.len(), failures.join("\n"));
    assert!(compared > 50, "{compared}");
}

fn granted(grants: &[permissions::Grant], scope: &Scope) -> Vec<PolicyRule> {
    grants.iter().filter(|grant| grant.scope == Scope::Cluster || grant.scope == *scope).map(|grant| grant.rule.clone()).collect()
}

/// OLM1-PERM-05, OLM1-PERM-08, MS-RBAC-01: for every bundle that renders, the derived permissions cover what each object needs, hold every rule
/// of the roles it defines (or may escalate them), and no verb of them is granted twice.
#[test]
fn permissions_are_enough_and_the_least() {
    let Some(bundles) = common::bundles() else { return };
    let mut derived = 0;
    // One version of each package: the others ask for much the same.
    let newest: BTreeMap<_, _> = bundles.iter().map(|(name, files)| (name.split('/').next(), (name, files))).collect();
    for (name, files) in newest.into_values() {
        let Ok(bundle) = Bundle::read(files) else { continue };
        let own = vec!["install-ns".to_owned()];
        for targets in [None, Some(own)] {
            let options =
                RenderOptions { install_namespace: "install-ns".to_owned(), target_namespaces: targets, ..RenderOptions::default() };
            let Ok(objects) = render(&bundle, &options) else { continue };
            let grants = permissions::derive(&objects, []);
            derived += 1;
            for object in &objects {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let scope = Scope::Namespace(namespace.to_owned());
                if matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")) && object["apiVersion"] == "rbac.authorization.k8s.io/v1"
                {
                    let rules: Vec<PolicyRule> = serde_json::from_value(object["rules"].clone()).unwrap_or_default();
                    let scope = if object["kind"] == "Role" { scope.clone() } else { Scope::Cluster };
                    let missing = covers(&granted(&grants, &scope), &rules);
                    // Or the permission to escalate this very role, where holding its rules would be no way to be allowed to write it.
                    let resource = if object["kind"] == "Role" { "roles" } else { "clusterroles" };
                    let escalate = PolicyRule::resources(&["escalate"], &["rbac.authorization.k8s.io"], &[resource]);
                    let escalate = [escalate.named(&[object["metadata"]["name"].as_str().unwrap()])];
                    assert!(missing.is_empty() || covers(&granted(&grants, &scope), &escalate).is_empty(), "{name}: {missing:?}");
                }
                let resource = mainstay_bundle::kinds::rendered(object["kind"].as_str().unwrap()).unwrap().resource;
                let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
                let needed = PolicyRule::resources(&["get", "update", "patch", "delete"], &[group], &[resource]);
                let needed = [needed.named(&[object["metadata"]["name"].as_str().unwrap()])];
                assert_eq!(covers(&granted(&grants, &scope), &needed), [], "{name}");
            }
            for (index, grant) in grants.iter().enumerate().filter(|_| grants.len() < 40) {
                let others: Vec<_> =
                    grants.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, grant)| grant.clone()).collect();
                let rest = granted(&others, &grant.scope);
                for atom in breakdown(&grant.rule) {
                    assert_eq!(covers(&rest, std::slice::from_ref(&atom)), std::slice::from_ref(&atom), "{name}: granted twice");
                }
            }
        }
    }
    assert!(derived > 70, "{derived}");
}

/// OLM1-PERM-03, OLM1-PERM-05: the objects to apply for one bundle in its own namespace.
#[test]
fn permissions_as_manifests() {
    let Some(bundles) = common::bundles() else { return };
    let bundle = Bundle::read(&bundles["koku-metrics-operator/4.4.0"]).unwrap();
    let options = RenderOptions {
        install_namespace: "koku".to_owned(),
        target_namespaces: Some(vec!["koku".to_owned()]),
        ..RenderOptions::default()
    };
    let objects = render(&bundle, &options).unwrap();
    let grants = permissions::derive(&objects, []);
    let account = Account { name: "koku-installer", namespace: "koku", roles: "koku-installer" };
    insta::assert_snapshot!(mainstay_yaml::to_multi_string(&permissions::manifests(&grants, account)));
    assert_eq!(permissions::missing(&grants, &grants), []);
    assert_eq!(permissions::missing(&[], &grants).len(), grants.len());
}
