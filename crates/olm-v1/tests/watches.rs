//! Watches of what was applied: one a kind for all extensions, whoever of them may still watch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mainstay_objects::{ObjectRef, Patch};

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{operator_controller, place};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use mainstay_api::olm_v1::OWNER_NAME_LABEL;
use mainstay_runtime::Cluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The controllers' way to ConfigMaps.
#[derive(Clone, Default)]
struct Wire {
    /// Nobody may list or watch them.
    shut: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    /// Ends the watches that are open.
    cut: CancellationToken,
}

async fn wire(State(wire): State<Wire>, request: Request, next: Next) -> Response {
    if !request.uri().path().ends_with("/api/v1/configmaps") {
        return next.run(request).await;
    }
    if wire.shut.load(Ordering::SeqCst) {
        wire.refused.fetch_add(1, Ordering::SeqCst);
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "shut"});
        return (StatusCode::FORBIDDEN, axum::Json(status)).into_response();
    }
    let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let response = next.run(request).await;
    if !watches || wire.cut.is_cancelled() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let ends = wire.cut.clone();
    let body = body.into_data_stream().take_until(async move { ends.cancelled().await });
    Response::from_parts(parts, Body::from_stream(body))
}

async fn bench(through: &Wire) -> Bench {
    let layer = from_fn_with_state(through.clone(), wire);
    Bench::with(|setup| {
        let Cluster::Embedded { router, .. } = &setup.operator_controller else { panic!("another cluster") };
        setup.operator_controller = Cluster::Embedded { router: router.clone().layer(layer), identity: operator_controller };
    })
    .await
}

/// A bundle of one Deployment and one ConfigMap, named after its package.
fn files(package: &str) -> Vec<(String, String)> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("{package}.v1.0.0")},
        "spec": {
            "displayName": package, "version": "1.0.0", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": package, "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": package}},
                "template": {"metadata": {"labels": {"app": package}}, "spec": {"containers": [{"name": "m", "image": "example.com/m:1"}]}},
            }}]}},
        },
    });
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": package}, "data": {"a": "1"}});
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
    vec![
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        ("manifests/settings.yaml".to_owned(), settings.to_string()),
        ("metadata/annotations.yaml".to_owned(), annotations.to_string()),
    ]
}

/// Installs a package as an account of its own, which may do everything.
async fn install(bench: &Bench, name: &str) {
    let image = bench.bundle(name, "1.0.0", files(name)).await;
    bench.catalog(name, name, &[("1.0.0", &image)]).await;
    bench.api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "work"}})).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "work"}]});
    bench.api.apply(binding).await;
    let mut object = cluster_extension(name, name, Some("1.0.0"));
    object["spec"]["serviceAccount"]["name"] = json!(name);
    bench.api.apply(object).await;
    bench.installed(name, "1.0.0").await;
}

fn settings(name: &str) -> ObjectRef {
    place("v1", "ConfigMap", "work", name)
}

async fn patch(bench: &Bench, name: &str, patch: Value) {
    bench.api.admin.patch(&settings(name), "", &Patch::Merge(patch)).await.unwrap();
}

async fn repaired(bench: &Bench, name: &str) {
    let whole = |object: &Value| object["data"] == json!({"a": "1"}) && object["metadata"]["labels"][OWNER_NAME_LABEL] == name;
    bench.api.until(&settings(name), whole).await;
}

/// OLM1-CTRL-08, OLM1-PERM-01: the account that a watch was opened as loses its permissions, and the watch breaks: the other extension's account
/// goes on with it, and its drift is repaired. An object that is labelled as somebody else's still wakes its owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_as_somebody_else() {
    let wire = Wire::default();
    let bench = bench(&wire).await;
    install(&bench, "alpha").await;
    install(&bench, "beta").await;
    patch(&bench, "beta", json!({"data": {"a": "2"}})).await;
    repaired(&bench, "beta").await;

    bench.api.delete(&place("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "alpha")).await;
    wire.cut.cancel();
    patch(&bench, "beta", json!({"data": {"a": "3"}})).await;
    repaired(&bench, "beta").await;
    patch(&bench, "beta", json!({"metadata": {"labels": {OWNER_NAME_LABEL: "alpha"}}})).await;
    repaired(&bench, "beta").await;
    bench.end().await;
}

/// OLM1-CTRL-08: what changed while nobody could watch is put right as soon as somebody can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_before_the_watch_is_seen() {
    let wire = Wire::default();
    wire.shut.store(true, Ordering::SeqCst);
    let bench = bench(&wire).await;
    install(&bench, "alpha").await;
    // Refused some times with a pause each, after which whatever the install itself wakes is over.
    while wire.refused.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    patch(&bench, "alpha", json!({"data": {"a": "2"}})).await;
    wire.shut.store(false, Ordering::SeqCst);
    repaired(&bench, "alpha").await;
    bench.end().await;
}
