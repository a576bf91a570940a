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
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts-passing.txt");
    let listed = std::fs::read_to_string(&list).unwrap();
    let listed: BTreeSet<&str> = listed.lines().filter(|line| !line.is_empty()).collect();

    // What must pass gets all the time it was recorded with; the rest is only counted, and does not wait long for controllers that are not there.
    let (must, rest) = (cluster.folder().join("must"), cluster.folder().join("rest"));
    for name in names(&transcripts) {
        let folder = if listed.contains(name.as_str()) { &must } else { &rest };
        let target = folder.join(format!("{name}.json"));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(transcripts.join(format!("{name}.json")), target).unwrap();
    }
    let all_time = std::env::var_os("MAINSTAY_UPDATE_TRANSCRIPTS").is_some();
    let mut scenarios = play(&cluster, &tool, &must, "1");
    scenarios.extend(play(&cluster, &tool, &rest, if all_time { "1" } else { "0.1" }));
    again(&cluster, &tool, &transcripts, &listed, &mut scenarios);
    let results: BTreeMap<String, bool> =
        scenarios.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one["pass"].as_bool().unwrap())).collect();
    let passed: BTreeSet<&str> = results.iter().filter(|(_, passed)| **passed).map(|(name, _)| name.as_str()).collect();
    if all_time {
        std::fs::write(&list, passed.iter().copied().collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }

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
    let differences: Vec<String> =
        scenarios.iter().filter(|one| lost.iter().any(|name| one["name"] == ***name)).map(|one| format!("{one:#}")).collect();
    assert!(lost.is_empty(), "these transcripts passed before: {lost:#?}\n{}", differences.join("\n"));
}

/// Plays listed scenarios that failed once more, one by one: they watch controllers by the clock, and a busy machine may be late once.
/// Those that pass only then are named.
fn again(cluster: &Cluster, tool: &Path, transcripts: &Path, listed: &BTreeSet<&str>, scenarios: &mut [Value]) {
    for one in scenarios.iter_mut().filter(|one| one["pass"] == false && one["name"].as_str().is_some_and(|name| listed.contains(name))) {
        let name = one["name"].as_str().unwrap().to_owned();
        let folder = cluster.folder().join("again").join(name.replace('/', "-"));
        let target = folder.join(format!("{name}.json"));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(transcripts.join(format!("{name}.json")), target).unwrap();
        if let Some(second) = play(cluster, tool, &folder, "1").into_iter().next() {
            if second["pass"] == true {
                eprintln!("  passes the second time only: {name}");
            }
            *one = second;
        }
    }
}

/// The scenarios' names: topic and file, without its extension.
fn names(transcripts: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(transcripts).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.map(|path| path.strip_prefix(transcripts).unwrap().with_extension("").to_string_lossy().into_owned()).collect()
}

/// Plays a folder of transcripts; the report of each.
fn play(cluster: &Cluster, tool: &Path, transcripts: &Path, patience: &str) -> Vec<Value> {
    if !transcripts.is_dir() {
        return Vec::new();
    }
    let report = transcripts.with_extension("report");
    let mut command = Command::new("python3");
    command.arg(tool).args(["check", "--jobs", "4", "--patience", patience, "--kubeconfig"]).arg(cluster.kubeconfig());
    let output = run(command.arg("--json").arg(&report).arg(transcripts), "");
    assert!(report.is_file(), "{output}");
    let mut report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    match report["scenarios"].take() {
        Value::Array(scenarios) => scenarios,
        other => panic!("no list of scenarios: {other}"),
    }
}
