//! The health of applied objects.
#![allow(clippy::unwrap_used)]

use mainstay_api::config_v1::ClusterOperator;
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::health::{Unhealthy, cluster_operator, object};
use serde_json::{Value, json};

fn told(outcome: Result<(), Unhealthy>) -> String {
    match outcome {
        Ok(()) => "healthy".to_owned(),
        Err(Unhealthy::Update { error, detail }) => format!("{} {:?}: {error} | {detail}", error.reason(), error.effect()),
        Err(Unhealthy::Object(problem)) => problem.to_string(),
    }
}

/// CVO-HEALTH-01, CVO-HEALTH-02, CVO-CO-04, CVO-CO-05: versions, then availability, then degradation, then progress.
#[test]
fn cluster_operators() {
    let operator =
        |status: Value| -> ClusterOperator { serde_json::from_value(json!({"metadata": {"name": "dns"}, "status": status})).unwrap() };
    let versions = |version: &str, other: &str| json!([{"name": "operator", "version": version}, {"name": "coredns", "version": other}]);
    let expected = operator(json!({"versions": versions("2", "7")}));
    let conditions = |available: &str, degraded: &str| {
        json!([{"type": "Available", "status": available, "reason": "A", "message": "Aa."}, {"type": "Degraded", "status": degraded, "reason": "D", "message": "Dd."},
            {"type": "Progressing", "status": "False"}])
    };
    let check = |live: Value, mode: Mode, wanted: &str| assert_eq!(told(cluster_operator(&expected, &operator(live), mode)), wanted);
    let (install, update, keep) = (Mode::Initializing, Mode::Updating, Mode::Reconciling);
    let good = json!({"conditions": conditions("True", "False"), "versions": [{"name": "extra", "version": "0"}, {"name": "coredns", "version": "7"}, {"name": "operator", "version": "2"}]});
    for mode in [install, update, keep] {
        check(good.clone(), mode, "healthy");
    }
    let old = json!({"conditions": conditions("True", "False"), "versions": [{"name": "operator", "version": "1"}]});
    check(old.clone(), install, "healthy");
    check(
        old,
        update,
        "ClusterOperatorUpdating Some(None): Cluster operator dns is updating versions | cluster operator dns is available and not degraded but has not \
         finished updating to target version: coredns to 7, operator from 1 to 2",
    );
    let ill = json!({"conditions": conditions("True", "True"), "versions": versions("2", "7")});
    let text = "Cluster operator dns is degraded | cluster operator dns is Degraded=True: D, Dd.";
    check(ill.clone(), update, &format!("ClusterOperatorDegraded Some(FailAfterInterval): {text}"));
    check(ill, install, &format!("ClusterOperatorDegraded Some(Report): {text}"));
    check(
        json!({"conditions": conditions("Unknown", "True"), "versions": versions("2", "7")}),
        keep,
        "ClusterOperatorNotAvailable Some(Fail): Cluster operator dns is not available | cluster operator dns is Available=Unknown: A: Aa.",
    );
    // What is not said is the worst.
    check(
        json!({}),
        update,
        "ClusterOperatorNotAvailable Some(Fail): Cluster operator dns is not available | cluster operator dns: available=false, progressing=true, \
         degraded=true, undone=coredns to 7, operator to 2",
    );
    check(
        json!({"conditions": [{"type": "Available", "status": "True"}], "versions": versions("2", "7")}),
        update,
        "ClusterOperatorDegraded Some(FailAfterInterval): Cluster operator dns is degraded | cluster operator dns: available=true, progressing=true, \
         degraded=true, undone=",
    );
    assert_eq!(
        told(cluster_operator(&operator(json!({})), &operator(good), install)),
        "ClusterOperatorNoVersions Some(Fail): Cluster operator dns does not declare expected versions | "
    );
}

/// CVO-HEALTH-04: workloads, Jobs and definitions; during an installation nothing is looked at.
#[test]
fn other_kinds() {
    let check = |api_version: &str, kind: &str, status: Value, expected: &str| {
        let live = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "ns", "name": "demo"}, "status": status});
        for mode in [Mode::Updating, Mode::Reconciling] {
            assert_eq!(told(object(&live, mode)), expected, "{status}");
        }
        assert_eq!(object(&live, Mode::Initializing), Ok(()));
    };
    let condition =
        |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": format!("{reason}.")});
    let deployment = |conditions: Value, expected: &str| {
        check(
            "apps/v1",
            "Deployment",
            json!({"conditions": conditions, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 2}),
            expected,
        );
    };
    deployment(json!([]), "healthy");
    deployment(json!([condition("Available", "False", "A"), condition("Progressing", "True", "P")]), "healthy");
    deployment(json!([condition("Progressing", "False", "Paused")]), "healthy");
    deployment(json!([condition("ReplicaFailure", "False", "R"), condition("Available", "True", "A")]), "healthy");
    deployment(
        json!([condition("ReplicaFailure", "True", "Quota"), condition("Available", "False", "A"), condition("Progressing", "False", "P")]),
        "WorkloadNotProgressing None: deployment ns/demo has a replica failure Quota: Quota. | deployment ns/demo has some pods failing; unavailable \
         replicas=2",
    );
    deployment(
        json!([condition("Available", "False", "A"), condition("Progressing", "False", "ProgressDeadlineExceeded")]),
        "WorkloadNotAvailable None: deployment ns/demo is not available A (A.) or progressing ProgressDeadlineExceeded (ProgressDeadlineExceeded.) | \
         deployment ns/demo is not available and not progressing; updated replicas=2 of 3, available replicas=1 of 3",
    );
    let slow = "deployment ns/demo is Progressing=False: ProgressDeadlineExceeded: ProgressDeadlineExceeded.";
    deployment(
        json!([condition("Progressing", "False", "ProgressDeadlineExceeded")]),
        &format!("WorkloadNotProgressing None: {slow} | {slow}"),
    );
    check("apps/v1", "DaemonSet", json!({"numberUnavailable": 3}), "healthy");
    for (kind, name) in [("Deployment", "deployment"), ("DaemonSet", "daemonset")] {
        let going = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": "ns", "name": "demo", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(told(object(&going, Mode::Updating)), format!("{name} ns/demo is being deleted"));
    }
    let job = |status: Value, expected: &str| check("batch/v1", "Job", status, expected);
    job(json!({}), "healthy");
    job(json!({"succeeded": 1, "failed": 2}), "healthy");
    job(json!({"active": 1, "failed": 2}), "healthy");
    job(
        json!({"failed": 2}),
        "deadline exceeded, reason: \"DeadlineExceeded\", message: \"Job was active longer than specified deadline\"",
    );
    job(
        json!({"failed": 2, "conditions": [condition("Failed", "True", "BackoffLimitExceeded")]}),
        "deadline exceeded, reason: \"BackoffLimitExceeded\", message: \"BackoffLimitExceeded.\"",
    );
    job(
        json!({"conditions": [condition("Failed", "True", "DeadlineExceeded")]}),
        "deadline exceeded, reason: \"DeadlineExceeded\", message: \"DeadlineExceeded.\"",
    );
    job(json!({"conditions": [condition("Failed", "True", "PodFailurePolicy")]}), "healthy");
    let definition = |conditions: Value, expected: &str| {
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({"conditions": conditions}), expected);
    };
    definition(json!([condition("Established", "True", "E")]), "healthy");
    definition(json!([condition("Established", "False", "E")]), "CustomResourceDefinition demo Established=False, E: E.");
    definition(
        json!([condition("NamesAccepted", "True", "N")]),
        "CustomResourceDefinition demo does not declare an Established status condition: [NamesAccepted]",
    );
    check("v1", "ConfigMap", json!({}), "healthy");
}
