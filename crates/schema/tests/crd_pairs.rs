//! Upstream's verdict on 130 pairs of consecutive versions of real CRDs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use mainstay_schema::{crd, upgrade};
use mainstay_testing::crd_pairs::pairs;
use serde_json::{Value, json};

/// A line as far as it is normative: upstream orders required names by chance, and prints Go dumps for alternatives, rules and differences inside a part.
fn normative(line: &str) -> String {
    if let Some((before, names)) = line.split_once("new required fields: [") {
        let mut names: Vec<&str> = names.trim_end_matches(']').split(' ').collect();
        names.sort_unstable();
        return format!("{before}new required fields: {names:?}");
    }
    for (mark, end) in [("oneOf: ", ": ["), ("unhandled changes found (XValidations", " ("), ("unhandled changes found (", " (")] {
        let dump = mark == "oneOf: "
            || mark.ends_with("XValidations")
            || line.contains("(Description")
            || line.contains("(Message")
            || line.contains("Rule");
        if line.contains(mark) && dump {
            return line.split_once(end).map_or(line, |(before, _)| before).to_owned();
        }
    }
    line.to_owned()
}

fn lines(message: &str) -> Vec<String> {
    let mut lines: Vec<String> = message.lines().map(normative).collect();
    lines.sort();
    lines
}

/// OLM1-CRD-02, OLM1-CRD-03, OLM1-CRD-04, OLM1-CRD-05, OLM1-CRD-06, OLM1-CRD-08: verdict and lines of all recorded pairs.
#[test]
fn recorded_pairs_have_the_recorded_verdict() {
    let Some(pairs) = pairs() else { return };
    let mut wrong = Vec::new();
    let mut accepted = 0;
    for pair in pairs {
        let (old, new) = (mainstay_yaml::parse(&pair.old).unwrap(), mainstay_yaml::parse(&pair.new).unwrap());
        let recorded = pair.error.as_deref().unwrap_or_default();
        let ours = match upgrade::check(&old, &new) {
            Ok(()) => {
                accepted += 1;
                String::new()
            }
            Err(findings) => upgrade::message(new["metadata"]["name"].as_str().unwrap(), &findings),
        };
        // The frame stands before the first line only, and upstream's first line is any of them.
        let bare = |text: &str| {
            text.split_once("\": ")
                .filter(|(frame, _)| frame.starts_with("validating upgrade for CRD \""))
                .map_or(text.to_owned(), |(_, rest)| rest.to_owned())
        };
        let (recorded, ours) = (lines(&bare(recorded)), lines(&bare(&ours)));
        if recorded != ours {
            let missing: Vec<&String> = recorded.iter().filter(|line| !ours.contains(line)).take(3).collect();
            let extra: Vec<&String> = ours.iter().filter(|line| !recorded.contains(line)).take(3).collect();
            wrong.push(format!("{}\n  missing {missing:#?}\n  extra {extra:#?}", pair.folder));
        }
    }
    assert!(wrong.is_empty(), "{} pairs differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(accepted, 70);
}

fn sample() -> Value {
    json!({"metadata": {"name": "samples.test.example.com"}, "spec": {"group": "test.example.com", "scope": "Namespaced",
        "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": {"type": "object"}, "status": {"type": "object"},
            "pollInterval": {"type": "string"}}}}}]}, "status": {"storedVersions": ["v1alpha1"]}})
}

fn check(change: impl Fn(&mut Value), expected: &[&str]) {
    let old = sample();
    let mut new = sample();
    change(&mut new);
    let findings = upgrade::check(&old, &new).unwrap_err();
    let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
    assert_eq!(
        upgrade::message("samples.test.example.com", &findings),
        format!("validating upgrade for CRD \"samples.test.example.com\": {}", expected.join("\n"))
    );
}

/// OLM1-CRD-02, OLM1-CRD-03, OLM1-CRD-08: the four cases of the seed's fixture.
#[test]
fn the_fixture_gives_exactly_the_lines() {
    check(|new| new["spec"]["scope"] = json!("Cluster"), &["scope: scope changed : \"Namespaced\" -> \"Cluster\""]);
    check(|new| new["spec"]["versions"][0]["name"] = json!("v1alpha2"), &["storedVersionRemoval: stored versions removed : [v1alpha1]"]);
    check(
        |new| {
            new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].as_object_mut().unwrap().remove("pollInterval");
        },
        &[
            "existingFieldRemoval: removed field : v1alpha1.^.pollInterval",
            "v1alpha1: ^.pollInterval: type: type changed : \"string\" -> \"\"",
        ],
    );
    check(
        |new| new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = json!(["pollInterval"]),
        &["v1alpha1: ^: required: new required fields: [pollInterval]"],
    );
}

/// OLM1-CRD-09: every message that is made has the frame once, at its beginning, and nothing of the older frame; one function makes it.
#[test]
fn the_older_frame_is_never_made() {
    let new_frame = |name: &str, old: &Value, new: &Value| {
        let Err(findings) = upgrade::check(old, new) else { return false };
        let message = upgrade::message(name, &findings);
        assert!(message.starts_with(&format!("validating upgrade for CRD \"{name}\": ")), "{message}");
        assert_eq!(message.matches("validating upgrade for CRD").count(), 1, "{message}");
        for old_words in ["failed: CustomResourceDefinition", "failed upgrade safety validation", "validation failed:"] {
            assert!(!message.contains(old_words), "{message}");
        }
        // The older frame writes steps into arrays as `[*]`; a schema's patterns, which end a line, may hold anything.
        assert!(findings.iter().all(|finding| !finding.path.contains("[*]")), "{message}");
        true
    };
    let mut dropped = sample();
    dropped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].as_object_mut().unwrap().remove("pollInterval");
    assert!(new_frame("samples.test.example.com", &sample(), &dropped));

    // The words of the frame stand in one place of the product.
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut places = Vec::new();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().path().join("src")).filter(|path| path.is_dir()).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("failed: CustomResourceDefinition"), "{}", path.display());
                places.extend((0..text.matches("validating upgrade for CRD").count()).map(|_| path.clone()));
            }
        }
    }
    assert_eq!(places.len(), 1, "{places:?}");
    assert!(places[0].ends_with("schema/src/upgrade.rs"), "{places:?}");

    let Some(pairs) = pairs() else { return };
    let mut refused = 0;
    for pair in pairs {
        let read = |text: &str| mainstay_yaml::parse(text).unwrap();
        refused += usize::from(new_frame(&pair.name, &read(&pair.old), &read(&pair.new)));
    }
    assert_eq!(refused, 60);
}

/// OLM1-CRD-06: served versions are compared in Kubernetes' order, and what the old CRD did already is left out.
#[test]
fn served_versions_are_compared_with_each_other() {
    let mut old = sample();
    let first = old["spec"]["versions"][0].clone();
    let version = |name: &str, required: Value| {
        let mut version = first.clone();
        version["name"] = json!(name);
        version["storage"] = json!(false);
        version["schema"]["openAPIV3Schema"]["required"] = required;
        version
    };
    old["spec"]["versions"].as_array_mut().unwrap().push(version("v1beta1", json!(["spec"])));
    let mut new = old.clone();
    new["spec"]["versions"].as_array_mut().unwrap().insert(0, version("v1", json!(["spec", "status"])));
    let lines: Vec<String> = upgrade::check(&old, &new).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        ["v1alpha1 -> v1: ^: required: new required fields: [spec status]", "v1beta1 -> v1: ^: required: new required fields: [status]"]
    );
    new["spec"]["conversion"] = json!({"strategy": "Webhook"});
    assert_eq!(upgrade::check(&old, &new), Ok(()));
}

/// KAPI-CRD-02: CRDs that real clusters run are accepted, read, and their patterns compile.
#[test]
fn real_definitions_are_accepted() {
    let Some(pairs) = pairs() else { return };
    let mut wrong = Vec::new();
    for pair in pairs {
        for (name, text) in [("old.yaml", &pair.old), ("new.yaml", &pair.new)] {
            let mut crd = mainstay_yaml::parse(text).unwrap();
            crd::fill(&mut crd);
            crd::prepare_create(&mut crd);
            let errors = crd::validate(&crd, &|_, _| Vec::new());
            // Eight of one package write their columns' paths as `JSONPath`, the word of v1beta1, which v1 does not know.
            let old_columns = crd.to_string().contains("\"JSONPath\"");
            let refused = errors.iter().any(|error| !(old_columns && error.field.as_str().ends_with(".JSONPath")));
            if refused || old_columns == errors.is_empty() {
                wrong.push(format!("{}/{name}: {}", pair.folder, mainstay_schema::field::aggregate(&errors)));
            } else if let Err(error) = crd::Definition::parse(&crd) {
                wrong.push(format!("{}/{name}: {error}", pair.folder));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
