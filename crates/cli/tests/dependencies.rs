//! `mainstay resolve --resolve-dependencies`: what is needed besides, offline.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;

use crate::common::{Run, lines, mainstay};
use serde_json::{Value, json};
use snapbox::{assert_data_eq, str};

/// One package with a bundle for each version; what the bundle needs and provides besides.
fn package(name: &str, bundles: &[(&str, Value)]) -> String {
    let bundle = |version: &str| format!("{name}.v{version}");
    let mut entries = Vec::new();
    for (at, (version, _)) in bundles.iter().enumerate() {
        let skips: Vec<String> = bundles[..at].iter().map(|(version, _)| bundle(version)).collect();
        entries.push(json!({"name": bundle(version), "skips": skips}));
    }
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    for (version, more) in bundles {
        let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": name, "version": version}})];
        properties.extend(more.as_array().into_iter().flatten().cloned());
        let image = format!("example.com/{name}:{version}");
        blobs.push(json!({"schema": "olm.bundle", "package": name, "name": bundle(version), "image": image, "properties": properties}));
    }
    blobs.iter().fold(String::new(), |text, blob| text + &blob.to_string() + "\n")
}

fn needs(package: &str, range: &str) -> Value {
    json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": range}})
}

fn api(kind: &str, version: &str) -> Value {
    json!({"type": "olm.gvk", "value": {"group": "example.com", "version": version, "kind": kind}})
}

/// A ship that needs an engine that needs fuel; a mill that provides another version of the engine's API; a kite that needs what there is
/// not.
fn catalog(folder: &Path) -> String {
    let needs_fuel = json!([needs("fuel", ">=1.0.0"), api("Engine", "v1")]);
    let text = [
        package("ship", &[("1.0.0", json!([needs("engine", ">=2.0.0")]))]),
        package("engine", &[("1.0.0", json!([api("Engine", "v1")])), ("2.0.0", needs_fuel)]),
        package("fuel", &[("1.0.0", json!([])), ("1.1.0", json!([]))]),
        package("mill", &[("1.0.0", json!([api("Engine", "v2")]))]),
        package("kite", &[("1.0.0", json!([needs("wind", ">=1.0.0")]))]),
    ];
    let file = folder.join("harbour").with_extension("json");
    std::fs::write(&file, text.concat()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn ask(packages: &[&str], more: &[&str], code: i32) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let arguments = [&["resolve"], packages, &["--catalog", &catalog, "--resolve-dependencies"], more].concat();
    let run = mainstay(&arguments);
    assert_eq!(run.code, code, "{arguments:?}\n{}\n{}", run.stdout, run.stderr);
    run
}

fn value(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap()
}

/// MS-CLI-09, OLM0-RES-07: what must be added, dependencies first, and why.
#[test]
fn table() {
    let run = ask(&["ship"], &[], 0);
    assert_data_eq!(
        run.stdout,
        str![[r"
PACKAGE   BUNDLE        VERSION   CHANNELS   CATALOG
ship      ship.v1.0.0   1.0.0     stable     harbour

added before, in this order:
  fuel.v1.1.0 (1.1.0) from catalog harbour
    because engine.v2.0.0 requires package fuel >=1.0.0
  engine.v2.0.0 (2.0.0) from catalog harbour
    because ship.v1.0.0 requires package engine >=2.0.0

why:
  ship.v1.0.0 is the only bundle of the package

"]]
    );
}

/// MS-CLI-09, OLM0-RES-07: the same for programs.
#[test]
fn what_is_added_as_json() {
    let found = value(&ask(&["ship"], &["-o", "json"], 0));
    assert_eq!(found["bundle"], "ship.v1.0.0");
    let added: Vec<(&str, &Value)> =
        found["added"].as_array().unwrap().iter().map(|added| (added["bundle"].as_str().unwrap(), &added["because"])).collect();
    assert_eq!(
        added,
        [
            ("fuel.v1.1.0", &json!(["engine.v2.0.0 requires package fuel >=1.0.0"])),
            ("engine.v2.0.0", &json!(["ship.v1.0.0 requires package engine >=2.0.0"])),
        ]
    );
    assert_eq!(found["added"][0]["image"], "example.com/fuel:1.1.0");
    // Who wants the engine oneself has it added no more.
    let found = value(&ask(&["ship", "engine"], &["-o", "json"], 0));
    let names = |list: &Value| list.as_array().unwrap().iter().map(|one| one["bundle"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let mut bundles = names(&found["bundles"]);
    bundles.sort();
    assert_eq!(bundles, ["engine.v2.0.0", "ship.v1.0.0"]);
    assert_eq!(names(&found["added"]), ["fuel.v1.1.0"]);
    assert_eq!(found["refused"], json!([]));
}

/// MS-EXPL-01, MS-EXPL-05, OLM1-OWN-02: exit code 4 and the facts for who cannot be met; the others are answered.
#[test]
fn conflicts() {
    let missing = "kite 1.0.0 requires package wind >=1.0.0, which no catalog has";
    let run = ask(&["kite"], &[], 4);
    assert!(run.stderr.contains(missing), "{}", run.stderr);
    let found = value(&ask(&["kite"], &["-o", "json"], 4));
    assert_eq!(found["error"]["message"].as_str().unwrap().matches(missing).count(), 1, "{found}");

    let run = ask(&["ship", "mill", "fuel"], &[], 4);
    assert!(run.stdout.contains("ship.v1.0.0") && run.stdout.contains("fuel.v1.1.0"), "{}", run.stdout);
    assert!(run.stderr.contains("API Engine.example.com can have one provider"), "{}", run.stderr);
    let found = value(&ask(&["ship", "mill", "fuel"], &["-o", "json"], 4));
    assert_eq!(found["refused"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["refused"][0]["package"], "mill");
    assert_eq!(found["bundles"].as_array().unwrap().len(), 2, "{found}");
}

/// MS-CLI-09: many questions, each with what it needs; an answer that is no is an answer.
#[test]
fn cases() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("questions.jsonl");
    let questions = [
        json!({"package": "ship"}),
        json!({"package": "kite"}),
        json!({"package": "engine", "version": "<2"}),
        json!({"package": "engine", "installed": {"name": "engine.v1.0.0", "version": "1.0.0"}}),
    ];
    std::fs::write(&file, questions.iter().fold(String::new(), |text, question| text + &question.to_string() + "\n")).unwrap();
    let answers = lines(&ask(&[], &["--cases", file.to_str().unwrap()], 0).stdout);
    assert_eq!(answers.len(), 4);
    let added = |at: usize| answers[at]["added"].as_array().unwrap().iter().map(|one| one["package"].clone()).collect::<Vec<_>>();
    assert_eq!((answers[0]["bundle"].as_str(), added(0)), (Some("ship.v1.0.0"), vec![json!("fuel"), json!("engine")]));
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("no catalog has"), "{}", answers[1]);
    assert_eq!((answers[2]["bundle"].as_str(), added(2)), (Some("engine.v1.0.0"), vec![]));
    assert_eq!((answers[3]["bundle"].as_str(), added(3)), (Some("engine.v2.0.0"), vec![json!("fuel")]));
}
