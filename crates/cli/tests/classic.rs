//! What OLM classic decides, asked through the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use serde_json::{Value, json};

use crate::common::{lines, mainstay, unpacked, workspace};
use mainstay_testing::data;

fn bundle() -> String {
    workspace().join("examples/bundles/beacon/1.1.0").to_string_lossy().into_owned()
}

fn catalog() -> String {
    workspace().join("examples/catalog").to_string_lossy().into_owned()
}

/// OLM0-RES-16, OLM0-RES-18, MS-CLI-09: what Subscriptions would bring, what follows an installed CSV, and why there is nothing.
#[test]
fn resolution() {
    let classic = |words: &[&str]| {
        let catalog = catalog();
        let own = ["--classic", "--catalog", &catalog];
        mainstay(["resolve"].iter().chain(words).chain(&own))
    };
    let run = classic(&["beacon"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_words(&run.stdout, &["PACKAGE BUNDLE CHANNEL CATALOG REPLACES", "beacon beacon.v1.2.0 stable catalog -"]);
    let run = classic(&["beacon", "--installed", "beacon.v1.0.0", "-o", "json"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["install"][0]["bundle"], "beacon.v1.1.0", "{answer}");
    assert_eq!(answer["install"][0]["replaces"], "beacon.v1.0.0");
    let run = classic(&["beacon", "--channel", "none"]);
    assert_eq!(run.code, 4);
    let sentence = "no operators found in channel none of package beacon in the catalog referenced by subscription beacon";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    let run = classic(&["beacon", "--channel", "none", "-o", "json"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["refused"][0]["error"]["causes"], json!([sentence, "subscription beacon exists"]));
    // One that cannot be met stops no other.
    let run = classic(&["beacon", "nothing"]);
    assert_eq!(run.code, 4);
    assert!(run.stdout.contains("beacon.v1.2.0") && run.stderr.contains("subscription nothing"), "{}{}", run.stdout, run.stderr);
    assert_eq!(classic(&["beacon", "--version", "1"]).code, 2);
}

/// A table by its words.
fn assert_words(table: &str, expected: &[&str]) {
    let words: Vec<String> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(words, expected);
}

/// OLM0-API-21, OLM0-CSV-13, OLM0-CSV-19: a bundle's steps, roles and Deployments, for people and for programs.
#[test]
fn bundles() {
    let run = mainstay(["csv", "steps", &bundle()]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let kinds: Vec<&str> = run.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let expected =
        ["ClusterServiceVersion", "CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
    assert_eq!(kinds, expected);
    let run = mainstay(["csv", "permissions", &bundle(), "--namespace", "lights", "-o", "json"]);
    let objects: Value = serde_json::from_str(&run.stdout).unwrap();
    for object in objects.as_array().unwrap() {
        let kind = object["kind"].as_str().unwrap();
        assert!(kind == "ServiceAccount" || object["metadata"]["labels"]["olm.owner"] == "beacon.v1.1.0", "{object}");
        assert!(object["metadata"]["name"].as_str().unwrap().len() <= 64, "{object}");
    }
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "env: [{name: LEVEL, value: debug}]\nnodeSelector: {disk: fast}\n").unwrap();
    let run = mainstay(["csv", "deployments", &bundle(), "--config", config.path().to_str().unwrap(), "-o", "json"]);
    let deployments: Value = serde_json::from_str(&run.stdout).unwrap();
    let pod = &deployments[0]["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"disk": "fast"}));
    let env = pod["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "LEVEL", "value": "debug"})), "{env:?}");
    assert!(env.contains(&json!({"name": "OPERATOR_CONDITION_NAME", "value": "beacon.v1.1.0"})), "{env:?}");
    let run = mainstay(["csv", "steps", "no/such/bundle"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
}

/// OLM0-OG-22: groups in a file, and the verdict about a new member.
#[test]
fn groups() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "\
kind: OperatorGroup
metadata: {name: og, namespace: lights, annotations: {olm.providedAPIs: Beacon.v1.example.com}}
spec: {targetNamespaces: [lights]}
---
kind: OperatorGroup
metadata: {name: all, namespace: ops, annotations: {olm.providedAPIs: Lamp.v1.example.com}}
";
    std::fs::write(file.path(), text).unwrap();
    let file = file.path().to_str().unwrap();
    let run = mainstay(["operatorgroup", "intersect", file]);
    assert_words(&run.stdout, &["GROUP TARGETS INTERSECTS CONFLICTS", "lights/og lights ops/all -", "ops/all all lights/og -"]);
    let verdict = |apis: &str| mainstay(["operatorgroup", "intersect", file, "--group", "lights/og", "--apis", apis]);
    assert_eq!(verdict("Beacon.v1.example.com").stdout, "lights/og takes the member; nothing changes\n");
    assert!(verdict("Buoy.v1.example.com").stdout.contains("its annotation becomes Beacon.v1.example.com,Buoy.v1.example.com"));
    let conflict = verdict("Lamp.v1.example.com");
    assert_eq!((conflict.code, conflict.stdout.contains("InterOperatorGroupOwnerConflict")), (4, true), "{}", conflict.stdout);
    assert_eq!(verdict("Lamp").code, 1);
    assert_eq!(mainstay(["operatorgroup", "intersect", file, "--group", "lights/no", "--apis", "A.v1.b"]).code, 3);
}

/// MS-CLI-09: every command answers recorded lines as they are.
#[test]
fn cases() {
    let (Some(archive), Some(legacy)) = (unpacked("bundles.tar.gz"), unpacked("bundles-legacy.tar.gz")) else { return };
    let root = tempfile::tempdir().unwrap();
    for (from, name) in [(&archive, "bundles"), (&legacy, "bundles-legacy")] {
        std::os::unix::fs::symlink(from.path().join(name), root.path().join(name)).unwrap();
    }
    let root = root.path().to_str().unwrap();
    let questions = [
        ("resolve", vec!["resolve", "--classic"]),
        ("steps", vec!["csv", "steps", "--root", root]),
        ("rbac", vec!["csv", "permissions", "--root", root]),
        ("deployments", vec!["csv", "deployments", "--root", root]),
        ("operatorgroups", vec!["operatorgroup", "intersect"]),
    ];
    for (name, words) in questions {
        let Some(recorded) = data::text(&format!("olm-classic/{name}.jsonl.gz")) else { return };
        let some: Vec<&str> = recorded.lines().filter(|line| !line.contains("constraintsVary")).step_by(9).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), some.join("\n")).unwrap();
        let run = mainstay(words.into_iter().chain(["--cases", file.path().to_str().unwrap()]));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{name}");
        assert_eq!(lines(&run.stdout), lines(&some.join("\n")), "{name}");
    }
}
