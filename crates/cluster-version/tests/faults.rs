//! Faults: an API that is down or refuses, operators that degrade on any runlevel, restarts at any step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use mainstay_objects::{Expect, Propagation};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{World, condition, place, version};
use crate::releases::{completed, config, image, release, wish, world};

/// An API that answers nothing while `is_down`.
fn unreliable(router: Router, is_down: Arc<AtomicBool>) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| {
        let is_down = is_down.clone();
        async move {
            if is_down.load(Ordering::Relaxed) {
                return (StatusCode::SERVICE_UNAVAILABLE, "the API is down").into_response();
            }
            next.run(request).await
        }
    }))
}

/// CVO-SYNC-07, CVO-ERR-02: an API that is down for a while delays an update, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_down_in_the_middle() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let operators = world.operators(&[]);
    let is_down = Arc::new(AtomicBool::new(false));
    let _operator = world.through(unreliable(world.server.router(), is_down.clone()), &image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    drop(operators);
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    world.until(&version(), 30, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    is_down.store(true, Ordering::Relaxed);
    let _operators = world.operators(&[]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let object = world.admin.get(&version()).await.unwrap().unwrap();
    assert_eq!(object["status"]["history"][0]["state"], "Partial");
    is_down.store(false, Ordering::Relaxed);
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    assert_eq!(object["status"]["history"].as_array().unwrap().len(), 2);
}

/// CVO-ERR-03: what a policy refuses shows with its reason, what stands beside it is applied, and it heals once the policy is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_refuses() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "frozen"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}]},
            "matchConditions": [{"name": "beta", "expression": "object.metadata.name == 'beta'"}],
            "validations": [{"expression": "false", "message": "beta is frozen"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]},
    });
    for object in [&policy, &binding] {
        world.admin.apply(object, true, &Expect::default()).await.unwrap();
    }
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let object = world.until(&version(), 60, |object| condition(object, "Failing").starts_with("True UpdatePayloadResourceInvalid")).await;
    let expected = "Could not update configmap \"alpha/beta\" (4 of 5): the object is invalid, possibly due to local cluster configuration";
    assert_eq!(condition(&object, "Failing"), format!("True UpdatePayloadResourceInvalid: {expected}"));
    assert_eq!(world.admin.get(&config("alpha")).await.unwrap().unwrap()["data"]["release"], "1.0.2");
    for object in [&binding, &policy] {
        let place = mainstay_objects::ObjectRef::of(object).unwrap();
        world.admin.delete(&place, &Expect::default(), Propagation::Background).await.unwrap();
    }
    world.until(&version(), 60, completed("1.0.2")).await;
}

/// CVO-HEALTH-01, CVO-ERR-04: an operator that stays degraded fails an update on its runlevel and no other, and the next release can be wished for.
#[tokio::test(flavor = "multi_thread")]
async fn degraded_on_each_runlevel() {
    for name in ["alpha", "beta"] {
        let releases = ["1.0.1", "1.0.2", "1.0.3"].map(|version| (version, release(version, &[])));
        let world = world(&releases).await;
        let operators = world.operators(&[]);
        let _operator = world.operator(&image("1.0.1"), 2_000.0);
        world.until(&version(), 30, completed("1.0.1")).await;
        drop(operators);
        let _others = world.operators(if name == "alpha" { &["alpha"] } else { &["beta"] });
        wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
        let operator = place("config.openshift.io/v1", "ClusterOperator", "", name);
        let degraded = |live: &Value| {
            let at = "2026-01-01T00:00:00Z";
            let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "reason": "Broken", "message": "a disk is full"});
            let mut status = live["status"].clone();
            status["conditions"] =
                json!([condition("Available", "True"), condition("Degraded", "True"), condition("Progressing", "False")]);
            status["versions"] = json!([{"name": "operator", "version": "1.0.2"}]);
            status
        };
        let live = world.admin.get(&operator).await.unwrap().unwrap();
        world.admin.update_status(&live, &degraded(&live)).await.unwrap();
        let object = world.until(&version(), 90, |object| condition(object, "Failing").starts_with("True ClusterOperatorDegraded")).await;
        assert!(
            condition(&object, "Failing").contains(&format!("Cluster operator {name} is degraded")),
            "{}",
            condition(&object, "Failing")
        );
        let beta = world.admin.get(&config("beta")).await.unwrap().unwrap()["data"]["release"].clone();
        assert_eq!(beta, if name == "alpha" { "1.0.1" } else { "1.0.2" });
        wish(&world, json!({"version": "1.0.3", "image": image("1.0.3")})).await;
        let _operators = world.operators(&[]);
        world.until(&version(), 60, completed("1.0.3")).await;
    }
}

/// The release whose operator the cluster runs now: an update replaces it first.
async fn own(world: &World) -> String {
    let object = world.admin.get(&version()).await.unwrap().unwrap();
    object["status"]["history"][0]["image"].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// CVO-FLOW-06, CVO-HIST-07: wherever an update is interrupted, and however often, it is completed; the history has one entry of it, and nothing
    /// is deleted or made twice.
    #[test]
    fn killed_between_any_two_writes(kills in proptest::collection::vec(1_usize..40, 1..6)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
            let _operators = world.operators(&[]);
            let operator = world.operator(&image("1.0.1"), 500.0);
            world.until(&version(), 30, completed("1.0.1")).await;
            drop(operator);
            let namespace = world.admin.get(&place("v1", "Namespace", "", "alpha")).await.unwrap().unwrap();
            wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
            for kill in kills {
                // From the kill on, the API takes no write of this operator: it is as if its process had ended there.
                let (left, is_dead) = (Arc::new(AtomicUsize::new(kill)), Arc::new(AtomicBool::new(false)));
                let dead = is_dead.clone();
                let router = world.server.router().layer(from_fn(move |request: Request, next: Next| {
                    let (left, dead) = (left.clone(), dead.clone());
                    async move {
                        let is_write = !matches!(request.method().as_str(), "GET" | "HEAD");
                        let ends = is_write && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
                        if ends || dead.load(Ordering::Relaxed) {
                            dead.store(true, Ordering::Relaxed);
                            return (StatusCode::SERVICE_UNAVAILABLE, "the process has ended").into_response();
                        }
                        next.run(request).await
                    }
                }));
                let operator = world.through(router, &own(&world).await, 500.0);
                for _ in 0..100 {
                    let object = world.admin.get(&version()).await.unwrap().unwrap();
                    if is_dead.load(Ordering::Relaxed) || completed("1.0.2")(&object) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                drop(operator);
            }
            let _operator = world.operator(&own(&world).await, 500.0);
            let object = world.until(&version(), 60, completed("1.0.2")).await;
            let history = object["status"]["history"].as_array().unwrap();
            assert_eq!(history.len(), 2, "{history:#?}");
            for name in ["alpha", "beta"] {
                assert_eq!(world.admin.get(&config(name)).await.unwrap().unwrap()["data"]["release"], "1.0.2");
            }
            let now = world.admin.get(&place("v1", "Namespace", "", "alpha")).await.unwrap().unwrap();
            assert_eq!(now["metadata"]["uid"], namespace["metadata"]["uid"]);
        });
    }
}
