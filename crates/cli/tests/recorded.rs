//! The recorded answers of upstream's programs, asked through the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fmt::Write as _;

use crate::common::{lines, mainstay, unpacked};
use mainstay_testing::crd_pairs::{Pair, pairs};
use mainstay_testing::data::path;
use serde_json::{Value, json};
use sha2::Digest as _;

/// MS-CLI-09, OLM1-SEL-01, OLM1-SEL-09: `resolve --cases` gives upstream's bundle or upstream's words in all 168 recorded cases.
#[test]
fn resolve_cases() {
    let (Some(cases), Some(catalog)) = (path("resolve-cases/cases.jsonl"), path("catalog-60.json.gz")) else { return };
    let run = mainstay([&"resolve".into(), &"--cases".into(), &cases, &"--catalog".into(), &catalog]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let (questions, answers) = (lines(&std::fs::read_to_string(cases).unwrap()), lines(&run.stdout));
    assert_eq!((questions.len(), answers.len()), (168, 168));
    for (question, answer) in questions.iter().zip(&answers) {
        if let Some(error) = question["error"].as_str() {
            assert_eq!(answer["error"]["message"], error, "{question}");
        } else {
            assert_eq!(answer["bundle"], question["resolvedBundle"], "{question}");
            assert_eq!(answer["version"], question["resolvedVersion"], "{question}");
            assert_eq!(answer["catalog"], "catalog-60");
            assert!(!answer["channels"].as_array().unwrap().is_empty(), "{answer}");
        }
    }
}

/// MS-CLI-09, OLM1-INST-07: `bundle render --cases` gives the objects or the words of upstream's renderer in all recorded cases.
#[test]
fn render_cases() {
    let (Some(recorded), Some(bundles)) = (path("bundle-oracle/olmv1-render.jsonl"), unpacked("bundles.tar.gz")) else { return };
    let run =
        mainstay([&"bundle".into(), &"render".into(), &"--cases".into(), &recorded, &"--root".into(), &bundles.path().join("bundles")]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let (cases, answers) = (lines(&std::fs::read_to_string(recorded).unwrap()), lines(&run.stdout));
    assert_eq!((cases.len(), answers.len()), (90, 90));
    for (case, answer) in cases.iter().zip(&answers) {
        let what = format!("{} {}", case["bundle"], case["targetNamespaces"]);
        let error = if case["loadError"].is_null() { &case["error"] } else { &case["loadError"] };
        if error.is_null() {
            let sorted = |list: &mut dyn Iterator<Item = String>| {
                let mut all: Vec<String> = list.collect();
                all.sort();
                all
            };
            let ours = sorted(&mut answer.as_array().unwrap().iter().map(shown));
            let theirs = sorted(&mut case["objects"].as_array().unwrap().iter().map(ToString::to_string));
            assert_eq!(ours, theirs, "{what}");
        } else {
            assert_eq!(answer["error"]["message"], *error, "{what}");
        }
    }
}

/// A rendered object as the recording shows it: of a CRD only the head, the conversion and a hash.
fn shown(object: &Value) -> String {
    if object["kind"] != "CustomResourceDefinition" {
        return object.to_string();
    }
    let hash = sha2::Sha256::digest(object["spec"].to_string());
    let mut hex = String::new();
    for byte in hash {
        write!(hex, "{byte:02x}").unwrap();
    }
    let (version, kind, metadata) = (&object["apiVersion"], &object["kind"], &object["metadata"]);
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "specConversion": object["spec"]["conversion"], "specSha256": hex})
        .to_string()
}

/// MS-CLI-09, OLM1-CRD-02: `crd check --cases` gives upstream's verdict for all 130 recorded pairs.
#[test]
fn crd_cases() {
    let (Some(directory), Some(pairs)) = (path("crd-pairs"), pairs()) else { return };
    let mut text = String::new();
    for Pair { folder, .. } in pairs {
        writeln!(text, "{}", json!({"old": format!("{folder}/old.yaml"), "new": format!("{folder}/new.yaml")})).unwrap();
    }
    let scratch = tempfile::tempdir().unwrap();
    let cases = scratch.path().join("cases.jsonl");
    std::fs::write(&cases, text).unwrap();
    let run = mainstay([&"crd".into(), &"check".into(), &"--cases".into(), &cases, &"--root".into(), &directory]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answers = lines(&run.stdout);
    assert_eq!((pairs.len(), answers.len()), (130, 130));
    for (pair, answer) in pairs.iter().zip(&answers) {
        assert_eq!(answer["safe"], pair.safe, "{}", pair.folder);
        // The findings' words are proven where they are made (mainstay-schema).
        let found = !answer["findings"].as_array().unwrap().is_empty();
        assert_eq!(pair.safe, !found, "{}", pair.folder);
        let start = format!("validating upgrade for CRD \"{}\": ", pair.name);
        assert_eq!(answer["message"].as_str().unwrap().starts_with(&start), found, "{}", pair.folder);
    }
}

/// MS-CLI-09, CATLG-22: `opm validate` refuses what upstream refuses, in its words, and accepts what upstream accepts.
#[test]
fn opm_validate() {
    let Some(directory) = unpacked("catalog-invalid.tar.gz") else { return };
    let root = directory.path().join("catalog-invalid");
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(root.join("expected-validate-errors.json")).unwrap()).unwrap();
    let mut count = 0;
    for (package, error) in expected.as_object().unwrap() {
        let place = tempfile::tempdir().unwrap();
        std::fs::copy(root.join(format!("{package}.json")), place.path().join("catalog.json")).unwrap();
        let run = mainstay([&"opm".into(), &"validate".into(), &place.path().to_owned()]);
        assert_eq!(run.code, 1, "{package}");
        let words = error.as_str().unwrap();
        // Upstream draws branches in any order.
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(|line| line.trim_start_matches(['└', '├', '─', '│', ' ']).to_owned()).collect();
            lines.sort();
            lines
        };
        let ours = run.stderr.strip_prefix("Error: ").unwrap_or_default();
        assert_eq!(sorted(ours), sorted(words), "{package}");
        count += 1;
    }
    assert_eq!(count, 8);
}
