//! Webhooks whose pods are simulated: nothing leaves for their addresses.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Cluster, config};
use mainstay_apiserver::{Config, Server};
use serde_json::{Value, json};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// A cluster with a simulated node, a Service whose only pod runs there, and a webhook behind it that looks after ConfigMaps.
async fn world(skip_simulated_webhooks: bool, labels: Value) -> Cluster {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::open(Config { skip_simulated_webhooks, ..config(directory.path()) }).await.unwrap();
    let cluster = Cluster::over(server, directory).await;
    let node = json!({"metadata": {"name": "worker", "labels": {"mainstay.dev/simulated": "true"}}, "spec": {"podCIDR": "10.244.0.0/24"}});
    cluster.post("/api/v1/nodes", node).await.ok();
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    cluster.post("/api/v1/namespaces/ns/services", service).await.ok();
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "ports": [{"port": 9443}], "endpoints": [{"addresses": ["10.244.0.9"], "conditions": {"ready": true}, "nodeName": "worker"}],
    });
    cluster.post("/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices", slice).await.ok();
    let hook = json!({
        "name": "maps.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "clientConfig": {"service": {"namespace": "ns", "name": "hook"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    cluster.post(HOOKS, json!({"metadata": {"name": "rules", "labels": labels}, "webhooks": [hook]})).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    cluster
}

/// KAPI-WL-06, KAPI-ADM-01: a webhook whose pods are simulated is not called; the refusal names it, whom it belongs to, and what would help.
#[tokio::test]
async fn a_simulated_webhook_is_named() {
    let none = world(false, json!({})).await;
    let refused = none.post(MAPS, json!({"metadata": {"name": "one"}})).await;
    let words = "failed calling webhook \"maps.example.com\": failed to call webhook: Post \"https://hook.ns.svc:443?timeout=10s\": service ns/hook has \
                 only simulated pods, which answer nothing; mainstay up --serve-local ns/hook=HOST:PORT sends its calls to a process; it belongs to \
                 webhook configuration rules, which kubectl delete removes";
    assert_eq!((refused.status.as_u16(), refused.message()), (500, &*format!("Internal error occurred: {words}")));
    let labels = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "beacon"});
    let owned = world(false, labels).await;
    let refused = owned.post(MAPS, json!({"metadata": {"name": "one"}})).await;
    assert!(
        refused.message().ends_with("belongs to clusterextension beacon: mainstay uninstall beacon removes it"),
        "{}",
        refused.message()
    );
    let open = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    owned.patch(&format!("{HOOKS}/rules"), "json", open).await.ok();
    owned.server.api().objects.cache.catch_up().await.unwrap();
    owned.post(MAPS, json!({"metadata": {"name": "one"}})).await.ok();
}

/// KAPI-WL-06: where it was asked for, such a webhook is passed over, and each answer says so.
#[tokio::test]
async fn a_simulated_webhook_is_passed_over() {
    let cluster = world(true, json!({})).await;
    let answer = cluster.post(MAPS, json!({"metadata": {"name": "one"}})).await;
    let warning = answer.headers["warning"].to_str().unwrap().to_owned();
    answer.ok();
    assert_eq!(warning, "299 - \"admission webhook \\\"maps.example.com\\\" was passed over: its pods are simulated\"");
}
