//! The recorded answers of a real kube-apiserver, played against the embedded one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use mainstay_e2e::replay::{self, Json, Report, Target};
use mainstay_e2e::{Cluster, need_embedded, run, skip};
use mainstay_testing::data;
use serde_json::{Value, json};

/// How many scenarios are played at a time.
const JOBS: usize = 8;

/// Plays scenarios against a cluster.
fn play(cluster: &Cluster, scenarios: &[Json], jobs: usize, patience: f64) -> Vec<Report> {
    let target = Target::from_kubeconfig(cluster.kubeconfig(), patience).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(replay::check(&target, scenarios, jobs))
}

/// KAPI-CLIENT-03, KAPI-SRV-07, KAPI-AUTH-01..03, KAPI-AUTHZ-01..03, KAPI-DISC-01..02, KAPI-REST-01..07, KAPI-WATCH-01, KAPI-PATCH-01, KAPI-SSA-01, KAPI-CRD-01..03, KAPI-ADM-03:
/// every transcript that is listed as passing passes. `MAINSTAY_UPDATE_TRANSCRIPTS=1` writes the list anew.
#[test]
fn recorded_answers() {
    let Some(()) = need_embedded() else { return };
    let Some(transcripts) = data::path("kube-transcripts") else { return };
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts-passing.txt");
    let listed = std::fs::read_to_string(&list).unwrap();
    let listed: BTreeSet<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    let scenarios = replay::load(&transcripts).unwrap();
    let names: BTreeSet<&str> = scenarios.iter().map(replay::name).collect();
    let unknown: Vec<_> = listed.difference(&names).collect();
    assert!(unknown.is_empty(), "listed, and not recorded: {unknown:?}");
    let (must, rest): (Vec<Json>, Vec<Json>) = scenarios.iter().cloned().partition(|one| listed.contains(replay::name(one)));

    // What must pass gets all the time it was recorded with; the rest is only counted, and does not wait long for controllers that are not there.
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let all_time = std::env::var_os("MAINSTAY_UPDATE_TRANSCRIPTS").is_some();
    let mut reports = play(&cluster, &must, JOBS, 1.0);
    reports.extend(play(&cluster, &rest, JOBS, if all_time { 1.0 } else { 0.1 }));
    again(&cluster, &must, &mut reports);
    let passed: BTreeSet<&str> = reports.iter().filter(|report| report.passed()).map(|report| report.name.as_str()).collect();
    if all_time {
        std::fs::write(&list, passed.iter().copied().collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }

    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for report in &reports {
        let topic = topics.entry(report.name.split('/').next().unwrap_or_default()).or_default();
        topic.0 += usize::from(report.passed());
        topic.1 += 1;
    }
    eprintln!("transcripts: {} of {} pass", passed.len(), reports.len());
    for (topic, (passed, all)) in &topics {
        eprintln!("  {topic}: {passed} of {all}");
    }
    for report in reports.iter().filter(|report| !report.passed()) {
        eprintln!("  differs: {}", report.name);
    }
    for name in passed.difference(&listed) {
        eprintln!("  passes and is not listed: {name}");
    }
    let lost: Vec<String> =
        reports.iter().filter(|report| !report.passed() && listed.contains(report.name.as_str())).map(Report::to_string).collect();
    assert!(lost.is_empty(), "these {} transcripts passed before:\n{}", lost.len(), lost.join("\n"));
}

/// KAPI-REST-01..07, KAPI-PATCH-01, KAPI-SSA-01, KAPI-CRD-01, KAPI-DISC-01: the recordings in `tests/e2e/recordings`, which `make differential` found to differ and
/// shrank, are equal since.
#[test]
fn what_differed_once() {
    let Some(()) = need_embedded() else { return };
    let scenarios = replay::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")).unwrap();
    let cluster = Cluster::up(&["--components", "none"]);
    let target = Target::from_kubeconfig(cluster.kubeconfig(), 1.0).unwrap();
    // No controller fills namespaces, as none did for the reference.
    target.fills_namespaces.store(false, Ordering::Relaxed);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reports = runtime.block_on(replay::check(&target, &scenarios, JOBS));
    let lost: Vec<String> = reports.iter().filter(|report| !report.passed()).map(Report::to_string).collect();
    assert!(lost.is_empty(), "{} of {} differ:\n{}", lost.len(), reports.len(), lost.join("\n"));
}

/// Plays listed scenarios that failed once more, one by one: they watch controllers by the clock, and a busy machine may be late once.
/// Those that pass only then are named.
fn again(cluster: &Cluster, must: &[Json], reports: &mut [Report]) {
    for report in reports.iter_mut().filter(|report| !report.passed()) {
        let Some(scenario) = must.iter().find(|scenario| replay::name(scenario) == report.name) else { continue };
        if let Some(second) = play(cluster, std::slice::from_ref(scenario), 1, 1.0).pop() {
            if second.passed() {
                eprintln!("  passes the second time only: {}", report.name);
            }
            *report = second;
        }
    }
}

/// KAPI-CLIENT-03: our player sees what the tool beside the recordings sees, also where answers differ: both play transcripts in which
/// answers were changed, and find the same steps and places.
#[test]
fn the_tool_beside_the_recordings_agrees() {
    let Some(()) = need_embedded() else { return };
    let (Some(tool), Some(transcripts)) = (data::shared("tools/kube-replay"), data::path("kube-transcripts")) else { return };
    let python = Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
    if !python.is_ok_and(|status| status.success()) {
        return skip("Python 3.11 or newer is not installed");
    }
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let folder = cluster.folder().join("changed");
    let topics = ["crud/", "patch/", "table/", "watch/", "apply/", "list/"];
    let mut scenarios: Vec<Value> = Vec::new();
    for (number, scenario) in replay::load(&transcripts).unwrap().iter().enumerate() {
        if topics.iter().any(|topic| replay::name(scenario).starts_with(topic)) {
            let mut scenario: Value = serde_json::from_str(&scenario.to_string()).unwrap();
            // One scenario in four stays as it was recorded.
            if number % 4 != 0 {
                for (index, step) in scenario["steps"].as_array_mut().unwrap().iter_mut().enumerate() {
                    change(&mut step["answer"], number + index);
                }
            }
            let file = folder.join(format!("{}.json", scenario["name"].as_str().unwrap()));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, scenario.to_string()).unwrap();
            scenarios.push(scenario);
        }
    }
    let report = cluster.folder().join("report.json");
    let mut command = Command::new("python3");
    command.arg(tool).args(["check", "--jobs", "8", "--patience", "0.2", "--kubeconfig"]).arg(cluster.kubeconfig());
    let said = run(command.arg("--json").arg(&report).arg(&folder), "");
    let theirs: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {said}"))).unwrap();
    let theirs: BTreeMap<&str, Value> =
        theirs["scenarios"].as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), places(one))).collect();

    let ours = play(&cluster, &replay::load(&folder).unwrap(), JOBS, 0.2);
    assert_eq!(ours.len(), theirs.len());
    let differing = ours.iter().filter(|report| !report.passed()).count();
    assert!(differing > ours.len() / 2 && differing < ours.len(), "{differing} of {} differ", ours.len());
    for report in &ours {
        let places: Vec<Value> = report.differences.iter().map(|one| json!([one.step, one.pointer])).collect();
        assert_eq!(json!(places), theirs[report.name.as_str()], "{report}");
    }
}

/// Step and pointer of every difference in a report of the tool.
fn places(report: &Value) -> Value {
    report["differences"].as_array().unwrap().iter().map(|one| json!([one["step"], one["pointer"]])).collect()
}

/// Changes one leaf of an answer; which one and how, the number says.
fn change(answer: &mut Value, number: usize) {
    let pointers = leaves(answer, String::new());
    let Some(pointer) = pointers.get(number.wrapping_mul(7919) % pointers.len().max(1)) else { return };
    let leaf = answer.pointer_mut(pointer).unwrap();
    *leaf = match (number % 4, leaf.take()) {
        (0, _) => Value::Null,
        (1, Value::String(text)) => json!(text + "x"),
        (2, Value::Number(number)) => json!(number.to_string()),
        (_, Value::Bool(value)) => json!(i32::from(value)),
        (_, other) => json!([other]),
    };
}

fn leaves(value: &Value, pointer: String) -> Vec<String> {
    let below = |key: &str, value: &Value| leaves(value, format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")));
    match value {
        Value::Object(members) if !members.is_empty() => members.iter().flat_map(|(key, value)| below(key, value)).collect(),
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().flat_map(|(index, value)| below(&index.to_string(), value)).collect()
        }
        _ => vec![pointer],
    }
}
