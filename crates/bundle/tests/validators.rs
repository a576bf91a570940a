//! The validators beside upstream's own answers (SDK-BUNDLE-22, SDK-BUNDLE-23, CATLG-48).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod common;

use std::collections::BTreeMap;

use mainstay_bundle::validators::{self, Manifests, Options};
use serde_json::{Value, json};

/// Every answer of one bundle, in the shape of the golden file.
fn answers(files: &common::Files, root: &str) -> Value {
    let manifests = Manifests::read(files.iter().map(|(path, bytes)| (path, bytes))).unwrap();
    let options = Options::default();
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for validator in validators::VALIDATORS.iter().chain([&validators::OBJECTS]) {
        if ["load", "format", "content", "multiarch"].contains(&validator.name) {
            continue;
        }
        for finding in validator.run(&manifests, &options) {
            found.entry(validator.name).or_default().push(finding.to_string());
        }
    }
    let texts = |findings: Vec<validators::Finding>| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "path": root,
        "load": texts(manifests.findings.clone()),
        "format": texts(validators::format(&manifests)),
        "content": texts(validators::content(&manifests, &format!("{root}/"), &[], &options)),
        "findings": found,
    })
}

#[test]
fn dump() {
    let Some(bundles) = common::bundles() else { return };
    let mut out = String::new();
    for (path, files) in bundles {
        out.push_str(&format!("{}\n", answers(files, path)));
    }
    std::fs::write("/tmp/h/g/mine.jsonl", out).unwrap();
}
