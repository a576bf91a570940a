//! The recorded answers of a real kube-apiserver, played against the embedded one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use mainstay_e2e::{Cluster, run, shared, skip};
use serde_json::Value;

/// KAPI-CLIENT-03, KAPI-SRV-07, KAPI-AUTH-01..03, KAPI-AUTHZ-01..03, KAPI-DISC-01..02, KAPI-REST-01..07, KAPI-WATCH-01, KAPI-PATCH-01, KAPI-SSA-01, KAPI-CRD-01..03, KAPI-ADM-03:
/// every transcript that is listed as passing passes. `MAINSTAY_UPDATE_TRANSCRIPTS=1` writes the list anew.
#[test]
fn recorded_answers() {
    let (Some(tool), Some(transcripts)) = (shared("tools/kube-replay"), shared("data/kube-transcripts")) else { return };
    let python = Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
    if !python.is_ok_and(|status| status.success()) {
        return skip("Python 3.11 or newer is not installed");
    }
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let report = cluster.folder().join("report.json");
    let output = run(
        Command::new("python3")
            .arg(tool)
            .args(["check", "--jobs", "4", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .arg("--json")
            .arg(&report)
            .arg(transcripts),
        "",
    );
    assert!(report.is_file(), "{output}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let results = results(&report);
    let passed: BTreeSet<&str> = results.iter().filter(|(_, passed)| **passed).map(|(name, _)| name.as_str()).collect();

    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts-passing.txt");
    if std::env::var_os("MAINSTAY_UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&list, passed.iter().copied().collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }
    let listed = std::fs::read_to_string(&list).unwrap();
    let listed: BTreeSet<&str> = listed.lines().filter(|line| !line.is_empty()).collect();

    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, passed) in &results {
        let topic = topics.entry(name.split('/').next().unwrap_or_default()).or_default();
        topic.0 += usize::from(*passed);
        topic.1 += 1;
    }
    eprintln!("transcripts: {} of {} pass", passed.len(), results.len());
    for (topic, (passed, all)) in &topics {
        eprintln!("  {topic}: {passed} of {all}");
    }
    for name in results.keys().filter(|name| !passed.contains(name.as_str())) {
        eprintln!("  differs: {name}");
    }
    for name in passed.difference(&listed) {
        eprintln!("  passes and is not listed: {name}");
    }
    let lost: Vec<_> = listed.difference(&passed).collect();
    assert!(lost.is_empty(), "these transcripts passed before: {lost:#?}\n{}", differences(&report, &lost));
}

/// Scenario by scenario: did all its steps give equal answers?
fn results(report: &Value) -> BTreeMap<String, bool> {
    let scenarios = report["scenarios"].as_array().unwrap();
    assert!(!scenarios.is_empty());
    scenarios.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one["pass"].as_bool().unwrap())).collect()
}

fn differences(report: &Value, names: &[&&str]) -> String {
    let of = |one: &&Value| names.iter().any(|name| one["name"] == **name);
    report["scenarios"].as_array().into_iter().flatten().filter(of).map(|one| format!("{one:#}")).collect::<Vec<_>>().join("\n")
}
