//! Writers that are faster: a webhook that writes what is being written, before the writer gets there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Cluster, MAPS, map, send};
use crate::peer::Peer;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};

/// Whoever is asked about a write by somebody else, and writes first.
struct Racer {
    router: Router,
    /// How many more times it is faster.
    left: AtomicUsize,
    asked: Mutex<Vec<String>>,
}

impl Racer {
    /// Is faster this many times from now on.
    fn race(&self, times: usize) {
        self.left.store(times, Ordering::Relaxed);
        self.asked.lock().unwrap().clear();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn interfere(State(racer): State<Arc<Racer>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let name = request["object"]["metadata"]["name"].as_str().unwrap();
    racer.asked.lock().unwrap().push(name.to_owned());
    if racer.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let outcome = if request["operation"] == "CREATE" {
            send(&racer.router, "POST", MAPS, &[("content-type", "application/json")], map(name, json!({})).to_string()).await
        } else {
            let turn = json!({"data": {format!("racer-{}", racer.asked()): "was here"}});
            let kind = [("content-type", "application/merge-patch+json")];
            send(&racer.router, "PATCH", &format!("{MAPS}/{name}"), &kind, turn.to_string()).await
        };
        outcome.ok();
    }
    let response = json!({"uid": request["uid"], "allowed": true});
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// A cluster whose writes of ConfigMaps by anybody but the racer meet the racer.
async fn contested() -> (Cluster, Arc<Racer>, Peer) {
    let cluster = Cluster::new().await;
    let router = cluster.server.in_process(UserInfo::new("racer", &["system:masters"]));
    let racer = Arc::new(Racer { router, left: AtomicUsize::new(0), asked: Mutex::default() });
    let peer = Peer::start(&["127.0.0.1"], Router::new().route("/", post(interfere).with_state(racer.clone()))).await;
    let hook = json!({
        "name": "race.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", peer.port), "caBundle": peer.ca_bundle()},
        "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "matchConditions": [{"name": "others", "expression": "request.userInfo.username != 'racer'"}],
    });
    let body = json!({"metadata": {"name": "race"}, "webhooks": [hook]});
    cluster.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", body).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    (cluster, racer, peer)
}

/// KAPI-PATCH-01: a patch that names no resourceVersion is tried again five times when others are faster, and then is a conflict; one
/// that names one is a conflict at once.
#[tokio::test(flavor = "multi_thread")]
async fn patches_are_tried_again() {
    let (cluster, racer, _peer) = contested().await;
    let conflict = |name: &str| {
        format!(
            "Operation cannot be fulfilled on configmaps \"{name}\": the object has been modified; please apply your changes to the \
             latest version and try again"
        )
    };
    let fresh = async |name: &str| {
        racer.race(0);
        cluster.post(MAPS, map(name, json!({"begun": "1"}))).await.ok()
    };
    for (kind, body) in [
        ("merge", json!({"data": {"x": "1"}})),
        ("json", json!([{"op": "add", "path": "/data/x", "value": "1"}])),
        ("strategic-merge", json!({"data": {"x": "1"}})),
        ("apply", json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}})),
    ] {
        let (met, beaten) = (format!("met-{kind}"), format!("beaten-{kind}"));
        let path = |name: &str| format!("{MAPS}/{name}?fieldManager=test");
        fresh(&met).await;
        racer.race(5);
        let patched = cluster.patch(&path(&met), kind, body.clone()).await.ok();
        assert_eq!((racer.asked(), &patched["data"]["x"]), (6, &json!("1")), "{kind}");
        for turn in 1..=5 {
            assert_eq!(patched["data"][format!("racer-{turn}")], "was here", "{kind}: what others wrote meanwhile stays");
        }
        fresh(&beaten).await;
        racer.race(usize::MAX);
        let refused = cluster.patch(&path(&beaten), kind, body).await;
        assert_eq!((refused.status, refused.message()), (StatusCode::CONFLICT, &*conflict(&beaten)), "{kind}");
        assert_eq!((racer.asked(), &refused.body["reason"]), (6, &json!("Conflict")));
    }
    let made = fresh("insists").await;
    racer.race(1);
    let insists = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "1"}});
    let refused = cluster.patch(&format!("{MAPS}/insists"), "merge", insists).await;
    assert_eq!((refused.status, refused.message(), racer.asked()), (StatusCode::CONFLICT, &*conflict("insists"), 1));
}

/// KAPI-PATCH-01: of many patches at a time, whichever is acknowledged is there and whichever is a conflict is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_of_many_writers() {
    const WRITERS: usize = 48;
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let patch = |index: usize| {
        let (path, body) = (format!("{MAPS}/a"), json!({"data": {format!("k{index}"): "1"}}));
        let router = cluster.admin.clone();
        tokio::spawn(async move {
            send(&router, "PATCH", &path, &[("content-type", "application/merge-patch+json")], body.to_string()).await.status
        })
    };
    let outcomes: Vec<StatusCode> =
        futures::future::join_all((0..WRITERS).map(patch)).await.into_iter().map(|outcome| outcome.unwrap()).collect();
    let data = cluster.get(&format!("{MAPS}/a")).await.ok()["data"].clone();
    for (index, status) in outcomes.iter().enumerate() {
        assert!([StatusCode::OK, StatusCode::CONFLICT].contains(status), "{status}");
        assert_eq!(data[format!("k{index}")].is_string(), *status == StatusCode::OK, "{index}: {status}");
    }
    // Who gave up met six others that did not.
    assert!(outcomes.iter().filter(|status| **status == StatusCode::OK).count() >= 6, "{outcomes:?}");
}

/// KAPI-REST-01: a generated name that is taken is generated anew up to eight times; then it is AlreadyExists, and the client is told
/// that it may ask again. What was charged for names that were taken is given back.
#[tokio::test(flavor = "multi_thread")]
async fn generated_names_that_are_taken() {
    let (cluster, racer, _peer) = contested().await;
    let quotas = "/api/v1/namespaces/ns/resourcequotas";
    cluster.post(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "100"}}})).await.ok();
    let status = json!({"status": {"hard": {"configmaps": "100"}, "used": {"configmaps": "0"}}});
    cluster.patch(&format!("{quotas}/q/status"), "merge", status).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    let generated = json!({"metadata": {"generateName": "gen-"}});
    racer.race(7);
    let created = cluster.post(MAPS, generated.clone()).await.ok();
    let names = racer.asked.lock().unwrap().clone();
    assert_eq!((names.len(), created["metadata"]["name"].as_str()), (8, names.last().map(String::as_str)));
    assert!(names.iter().all(|name| name.len() == 9 && name.starts_with("gen-")), "{names:?}");
    racer.race(8);
    let refused = cluster.post(MAPS, generated).await;
    let names = racer.asked.lock().unwrap().clone();
    assert_eq!((refused.status, &refused.body["reason"], names.len()), (StatusCode::CONFLICT, &json!("AlreadyExists"), 8));
    let last = names.last().unwrap();
    let words = "already exists, the server was not able to generate a unique name for the object";
    assert_eq!(refused.message(), format!("configmaps \"{last}\" {words}"));
    assert_eq!(refused.body["details"], json!({"name": last, "kind": "configmaps", "retryAfterSeconds": 1}));
    assert_eq!(refused.headers["retry-after"], "1");
    let used = cluster.get(&format!("{quotas}/q")).await.ok()["status"]["used"]["configmaps"].clone();
    let there = cluster.get(MAPS).await.ok()["items"].as_array().unwrap().len();
    assert_eq!((used.as_str().unwrap(), there), ("16", 16));
    // A name of the writer's own is tried once, whatever else it says.
    racer.race(0);
    let both = json!({"metadata": {"name": last, "generateName": "gen-"}});
    let refused = cluster.post(MAPS, both).await;
    assert_eq!((refused.status, refused.message(), racer.asked()), (StatusCode::CONFLICT, &*format!("configmaps \"{last}\" {words}"), 1));
    let refused = cluster.post(MAPS, map(last, json!({}))).await;
    assert_eq!((refused.message(), refused.headers.get("retry-after")), (&*format!("configmaps \"{last}\" already exists"), None));
}
