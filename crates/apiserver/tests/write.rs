//! Patches, server-side apply, and admission.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use std::sync::Arc;

use crate::common::{self, Cluster, MAPS, map};
use http::StatusCode;
use mainstay_apiserver::admission::{AdmissionStep, Request, Steps};
use mainstay_apiserver::{Config, Server};
use serde_json::{Value, json};

/// KAPI-PATCH-01: the three patch formats, and what is refused of them.
#[tokio::test]
async fn patches_change_objects() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({"x": "1", "y": "2"}))).await.ok();
    let path = format!("{MAPS}/a");
    let merged = cluster.patch(&path, "merge", json!({"data": {"x": null, "z": "3"}})).await.ok();
    assert_eq!(merged["data"], json!({"y": "2", "z": "3"}));
    let jsoned = cluster
        .patch(
            &path,
            "json",
            json!([{"op": "test", "path": "/data/y", "value": "2"}, {"op": "move", "from": "/data/y", "path": "/data/w"}]),
        )
        .await
        .ok();
    assert_eq!(jsoned["data"], json!({"w": "2", "z": "3"}));
    let failed = cluster.patch(&path, "json", json!([{"op": "test", "path": "/data/w", "value": "x"}])).await;
    assert_eq!(failed.status, StatusCode::UNPROCESSABLE_ENTITY);
    let many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    assert_eq!(cluster.patch(&path, "json", json!(many)).await.status, StatusCode::PAYLOAD_TOO_LARGE);

    let services = "/api/v1/namespaces/ns/services";
    cluster
        .post(services, json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}))
        .await
        .ok();
    let patch = json!({"spec": {"ports": [{"port": 81, "name": "c"}, {"$patch": "delete", "port": 80}]}});
    let strategic = cluster.patch(&format!("{services}/s"), "strategic-merge", patch).await.ok();
    assert_eq!(strategic["spec"]["ports"], json!([{"name": "c", "port": 81, "protocol": "TCP", "targetPort": 81}]));
    assert_eq!(
        cluster.send("PATCH", &path, &[("content-type", "application/json")], "{}").await.status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}

/// KAPI-PATCH-01: as with a PUT, the namespace of an object of the whole cluster is dropped, and one that is taken away is that of the
/// request; OLM patches ClusterRoleBindings so.
#[tokio::test]
async fn patched_objects_stay_in_their_place() {
    let cluster = Cluster::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.post(roles, json!({"metadata": {"name": "r"}, "rules": []})).await.ok();
    for format in ["merge", "strategic-merge"] {
        let patch = json!({"metadata": {"namespace": "ns", "labels": {"by": format}}});
        let patched = cluster.patch(&format!("{roles}/r"), format, patch).await.ok();
        assert_eq!((&patched["metadata"]["labels"]["by"], patched["metadata"].get("namespace")), (&json!(format), None));
    }
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let path = format!("{MAPS}/a");
    let patched = cluster.patch(&path, "merge", json!({"metadata": {"namespace": null, "labels": {"a": "b"}}})).await.ok();
    assert_eq!(patched["metadata"]["namespace"], "ns");
    let elsewhere = cluster.patch(&path, "merge", json!({"metadata": {"namespace": "other"}})).await;
    assert_eq!(elsewhere.status, StatusCode::BAD_REQUEST, "{}", elsewhere.message());
}

/// KAPI-PATCH-01: writers without a resourceVersion do not get in each other's way.
#[tokio::test]
async fn concurrent_patches_all_take_effect() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let path = format!("{MAPS}/a");
    let patches = ["k0", "k1", "k2", "k3"].map(|key| cluster.patch(&path, "merge", json!({"data": {key: "1"}})));
    let [a, b, c, d] = patches;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    for answer in [a, b, c, d] {
        answer.ok();
    }
    assert_eq!(cluster.get(&path).await.ok()["data"].as_object().unwrap().len(), 4);
}

/// KAPI-SSA-01: ownership, conflicts, force, removal of what its last applier drops, and nothing for a no-op.
#[tokio::test]
async fn appliers_own_fields() {
    let cluster = Cluster::new().await;
    let path = |manager: &str, more: &str| format!("{MAPS}/a?fieldManager={manager}{more}");
    let made = cluster.patch(&path("ann", ""), "apply", map("a", json!({"x": "1", "y": "1"}))).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let made = made.ok();
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let same = cluster.patch(&path("ann", ""), "apply", map("a", json!({"x": "1", "y": "1"}))).await.ok();
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let conflict = cluster.patch(&path("ben", ""), "apply", map("a", json!({"x": "2"}))).await;
    assert_eq!(conflict.message(), "Apply failed with 1 conflict: conflict with \"ann\": .data.x");
    assert_eq!(
        conflict.body["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"ann\"", "field": ".data.x"}])
    );
    let forced = cluster.patch(&path("ben", "&force=true"), "apply", map("a", json!({"x": "2"}))).await.ok();
    assert_eq!(forced["data"], json!({"x": "2", "y": "1"}));
    let dropped = cluster.patch(&path("ann", ""), "apply", map("a", json!({}))).await.ok();
    assert_eq!(dropped["data"], json!({"x": "2"}));
    let nameless = cluster.patch(&format!("{MAPS}/a"), "apply", map("a", json!({}))).await;
    assert_eq!(nameless.body["details"]["causes"][0]["field"], "fieldManager");
}

/// KAPI-ADM-03: a pod runs as the namespace's account, with its token, the default tolerations and priority.
#[tokio::test]
async fn pods_are_admitted() {
    let cluster = Cluster::new().await;
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = |more: serde_json::Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": spec})
    };
    let made = cluster.post(pods, pod(json!({}))).await.ok();
    assert_eq!((&made["spec"]["serviceAccountName"], &made["spec"]["priority"]), (&json!("default"), &json!(0)));
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let stranger = cluster.post(pods, pod(json!({"serviceAccountName": "none"}))).await;
    assert_eq!(stranger.message(), "pods \"p\" is forbidden: error looking up service account ns/none: serviceaccount \"none\" not found");
    let classless = cluster.post(pods, pod(json!({"priorityClassName": "none"}))).await;
    assert_eq!(classless.message(), "pods \"p\" is forbidden: no PriorityClass with name none was found");
    let kept = cluster.delete("/api/v1/namespaces/kube-system").await;
    assert_eq!(kept.status, StatusCode::FORBIDDEN);
}

/// A step of whoever composes the server: it signs what is written.
struct Signature;

#[async_trait::async_trait]
impl AdmissionStep for Signature {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> mainstay_apiserver::error::Result<()> {
        if request.writes("", "configmaps") {
            object["data"]["signed"] = object["data"]["text"].clone();
        }
        Ok(())
    }
}

/// KAPI-ADM-01: whoever composes a server adds steps to its admission.
#[tokio::test]
async fn a_step_of_our_own() {
    let directory = tempfile::tempdir().unwrap();
    let steps = Steps::new(vec![Arc::new(Signature)]);
    let server = Server::open(Config { steps, ..common::config(directory.path()) }).await.unwrap();
    let cluster = Cluster::over(server, directory).await;
    let made = cluster.post(MAPS, map("a", json!({"text": "x"}))).await.ok();
    assert_eq!(made["data"], json!({"text": "x", "signed": "x"}));
}
