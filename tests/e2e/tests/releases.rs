//! Releases on the embedded cluster: two real ones, by the commands of an administrator (CVO-SIM-01).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const VERSION: [&str; 2] = ["clusterversion", "version"];

/// The recorded payloads as folders.
fn payloads() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in mainstay_testing::data::archive("payload.tar.gz")? {
        let path = folder.path().join(Path::new(&path).strip_prefix("payload").unwrap_or(Path::new(&path)));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    Some(folder)
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().unwrap().iter().find(|each| each["type"] == kind).unwrap_or(&Value::Null)
}

fn is_at(version: &str) -> impl Fn(&Value) -> bool {
    move |object| {
        let entry = &object["status"]["history"][0];
        entry["version"] == version && entry["state"] == "Completed"
    }
}

/// CVO-SIM-01, CVO-SIM-03, MS-PLAN-01, MS-READY-01, CVO-API-02, CVO-CO-01, CVO-FLOW-01, CVO-FLOW-06, CVO-UPG-04, CVO-CLI-03, CVO-SIM-05, COP-G-10,
/// COP-15: a real release is installed and the next one follows, by `kubectl` and `mainstay adm upgrade`; the plan of it says what happens; the administrator's gate holds it up until it is
/// acknowledged, and a kill in the middle does not.
#[test]
fn a_real_release_and_the_next_one() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(folder) = payloads() else { return };
    let place = |version: &str| folder.path().join(version).display().to_string();
    let (first, second) = (place("4.18.54"), place("4.19.44"));
    let mut cluster = Cluster::up(&[
        "--components",
        "controllers,cluster-version",
        "--nodes",
        "0",
        "--release",
        &first,
        "--release",
        &second,
        "--accelerate",
        "20",
    ]);
    let installed = cluster.until("the first release is installed", &VERSION, is_at("4.18.54"));
    assert_eq!(condition(&installed, "Progressing")["message"], "Cluster version is 4.18.54");
    let table = cluster.kubectl(&["get", "clusterversion"]).ok();
    assert!(
        table.starts_with("NAME      VERSION   AVAILABLE   PROGRESSING   SINCE   STATUS\nversion   4.18.54   True        False"),
        "{table}"
    );
    let operators = cluster.kubectl(&["get", "co"]).ok();
    assert!(operators.lines().count() > 20 && operators.lines().skip(1).all(|line| line.contains("4.18.54   True")), "{operators}");
    let etcd = cluster.get(&["co", "etcd"]).unwrap();
    assert_eq!(etcd["metadata"]["annotations"]["mainstay.dev/simulated"], "true");
    assert!(condition(&etcd, "Available")["message"].as_str().unwrap().contains("simulated: no operand is running"));

    cluster.until("the update is offered", &VERSION, |object| object["status"]["availableUpdates"][0]["version"] == "4.19.44");
    cluster.until("the gate shows", &VERSION, |object| condition(object, "Upgradeable")["reason"] == "AdminAckRequired");
    let summary = cluster.mainstay(&["adm", "upgrade"]).ok();
    assert!(
        summary.contains("Cluster version is 4.18.54") && summary.contains("  4.19.44     mainstay.local/release@sha256:"),
        "{summary}"
    );
    let target = ["--release", &second, "--current", &first, "-o", "json"];
    let blocked = |verb: &[&str]| -> Value {
        let told = cluster.mainstay(&[verb, &target[..]].concat());
        assert_eq!(told.code, Some(4), "{told}");
        serde_json::from_str(&told.stdout).unwrap()
    };
    let plan = blocked(&["plan", "cluster-update"]);
    assert_eq!((&plan["from"], &plan["to"], &plan["doable"]), (&json!("4.18.54"), &json!("4.19.44"), &json!(false)));
    let blocking: Vec<&Value> =
        plan["readiness"]["findings"].as_array().unwrap().iter().filter(|found| found["level"] == "Blocks").collect();
    let checks: Vec<&str> = blocking.iter().map(|found| found["check"].as_str().unwrap()).collect();
    assert!(checks.contains(&"admin-gates") && checks.contains(&"preconditions"), "{blocking:#?}");
    assert_eq!(plan["readiness"]["notRun"], json!([]));
    let rehearsed = blocked(&["rehearse", "--live", "--cluster-update", "4.19.44"]);
    assert_eq!(rehearsed["update"]["summary"], plan["update"]["summary"]);
    assert!(rehearsed["readiness"]["findings"].as_array().unwrap().iter().any(|found| found["check"] == "admin-gates"));
    let readiness = cluster.mainstay(&["adm", "upgrade", "recommend", "--version", "4.19.44", "--readiness"]).exits(4);
    assert!(readiness.contains("Blocks   admin-gates") && readiness.contains("Checks that could not be made:"), "{readiness}");
    let sum = &plan["update"]["summary"];
    assert!(["created", "updated"].iter().all(|effect| sum[effect].as_u64() > Some(0)) && sum["faults"] == 0, "{sum}");
    cluster.mainstay(&["adm", "upgrade", "--to", "4.19.44"]).ok();
    let refused =
        cluster.until("the gate holds", &VERSION, |object| condition(object, "ReleaseAccepted")["reason"] == "PreconditionChecks");
    assert_eq!(refused["status"]["history"].as_array().unwrap().len(), 1);
    let gates = cluster.get(&["configmap", "admin-gates", "-n", "openshift-config-managed"]).unwrap();
    let acknowledged: Map<String, Value> = gates["data"].as_object().unwrap().keys().map(|gate| (gate.clone(), json!("true"))).collect();
    let patch = json!({"data": acknowledged}).to_string();
    cluster.kubectl(&["patch", "configmap", "admin-acks", "-n", "openshift-config", "--type", "merge", "-p", &patch]).ok();
    cluster.until("the update begins", &VERSION, |object| object["status"]["history"][0]["version"] == "4.19.44");
    let status = cluster.mainstay(&["adm", "upgrade", "status"]).ok();
    assert!(status.contains("= Control Plane =") && status.contains("4.19.44"), "{status}");
    cluster.kill();
    cluster.start_again();
    let updated = cluster.until("the second release is there", &VERSION, is_at("4.19.44"));
    let history = updated["status"]["history"].as_array().unwrap();
    let told: Vec<(&Value, &Value)> = history.iter().map(|entry| (&entry["version"], &entry["state"])).collect();
    assert_eq!(told, [(&json!("4.19.44"), &json!("Completed")), (&json!("4.18.54"), &json!("Completed"))], "{history:#?}");

    // Nothing is left of the plan: what it created, changed and deleted is so.
    eventually("nothing of the plan is left", Duration::from_secs(120), || {
        let again = cluster.mainstay(&["plan", "cluster-update", "--release", &second, "--current", &second, "-o", "json"]);
        let again: Value = serde_json::from_str(&again.stdout).unwrap();
        let sum = &again["update"]["summary"];
        let is_done = ["created", "updated", "deleted", "faults"].iter().all(|effect| sum[effect] == 0);
        if is_done { Ok(()) } else { Err(sum.to_string()) }
    });

    // What is changed by hand comes back, and nothing else is written.
    let other = ["namespace", "openshift-etcd-operator"];
    let version = |cluster: &Cluster| cluster.get(&other).unwrap()["metadata"]["resourceVersion"].clone();
    let untouched = version(&cluster);
    cluster.kubectl(&["label", "namespace", "openshift-dns-operator", "openshift.io/cluster-monitoring=by-hand", "--overwrite"]).ok();
    eventually("the label is restored", Duration::from_secs(60), || {
        let namespace = cluster.get(&["namespace", "openshift-dns-operator"]).unwrap();
        let label = &namespace["metadata"]["labels"]["openshift.io/cluster-monitoring"];
        if label == "true" { Ok(()) } else { Err(label.to_string()) }
    });
    assert_eq!(version(&cluster), untouched);
    let page = cluster.kubectl(&["get", "--raw", "/mainstay/metrics"]).ok();
    assert!(page.contains(r#"cluster_version{type="completed",version="4.19.44""#), "CVO-MET-02");
}
