//! `dryRun=All`: everything but the write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use std::sync::{Arc, Mutex};

use crate::common::{Cluster, MAPS, map};
use crate::peer::Peer;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

/// The `dryRun` of every review, in order.
type Seen = Arc<Mutex<Vec<bool>>>;

async fn mark(State(seen): State<Seen>, Json(review): Json<Value>) -> Json<Value> {
    seen.lock().unwrap().push(review["request"]["dryRun"].as_bool().unwrap());
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if review["request"]["object"].is_object() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(patch.to_string()).into();
    }
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

async fn hooked(side_effects: &str) -> (Cluster, Seen, Peer, Value) {
    let (cluster, seen) = (Cluster::new().await, Seen::default());
    let peer = Peer::start(&["127.0.0.1"], Router::new().route("/", post(mark).with_state(seen.clone()))).await;
    let hook = json!({
        "name": "mark.example.com", "sideEffects": side_effects, "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", peer.port), "caBundle": peer.ca_bundle()},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    let body = json!({"metadata": {"name": "mark"}, "webhooks": [hook]});
    let answer = cluster.post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", body).await.body;
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    (cluster, seen, peer, answer)
}

/// KAPI-REST-03, KAPI-ADM-01, KAPI-ADM-03: every verb with a dry run: webhooks without side effects are asked and told that it is one,
/// the answer shows what would be, nothing is stored, charged or told to watchers; what would be refused is refused.
#[tokio::test(flavor = "multi_thread")]
async fn every_verb() {
    for side_effects in ["None", "NoneOnDryRun"] {
        let (cluster, seen, _peer, answer) = hooked(side_effects).await;
        assert_eq!(answer["kind"], "MutatingWebhookConfiguration", "{answer}");
        let quotas = "/api/v1/namespaces/ns/resourcequotas";
        cluster.post(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}})).await.ok();
        let status = json!({"status": {"hard": {"configmaps": "2"}, "used": {"configmaps": "0"}}});
        cluster.patch(&format!("{quotas}/q/status"), "merge", status).await.ok();
        cluster.server.api().objects.cache.catch_up().await.unwrap();
        cluster.post(MAPS, map("a", json!({"x": "1"}))).await.ok();
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [false]);
        let before = cluster.get(MAPS).await.ok();
        let mut events = cluster
            .watch(&format!("{MAPS}?watch=true&resourceVersion={}", {
                let version = &before["metadata"]["resourceVersion"];
                version.as_str().unwrap().to_owned()
            }))
            .await;

        let (dry, one) = (format!("{MAPS}?dryRun=All"), format!("{MAPS}/a?dryRun=All&fieldManager=test"));
        let made = cluster.post(&dry, map("b", json!({}))).await.ok();
        assert_eq!((&made["metadata"]["labels"]["seen"], made["metadata"].get("resourceVersion")), (&json!("yes"), None));
        assert!(made["metadata"]["uid"].is_string());
        let generated = cluster.post(&dry, json!({"metadata": {"generateName": "gen-"}})).await.ok();
        assert!(generated["metadata"]["name"].as_str().unwrap().starts_with("gen-"));
        let taken = cluster.post(&dry, map("a", json!({}))).await;
        assert_eq!((taken.status, taken.message()), (StatusCode::CONFLICT, "configmaps \"a\" already exists"));
        let invalid = cluster.post(&dry, map("Not-A-Name", json!({}))).await;
        assert_eq!(invalid.status, StatusCode::UNPROCESSABLE_ENTITY);
        let version = before["items"][0]["metadata"]["resourceVersion"].clone();
        let put = cluster.put(&one, map("a", json!({"x": "2"}))).await.ok();
        assert_eq!((&put["data"]["x"], &put["metadata"]["resourceVersion"]), (&json!("2"), &version));
        for kind in ["merge", "strategic-merge", "apply"] {
            let force = if kind == "apply" { "&force=true" } else { "" };
            let patched = cluster.patch(&format!("{one}{force}"), kind, map("a", json!({"x": kind}))).await.ok();
            assert_eq!((&patched["data"]["x"], &patched["metadata"]["resourceVersion"]), (&json!(kind), &version), "{kind}");
        }
        let applied = cluster.patch(&format!("{MAPS}/c?dryRun=All&fieldManager=test"), "apply", map("c", json!({}))).await;
        assert_eq!(applied.status, StatusCode::CREATED);
        let stale = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        assert_eq!(cluster.put(&one, stale).await.status, StatusCode::CONFLICT);
        cluster.delete(&one).await.ok();
        cluster.delete(&dry).await.ok();

        assert!(!seen.lock().unwrap().is_empty() && seen.lock().unwrap().iter().all(|dry| *dry), "{:?}", seen.lock().unwrap());
        let after = cluster.get(MAPS).await.ok();
        assert_eq!(after["items"], before["items"]);
        assert_eq!(cluster.get(&format!("{quotas}/q")).await.ok()["status"]["used"]["configmaps"], "1");
        cluster.post(MAPS, map("b", json!({}))).await.ok();
        assert_eq!(events.take(1).await, ["ADDED b"], "watchers hear of what was written, and of nothing else");
        let full = cluster.post(&dry, map("c", json!({}))).await;
        assert_eq!(full.status, StatusCode::FORBIDDEN);
        assert!(full.message().contains("exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"));
    }
}

/// KAPI-ADM-01: webhooks that may have effects cannot be configured, so that no dry run ever meets one.
#[tokio::test(flavor = "multi_thread")]
async fn side_effects_are_refused() {
    for side_effects in ["Some", "Unknown"] {
        let (_cluster, _seen, _peer, answer) = hooked(side_effects).await;
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(&format!("webhooks[0].sideEffects: Unsupported value: \"{side_effects}\"")), "{message}");
    }
}

/// KAPI-REST-03: a dry run takes no address and no port of a Service, and frees none.
#[tokio::test]
async fn addresses_are_not_taken() {
    let cluster = Cluster::new().await;
    let services = "/api/v1/namespaces/ns/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30077}]}});
    for _ in 0..2 {
        let made = cluster.post(&format!("{services}?dryRun=All"), service("a")).await.ok();
        assert_eq!(made["spec"]["clusterIP"], "10.96.0.77");
    }
    cluster.post(services, service("a")).await.ok();
    cluster.delete(&format!("{services}/a?dryRun=All")).await.ok();
    // As in Kubernetes, a dry run does not look for what is taken: it may be free when the Service is made, or the other way round.
    cluster.post(&format!("{services}?dryRun=All"), service("b")).await.ok();
    let any = json!({"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let any = cluster.post(&format!("{services}?dryRun=All"), any).await.ok();
    assert_eq!((&any["spec"]["clusterIP"], &any["spec"]["ports"][0]["nodePort"]), (&json!("10.96.0.0"), &json!(30000)));
    let mut outside = service("b");
    outside["spec"]["clusterIP"] = json!("10.97.0.1");
    let outside = cluster.post(&format!("{services}?dryRun=All"), outside).await;
    assert!(outside.message().contains("the provided network does not match the current range"), "{}", outside.text);
    let taken = cluster.post(services, service("b")).await;
    assert!(taken.message().contains("provided IP is already allocated"), "{}", taken.text);
    let plain = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    cluster.patch(&format!("{services}/a?dryRun=All"), "merge", plain).await.ok();
    let mut port = service("b");
    port["spec"]["clusterIP"] = Value::Null;
    let taken = cluster.post(services, port).await;
    assert!(taken.message().contains("provided port is already allocated"), "{}", taken.text);
    cluster.delete(&format!("{services}/a")).await.ok();
    cluster.post(services, service("b")).await.ok();
}
