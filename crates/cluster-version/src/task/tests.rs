//! Attempts at one manifest, against the real API.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;

use mainstay_cluster_version_core::error::Effect;
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::json;

use super::*;

fn manifest(object: &Value) -> Manifest {
    mainstay_release::parse("test.yaml", object.to_string().as_bytes()).unwrap().into_iter().next().unwrap()
}

async fn served(cluster: &EmbeddedCluster) {
    for manifest in mainstay_api::release_manifests().unwrap() {
        cluster.admin.apply(&manifest.definition, true, &Expect::default()).await.unwrap();
        let place = ObjectRef::of(&manifest.definition).unwrap();
        cluster.admin.wait(&place, &mainstay_objects::Until::Healthy, Duration::from_secs(60)).await.unwrap();
    }
}

/// Applies a manifest; returns what failed, attempt by attempt, and the end.
async fn tried(cluster: &EmbeddedCluster, mode: Mode, object: &Value) -> (Vec<String>, UpdateError) {
    let pace = Pace::new(0.0).accelerated(100_000.0);
    let (env, stop) = (Env::system(), CancellationToken::new());
    let (settings, since, deletions, settled) = (Settings::default(), Mutex::default(), Mutex::default(), Settled::default());
    let hand = Hand {
        writer: &cluster.admin,
        env: &env,
        pace: &pace,
        mode,
        owner: ("version", "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11"),
        settings: &settings,
        since: &since,
        deletions: &deletions,
        settled: &settled,
        stop: &stop,
    };
    let failed = RefCell::new(Vec::new());
    let end = hand.apply(&manifest(object), 7, 90, |error| failed.borrow_mut().push(error.to_string())).await;
    match end {
        Err(TaskFailed::Failed(error)) => (failed.into_inner(), error),
        other => panic!("{other:?}"),
    }
}

/// CVO-ERR-01, CVO-GRAPH-05: a typed error, which has an effect and names what it is about, ends the task at its first attempt; every other error is
/// tried again as often as the mode allows, and then names the task by its number.
#[tokio::test(flavor = "multi_thread")]
async fn typed_errors_are_not_tried_again() {
    let cluster = EmbeddedCluster::start().await;
    served(&cluster).await;
    let at = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "reason": "R", "message": "m"});
    let operator = |name: &str| {
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
            "status": {"versions": [{"name": "operator", "version": "1.0.2"}]}})
    };
    let states = [
        (
            "away",
            json!([condition("Available", "False"), condition("Degraded", "False")]),
            Some(Effect::Fail),
            "ClusterOperatorNotAvailable",
        ),
        (
            "ill",
            json!([condition("Available", "True"), condition("Degraded", "True")]),
            Some(Effect::FailAfterInterval),
            "ClusterOperatorDegraded",
        ),
        ("slow", json!([condition("Available", "True"), condition("Degraded", "False")]), Some(Effect::None), "ClusterOperatorUpdating"),
    ];
    for (name, conditions, effect, reason) in states {
        let live = cluster.admin.create(&operator(name)).await.unwrap();
        let versions = json!([{"name": "operator", "version": "1.0.1"}]);
        cluster.admin.update_status(&live, &json!({"conditions": conditions, "versions": versions})).await.unwrap();
        for mode in [Mode::Updating, Mode::Reconciling] {
            let (attempts, error) = tried(&cluster, mode, &operator(name)).await;
            assert_eq!(attempts.len(), 1, "{attempts:?}");
            assert_eq!((error.effect(), error.reason()), (effect, reason));
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    // While a cluster is installed a degraded operator is told of, and ends nothing.
    let (attempts, error) = tried(&cluster, Mode::Initializing, &operator("ill")).await;
    assert_eq!((attempts.len(), error.effect()), (1, Some(Effect::Report)));

    let lost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lost", "namespace": "nowhere"}});
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "lost"}});
    for (mode, steps) in [(Mode::Initializing, 4), (Mode::Updating, 3), (Mode::Reconciling, 3)] {
        let (attempts, error) = tried(&cluster, mode, &lost).await;
        assert_eq!(attempts.len(), steps, "{attempts:?}");
        assert_eq!((error.effect(), error.reason()), (None, "UpdatePayloadResourceNotFound"));
        assert_eq!(error.to_string(), "Could not update configmap \"nowhere/lost\" (7 of 90): resource may have been deleted");
        let (attempts, error) = tried(&cluster, mode, &unknown).await;
        assert_eq!((attempts.len(), error.reason()), (steps, "UpdatePayloadResourceTypeMissing"));
    }
}
