//! Explanations of a ClusterVersion and of ClusterOperators, as a table of situations.

use mainstay_cluster_update::explain::{Explanation, OperatorFacts, VersionFacts, operator, version};
use mainstay_release::platform_operators;
use serde_json::{Value, json};

fn conditions(list: &[(&str, &str, &str, &str)]) -> Value {
    let one = |(kind, status, reason, message): &(&str, &str, &str, &str)| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    list.iter().map(one).collect()
}

fn cluster(list: &[(&str, &str, &str, &str)]) -> Value {
    let mut all = vec![("Available", "True", "", "Done applying 4.18.1")];
    all.extend(list);
    json!({
        "metadata": {"name": "version"}, "spec": {"channel": "fast-4.18"},
        "status": {
            "desired": {"version": "4.18.1", "image": "r@sha256:1", "channels": ["fast-4.18", "fast-4.19"]},
            "capabilities": {"enabledCapabilities": ["Storage"], "knownCapabilities": ["Console", "Storage"]}, "conditions": conditions(&all),
        },
    })
}

fn co(name: &str, list: &[(&str, &str, &str, &str)]) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {"conditions": conditions(list), "versions": [{"name": "operator", "version": "4.18.1"}]},
    })
}

fn next(found: &Explanation) -> String {
    found.next.iter().flat_map(|action| action.commands.clone()).collect::<Vec<_>>().join("; ")
}

/// MS-EXPL-02, CVO-TRB-01, CVO-TRB-03, CVO-TRB-04, CVO-TRB-05: what holds a ClusterVersion up, and the command to go on with.
#[test]
fn versions() {
    let slow = "waiting on machine-config over 90 minutes which is longer than expected";
    let operators = [co("machine-config", &[("Available", "True", "", ""), ("Progressing", "True", "", "pool worker is at 1 of 3")])];
    for (list, wished, situation, command) in [
        (vec![], false, "healthy", ""),
        (vec![("Invalid", "True", "InvalidClusterVersion", "x")], true, "invalid", "mainstay adm upgrade --clear"),
        (vec![("Invalid", "True", "InvalidClusterVersion", "x")], false, "invalid", "kubectl edit clusterversion version"),
        (
            vec![("ReleaseAccepted", "False", "PreconditionChecks", "Preconditions failed"), ("Progressing", "False", "", "")],
            true,
            "not-accepted",
            "kubectl get events -n openshift-cluster-version --sort-by .lastTimestamp",
        ),
        (
            vec![
                ("Failing", "True", "ClusterOperatorDegraded", "Cluster operator machine-config is degraded"),
                ("Progressing", "True", "", ""),
            ],
            false,
            "failing",
            "mainstay explain clusteroperator machine-config",
        ),
        (
            vec![("Failing", "Unknown", "SlowClusterOperator", slow), ("Progressing", "True", "", "Working towards 4.18.1")],
            false,
            "slow",
            "mainstay explain clusteroperator machine-config",
        ),
        (vec![("Progressing", "True", "", "Working towards 4.18.1")], false, "updating", ""),
        (vec![("RetrievedUpdates", "False", "NoChannel", "not configured")], false, "no-updates", "mainstay adm upgrade channel fast-4.19"),
        (vec![("RetrievedUpdates", "False", "VersionNotFound", "x")], false, "no-updates", "mainstay adm upgrade channel fast-4.19"),
        (
            vec![("RetrievedUpdates", "False", "RemoteFailed", "x")],
            false,
            "no-updates",
            "kubectl get clusterversion version -o jsonpath={.spec.upstream}",
        ),
        (vec![("Upgradeable", "False", "AdminAckRequired", "Widgets go")], false, "not-upgradeable", "kubectl patch configmap admin-acks"),
    ] {
        let mut object = cluster(&list);
        if wished {
            object["spec"]["desiredUpdate"] = json!({"version": "4.19.0"});
        }
        let found = version(&VersionFacts { cluster_version: &object, operators: &operators, pools: &[] });
        assert_eq!(found.situation, situation, "{list:?}");
        let commands = next(&found);
        assert!(commands.contains(command) && commands.is_empty() == command.is_empty(), "{situation}: {commands}");
        assert_eq!(found.evidence.len(), list.len() + 1);
        if situation == "slow" {
            assert!(found.why.iter().any(|why| why.contains("pool worker is at 1 of 3")), "{:?}", found.why);
            assert!(found.notes.iter().any(|note| note.contains("machineconfigpools")), "{:?}", found.notes);
        }
    }
}

/// CVO-TRB-02, CVO-TRB-06, CVO-TRB-07, CVO-TRB-08: what else a person should know of a healthy cluster.
#[test]
fn notes_of_a_version() {
    let mut object = cluster(&[("Progressing", "False", "", "Cluster version is 4.18.1")]);
    object["status"]["conditionalUpdates"] = json!([{
        "release": {"version": "4.18.3"}, "risks": [],
        "conditions": [{"type": "Recommended", "status": "False", "reason": "SlowWidgets", "message": "They are slow. https://r"}],
    }]);
    object["status"]["history"] = json!([{"version": "4.18.1", "state": "Completed", "verified": false, "acceptedRisks": "no signature"}]);
    object["spec"]["overrides"] = json!([{"kind": "Deployment", "name": "x", "unmanaged": true}]);
    let pools = [json!({
        "metadata": {"name": "worker"},
        "status": {"machineCount": 3, "updatedMachineCount": 1, "conditions": [{"type": "Updating", "status": "True"}]},
    })];
    let found = version(&VersionFacts { cluster_version: &object, operators: &[], pools: &pools });
    let newer = found.newer.unwrap();
    assert_eq!((newer.version.as_str(), newer.held_back_by), ("4.18.3", "risk"));
    let command = newer.action.unwrap().commands;
    assert_eq!(command, ["mainstay adm upgrade --to 4.18.3 --allow-not-recommended"]);
    let notes = found.notes.join("\n");
    for words in
        ["4.18.3 is there, and not recommended: SlowWidgets", "leaves 1 of", "accepted with risks: no signature", "forced", "1 of 3"]
    {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    object["status"]["availableUpdates"] = json!([{"version": "4.18.2"}, {"version": "4.18.10"}]);
    let found = version(&VersionFacts { cluster_version: &object, operators: &[], pools: &[] });
    assert_eq!(found.newer.unwrap().version, "4.18.10");
}

/// COP-G-15, MS-EXPL-02, COP-TRB-02, COP-TRB-03: an operator's situation and the command to go on with.
#[test]
fn operators() {
    let well = [("Available", "True", "", ""), ("Progressing", "False", "", ""), ("Degraded", "False", "", "")];
    for (list, situation, command) in [
        (well.to_vec(), "healthy", ""),
        (vec![("Available", "False", "NoPods", "m")], "unavailable", "mainstay adm inspect clusteroperator/etcd"),
        (vec![well[0], ("Degraded", "True", "Old", "m")], "degraded", "kubectl get pods -n openshift-etcd-operator"),
        (vec![well[0], ("Progressing", "True", "", "m")], "progressing", ""),
        (vec![well[0], ("Upgradeable", "False", "Old", "m")], "not-upgradeable", "kubectl get clusteroperator etcd"),
        (vec![well[0], ("Upgradeable", "False", "IncompatibleOperatorsInstalled", "m")], "not-upgradeable", "mainstay status"),
        (vec![], "silent", "kubectl get pods"),
    ] {
        let (object, cluster) = (co("etcd", &list), cluster(&[]));
        let facts = OperatorFacts { name: "etcd", object: Some(&object), cluster_version: Some(&cluster), pools: &[] };
        let found = operator(&facts).unwrap();
        let commands = next(&found);
        assert_eq!(found.situation, situation, "{list:?}");
        assert!(commands.contains(command) && commands.is_empty() == command.is_empty(), "{situation}: {commands}");
        assert!(found.notes.iter().any(|note| note.starts_with("class c: its status is played")), "{:?}", found.notes);
    }
    let mut played = co("etcd", &[("Degraded", "True", "PlayedDegraded", "simulated")]);
    played["metadata"]["annotations"] = json!({"mainstay.dev/simulated": "true"});
    let found = operator(&OperatorFacts { name: "etcd", object: Some(&played), cluster_version: None, pools: &[] }).unwrap();
    assert!(found.notes.iter().any(|note| note.starts_with("simulated: no operand is running")), "COP-G-10");
    assert!(next(&found).starts_with("kubectl get clusteroperator etcd"), "no pods are looked for");
}

/// COP-TRB-01, COP-G-05: an operator that is not there is explained by its capability, for each operator of the reference.
#[test]
fn absent_operators() {
    let cluster = cluster(&[]);
    for row in platform_operators() {
        for name in &row.cluster_operators {
            let found = operator(&OperatorFacts { name, object: None, cluster_version: Some(&cluster), pools: &[] }).unwrap();
            let is_off = !row.capabilities.is_empty() && !row.capabilities.iter().any(|one| one == "Storage");
            assert_eq!(found.situation, if is_off { "capability-off" } else { "excluded" }, "{name}");
            if is_off {
                let patch = format!(r#"{{"spec":{{"capabilities":{{"additionalEnabledCapabilities":["{}"]}}}}}}"#, row.capabilities[0]);
                assert_eq!(next(&found), format!("kubectl patch clusterversion version --type merge -p '{patch}'"));
            }
            assert!(found.notes.iter().any(|note| note.contains(&row.id) && note.contains(&row.reason)));
            let says = |words: &str| found.notes.iter().any(|note| note.contains(words));
            assert!(says(&row.played) && says(&row.real) && row.classes.iter().all(|class| says(class.meaning())), "{name}: COP-G-15");
            assert_eq!(says("not part of this version"), row.missing.is_some(), "{name}");
            let without = operator(&OperatorFacts { name, object: None, cluster_version: None, pools: &[] }).unwrap();
            assert_eq!(without.situation, "no-release");
        }
    }
    assert_eq!(operator(&OperatorFacts { name: "demo", object: None, cluster_version: Some(&cluster), pools: &[] }), None);
}

/// CVO-FLOW-03, CVO-FLOW-07, CVO-TRB-05, CVO-TRB-06, MACH-PAUSE-06: a paused pool that an update waits for is named with the way to resume it; one that it
/// does not wait for is a note, once the release is applied.
#[test]
fn paused_pools() {
    let pool = |name: &str, paused: bool, updated: &str| {
        let labels =
            if name == "master" { json!({"operator.machineconfiguration.openshift.io/required-for-upgrade": ""}) } else { json!({}) };
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"paused": paused}, "status": {"machineCount": 3, "updatedMachineCount": 1,
            "conditions": conditions(&[("Updated", updated, "", ""), ("Updating", "False", "", "")])}})
    };
    let waits = cluster(&[
        ("Failing", "Unknown", "SlowClusterOperator", "waiting on machine-config"),
        ("Progressing", "True", "", "Working towards 4.18.1"),
    ]);
    let operators = [co("machine-config", &[("Available", "True", "", ""), ("Progressing", "True", "", "Working towards 4.18.1")])];
    let held = |pools: &[Value]| {
        let of_version = version(&VersionFacts { cluster_version: &waits, operators: &operators, pools });
        let facts = OperatorFacts { name: "machine-config", object: operators.first(), cluster_version: Some(&waits), pools };
        (of_version, operator(&facts).unwrap())
    };
    let (of_version, of_operator) = held(&[pool("worker", true, "False"), pool("master", true, "False")]);
    for found in [&of_version, &of_operator] {
        assert_eq!(next(found), "mainstay pool resume master");
        assert!(found.why.iter().any(|why| why.starts_with("machineconfigpool master is paused")), "{:?}", found.why);
    }
    assert_eq!(of_version.alternatives.len(), 1, "the operator is still to be looked at");
    for others in
        [[pool("worker", true, "False"), pool("master", false, "False")], [pool("worker", true, "False"), pool("master", true, "True")]]
    {
        let (of_version, of_operator) = held(&others);
        assert_eq!((next(&of_version), next(&of_operator)), ("mainstay explain clusteroperator machine-config".to_owned(), String::new()));
    }
    let done = cluster(&[("Progressing", "False", "", "Cluster version is 4.18.1")]);
    let notes = |pool: Value| version(&VersionFacts { cluster_version: &done, operators: &[], pools: &[pool] }).notes;
    let told = notes(pool("worker", true, "False"));
    assert!(told.iter().any(|note| note.contains("pool worker is paused: 1 of 3 nodes are updated")), "{told:?}");
    assert!(!notes(pool("worker", true, "True")).iter().any(|note| note.contains("pool worker")));
}
