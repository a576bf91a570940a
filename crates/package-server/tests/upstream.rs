//! PackageManifests of whole catalogs, as upstream's own package server makes them (v0.42.0).
//!
//! `upstream/examples.jsonl` holds its answers for `examples/catalog`, one package a line: operator-registry's server over the catalog, and
//! `RegistryProvider` of `pkg/package-server/provider`, with the CatalogSource of [`source`]; icons left out, as its list and get do.

use std::path::Path;

use mainstay_package_server::{Manifest, Packages, SourceFacts};
use serde_json::Value;

use crate::support::stored;

fn source() -> SourceFacts {
    SourceFacts {
        namespace: "market".into(),
        name: "real".into(),
        display_name: "Real".into(),
        publisher: "Us".into(),
        labels: [("team".to_owned(), "one".to_owned())].into(),
        ..SourceFacts::default()
    }
}

/// The files of a folder, with their paths.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            all.push((path.to_str().unwrap().trim_start_matches('/').to_owned(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    all
}

/// The paths at which two values differ.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                differences(&format!("{path}.{key}"), &ours[key], &theirs[key], found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() && !path.ends_with(".relatedImages") => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}[{at}]"), left, right, found);
            }
        }
        // Upstream's order is that of a Go map.
        (Value::Array(left), Value::Array(right)) if path.ends_with(".relatedImages") => {
            let set = |all: &[Value]| all.iter().map(Value::to_string).collect::<std::collections::BTreeSet<_>>();
            if set(left) != set(right) {
                found.push(format!("{path}: {ours} instead of {theirs}"));
            }
        }
        _ if ours != theirs => found.push(format!("{path}: {:.200} instead of {:.200}", ours.to_string(), theirs.to_string())),
        _ => {}
    }
}

/// Compares the packages of a catalog with upstream's, and returns how many there are and which differ.
fn compare(catalog: &Path, answers: &str) -> (usize, Vec<String>) {
    let (catalog, _folder) = stored('a', &files(catalog));
    let packages = Packages::read(&catalog);
    let source = source();
    let theirs: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = |all: &[Value]| all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let ours: Vec<Value> = packages
        .all()
        .iter()
        .map(|package| {
            let mut text = Vec::new();
            Manifest { source: &source, package, namespace: "market" }.write(&mut text, false).unwrap();
            serde_json::from_slice(&text).unwrap()
        })
        .collect();
    assert_eq!(names(&ours), names(&theirs));
    let mut found = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let mut here = Vec::new();
        differences("", ours, theirs, &mut here);
        if !here.is_empty() {
            found.push(format!("{}:\n  {}", ours["metadata"]["name"], here.join("\n  ")));
        }
    }
    (theirs.len(), found)
}

/// OLM0-API-28: each field of the packages of `examples/catalog` is what upstream's package server answers.
#[test]
fn our_examples() {
    let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/catalog");
    let (count, different) = compare(&catalog, include_str!("upstream/examples.jsonl"));
    assert!(count == 3 && different.is_empty(), "{}", different.join("\n"));
}
