//! Reading bundles: broken ones as `opm render` reads them, and trees of any sort.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::broken::{edit, example, golden};
use crate::common;
use mainstay_bundle::validators::{self, Manifests, Options, Selection};
use mainstay_bundle::{Bundle, Content, diff};
use proptest::prelude::*;
use serde_json::{Value, json};

/// OLM0-BUNDLE-03, OLM0-BUNDLE-09, OLM0-BUNDLE-10, OLM0-BUNDLE-11, CATLG-32: broken bundles give the entry or the error that opm gives.
#[test]
fn broken_bundles_are_read_as_by_opm() {
    let cases = golden("broken.json");
    let edits: BTreeMap<&str, &Value> =
        cases["cases"].as_array().unwrap().iter().map(|case| (case["name"].as_str().unwrap(), &case["edits"])).collect();
    let expected = golden("rendered.json");
    assert!(expected.as_array().unwrap().len() > 170);
    for case in expected.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut files = example();
        edits[name].as_array().unwrap().iter().for_each(|change| edit(&mut files, change));
        let read = Bundle::read_for_catalog(&files).and_then(|bundle| bundle.catalog_blob("", Content::Objects));
        match read {
            Err(error) => assert_eq!(Some(error.to_string().as_str()), case["error"].as_str(), "{name}"),
            Ok(blob) => {
                let related: Vec<Value> = blob["relatedImages"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|image| json!({"image": image["image"], "name": image["name"]}))
                    .collect();
                let kept =
                    json!({"name": blob["name"], "package": blob["package"], "properties": blob["properties"], "relatedImages": related});
                assert_eq!(Some(common::sha256(&kept).as_str()), case["sha256"].as_str(), "{name}: {kept:#}");
            }
        }
    }
}

/// OLM0-BUNDLE-05: the default channel is the named one, the only one, or the first by name.
#[test]
fn default_channels() {
    let key = "operators.operatorframework.io.bundle.channel";
    for (channels, default, expected) in [
        ("b,a", Some("b"), Some("b")),
        ("b,a", None, Some("a")),
        ("only", None, Some("only")),
        ("b, a ,", Some(""), Some("a")),
        ("", None, None),
    ] {
        let mut files = example();
        let default = default.map_or_else(String::new, |default| format!("  {key}.default.v1: \"{default}\"\n"));
        let text = format!("annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n  {key}s.v1: \"{channels}\"\n{default}");
        files.insert("metadata/annotations.yaml".to_owned(), text.into_bytes());
        let bundle = Bundle::read_for_catalog(&files).unwrap();
        assert_eq!(bundle.facts().default_channel.as_deref(), expected, "{channels:?}");
    }
}

/// OLM0-BUNDLE-09, OLM0-BUNDLE-10: files in `metadata` are known by their top-level key; both spellings of a property are.
#[test]
fn metadata_files_are_known_by_their_key() {
    let mut files = example();
    let properties =
        "properties:\n- property: {type: olm.kubeversion, value: {version: \"1.16.0\"}}\n- {type: x, value: [1, {b: 2, a: 1}]}\n";
    files.insert("metadata/anything.yml".to_owned(), properties.as_bytes().to_vec());
    let dependencies = "dependencies:\n- {type: olm.package, value: {packageName: q, version: \">1.0.0\"}}\n";
    files.insert("metadata/dependency.yaml".to_owned(), dependencies.as_bytes().to_vec());
    files.insert("metadata/broken.yaml".to_owned(), b"a: [".to_vec());
    let bundle = Bundle::read_for_catalog(&files).unwrap();
    assert_eq!(bundle.properties.len(), 2);
    assert_eq!(bundle.properties[0].value(), json!({"version": "1.16.0"}));
    assert_eq!((bundle.dependencies.len(), bundle.dependencies[0].kind.as_str()), (1, "olm.package"));
    assert!(bundle.warnings.iter().any(|warning| warning.starts_with("metadata/broken.yaml: passed over: ")), "{:?}", bundle.warnings);
}

/// OLM0-BUNDLE-02: bombs are refused, quickly and by name.
#[test]
fn bombs_are_refused() {
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (this, last) in ('b'..='k').zip('a'..) {
        writeln!(bomb, "{this}: &{this} [*{last},*{last},*{last},*{last},*{last},*{last},*{last},*{last},*{last}]").unwrap();
    }
    let deep = "[".repeat(100_000);
    for content in [bomb, deep] {
        let mut files = example();
        files.insert("manifests/bomb.yaml".to_owned(), content.into_bytes());
        let refused = Bundle::read(&files).unwrap_err().to_string();
        assert!(refused.contains("\"manifests/bomb.yaml\"") && refused.contains("line "), "{refused}");
        let manifests = Manifests::read(&files).unwrap();
        assert!(manifests.findings.iter().any(|finding| finding.rule.id == "load/object"), "{:?}", manifests.findings);
    }
}

/// Text of a manifest or metadata file: sound, odd, or noise.
fn content() -> impl Strategy<Value = String> {
    let kinds = prop_oneof![
        Just("ClusterServiceVersion"),
        Just("CustomResourceDefinition"),
        Just("ConfigMap"),
        Just("Role"),
        Just("PodDisruptionBudget"),
        Just("Pod"),
    ];
    let leaf =
        prop_oneof!["[a-z.]{0,6}", Just("1".to_owned()), Just("null".to_owned()), Just("true".to_owned()), Just("[a, b]".to_owned())];
    let field = prop_oneof![
        Just("version"),
        Just("install: {spec"),
        Just("versions"),
        Just("names"),
        Just("minAvailable"),
        Just("displayName"),
        Just("installModes"),
        Just("customresourcedefinitions"),
    ];
    let object = (kinds, "[a-z.]{0,8}", proptest::collection::vec((field, leaf.clone()), 0..4)).prop_map(|(kind, name, fields)| {
        let mut text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name:?}}}\nspec:\n");
        for (field, value) in fields {
            let closing = if field.contains('{') { "}" } else { "" };
            writeln!(text, "  {field}: {value}{closing}").unwrap();
        }
        text
    });
    let metadata =
        (prop_oneof![Just("annotations"), Just("dependencies"), Just("properties")], leaf.clone(), leaf).prop_map(|(key, kind, value)| {
            if key == "annotations" {
                format!("annotations:\n  operators.operatorframework.io.bundle.channels.v1: {kind}\n  x: {value}\n")
            } else {
                format!("{key}:\n- type: {kind}\n  value: {value}\n")
            }
        });
    prop_oneof![4 => object, 2 => metadata, 1 => "[ -~\n]{0,60}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// OLM0-BUNDLE-02, SDK-BUNDLE-22: whatever the tree, nothing panics, an installable bundle can be listed, and findings name files that are there.
    #[test]
    fn any_tree_is_read_or_refused(
        extra in proptest::collection::vec((prop_oneof![
            "manifests/[a-c]{1,2}\\.(yaml|yml|json|txt)",
            "metadata/(annotations|dependencies|properties|x)\\.yaml",
            "(manifests|metadata)/\\.?[a-b](/[a-b])?",
            "[a-z]{1,4}",
        ], content()), 0..6),
        base in any::<bool>(),
    ) {
        let mut files = if base { example() } else { common::Files::new() };
        files.extend(extra.into_iter().map(|(path, text)| (path, text.into_bytes())));
        let installable = Bundle::read(&files);
        let listed = Bundle::read_for_catalog(&files);
        if let (Ok(bundle), Ok(other)) = (&installable, &listed) {
            prop_assert_eq!(&bundle.csv.name, &other.csv.name);
            prop_assert!(other.refusal.is_none());
            let same = diff::diff(bundle, other);
            prop_assert!(same.changes.iter().all(|change| change.section == diff::Section::Bundle), "{:?}", same);
        }
        if let Ok(bundle) = &listed {
            prop_assert_eq!(&diff::diff(bundle, bundle).changes, &Vec::new());
            // Reading what was read gives the same entry.
            let again = Bundle::read_for_catalog(&files).unwrap();
            prop_assert_eq!(bundle.catalog_blob("", Content::Objects), again.catalog_blob("", Content::Objects));
        }
        if let Ok(manifests) = Manifests::read(&files) {
            let everything = Selection::parse("").unwrap();
            for finding in validators::run(&manifests, Some(&everything), &Options::default()) {
                prop_assert!(!finding.to_string().is_empty());
                if let Some(place) = &finding.place {
                    let known = files.contains_key(&place.file) || place.file == "metadata/annotations.yaml";
                    prop_assert!(known, "{:?}", finding);
                    if let (Some(line), Some(bytes)) = (place.line, files.get(&place.file)) {
                        prop_assert!(line >= 1 && line <= bytes.split(|byte| *byte == b'\n').count());
                    }
                }
            }
        }
    }
}
