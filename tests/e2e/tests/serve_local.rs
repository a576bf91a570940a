//! `--serve-local`: an operator's webhook runs from the shell.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::peer::Peer;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use mainstay_e2e::client::{JSON, Target};
use mainstay_e2e::{Cluster, need_embedded};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Marks what it sees with who asked it.
async fn mark(uri: http::Uri, Json(review): Json<Value>) -> Json<Value> {
    let host = uri.authority().map_or("", http::uri::Authority::as_str);
    let patch = json!([{"op": "add", "path": "/data", "value": {"asked": host, "name": review["request"]["name"]}}]);
    let response = json!({
        "uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
    });
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// KAPI-WL-06, KAPI-ADM-01: a mutating webhook of a Service goes to the process that the flag names, under the Service's name, whether
/// there is such a Service or not; when the process has gone, its failure policy decides.
#[test]
fn a_mutating_webhook_from_the_shell() {
    let Some(()) = need_embedded() else { return };
    let runtime = Runtime::new().unwrap();
    let peer = runtime.block_on(Peer::start(&["hook.ops.svc"], Router::new().route("/mark", post(mark))));
    let cluster =
        Cluster::up(&["--serve-local", &format!("ops/hook=127.0.0.1:{}", peer.port), "--components", "controllers,scheduler,nodes"]);
    let target = Target::read(cluster.kubeconfig()).unwrap();
    let hook = |name: &str, policy: &str, label: &str| {
        json!({
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": policy,
            "clientConfig": {"service": {"namespace": "ops", "name": "hook", "path": "/mark"}, "caBundle": peer.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {"hook": label}},
        })
    };
    let configuration = json!({
        "metadata": {"name": "hooks"}, "webhooks": [hook("strict", "Fail", "strict"), hook("lenient", "Ignore", "lenient")],
    });
    runtime.block_on(async {
        let mut connection = target.connect().await.unwrap();
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        connection.json("POST", path, &configuration).await.unwrap();
        let body = |name: &str, hook: &str| json!({"metadata": {"name": name, "labels": {"hook": hook}}});
        let made = connection.json("POST", MAPS, &body("one", "strict")).await.unwrap();
        assert_eq!(made["data"], json!({"asked": "hook.ops.svc:443", "name": "one"}));
        let plain = connection.json("POST", MAPS, &body("two", "none")).await.unwrap();
        assert_eq!(plain["data"], Value::Null, "what it is not asked about stays as it is");
        // A Service of that name, which nobody serves, changes nothing.
        connection.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "ops"}})).await.unwrap();
        let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}], "selector": {"app": "none"}}});
        connection.json("POST", "/api/v1/namespaces/ops/services", &service).await.unwrap();
        assert_eq!(connection.json("POST", MAPS, &body("three", "strict")).await.unwrap()["data"]["name"], "three");

        drop(peer);
        // A connection that the server has not ended yet may be answered once more.
        let mut answered = (StatusCode::CREATED, Value::Null);
        for attempt in 0..100 {
            let name = format!("four-{attempt}");
            let (status, answer) = connection.ask("POST", MAPS, JSON, body(&name, "strict").to_string().into()).await.unwrap();
            answered = (status, serde_json::from_slice(&answer).unwrap());
            if status != StatusCode::CREATED {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let (status, answer) = answered;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("failed calling webhook \"strict.example.com\"") && message.contains("/mark"), "{message}");
        let open = connection.json("POST", MAPS, &body("five", "lenient")).await.unwrap();
        assert_eq!(open["data"], Value::Null);
    });
}
