//! Conversion webhooks, with a real HTTPS converter: `spec.n` of v1 is `spec.count` of v2.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Cluster;
use crate::peer;
use crate::peer::Peer;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/conv.example.com/v1/namespaces/ns/things";
const V2: &str = "/apis/conv.example.com/v2/namespaces/ns/things";

/// Renames the field, and tries to change what a converter must leave alone.
fn convert(review: &Value) -> Value {
    peer::renamed(review, |object, desired| {
        object["metadata"]["labels"]["seen-as"] = desired.rsplit('/').next().unwrap().into();
        object["metadata"]["generation"] = 99.into();
    })
}

struct World {
    cluster: Cluster,
    reviews: Arc<AtomicUsize>,
    _peer: Peer,
}

fn crd(port: u16, bundle: &str, storage: &str, path: &str) -> Value {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {field: {"type": "integer", "maximum": 100}, "other": {"type": "string"}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.conv.example.com"},
        "spec": {
            "group": "conv.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", "n"), version("v2", "count")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": bundle},
            }},
        },
    })
}

impl World {
    async fn new() -> Self {
        let reviews = Arc::new(AtomicUsize::new(0));
        let count = reviews.clone();
        let router = Router::new()
            .route(
                "/convert",
                post(move |Json(review): Json<Value>| {
                    count.fetch_add(1, Ordering::Relaxed);
                    async move { Json(convert(&review)) }
                }),
            )
            .route(
                "/refuse",
                post(|Json(review): Json<Value>| async move {
                    Json(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response":
                        {"uid": review["request"]["uid"], "result": {"status": "Failed", "message": "not today"}}}))
                }),
            )
            .layer(axum::extract::DefaultBodyLimit::disable());
        let peer = Peer::start(&["127.0.0.1"], router).await;
        let cluster = Cluster::new().await;
        cluster.post(CRDS, crd(peer.port, &peer.ca_bundle(), "v1", "/convert")).await.ok();
        while cluster.get(V2).await.status == StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
        Self { cluster, reviews, _peer: peer }
    }

    /// Changes the CRD, anew where its status was written in between.
    async fn redefine(&self, change: impl Fn(&mut Value)) {
        let path = format!("{CRDS}/things.conv.example.com");
        loop {
            let mut crd = self.cluster.get(&path).await.ok();
            change(&mut crd);
            let answer = self.cluster.put(&path, crd).await;
            if answer.status != StatusCode::CONFLICT {
                return drop(answer.ok());
            }
        }
    }
}

fn thing(version: &str, name: &str, field: &str, value: i64) -> Value {
    json!({"apiVersion": format!("conv.example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": {field: value}})
}

/// KAPI-CRD-04: get, list, paged list and selectors in the other version; only labels and annotations of metadata change.
#[tokio::test(flavor = "multi_thread")]
async fn reading() {
    let world = World::new().await;
    let cluster = &world.cluster;
    for number in 0..5 {
        cluster.post(V1, thing("v1", &format!("t{number}"), "n", number)).await.ok();
    }
    assert_eq!(world.reviews.load(Ordering::Relaxed), 0, "objects of the storage version need no webhook");
    let got = cluster.get(&format!("{V2}/t3")).await.ok();
    assert_eq!((&got["apiVersion"], &got["spec"]), (&json!("conv.example.com/v2"), &json!({"count": 3})));
    assert_eq!((&got["metadata"]["generation"], &got["metadata"]["labels"]), (&json!(1), &json!({"seen-as": "v2"})));

    let before = world.reviews.load(Ordering::Relaxed);
    let counts = |list: &Value| list["items"].as_array().unwrap().iter().map(|item| item["spec"]["count"].clone()).collect::<Vec<_>>();
    let list = cluster.get(V2).await.ok();
    assert_eq!(counts(&list), [0, 1, 2, 3, 4]);
    assert_eq!(world.reviews.load(Ordering::Relaxed), before + 1, "one review converts the whole list");
    assert_eq!(counts(&cluster.get(V2).await.ok()), [0, 1, 2, 3, 4]);
    assert_eq!(world.reviews.load(Ordering::Relaxed), before + 1, "what did not change is not converted again");

    let page = cluster.get(&format!("{V2}?limit=2")).await.ok();
    assert_eq!(counts(&page), [0, 1]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(counts(&cluster.get(&format!("{V2}?limit=2&continue={token}")).await.ok()), [2, 3]);
    assert_eq!(counts(&cluster.get(&format!("{V2}?fieldSelector=spec.count%3D4")).await.ok()), [4]);
    assert_eq!(counts(&cluster.get(&format!("{V2}?labelSelector=seen-as%3Dv2&limit=1")).await.ok()), [0]);
    assert!(cluster.get(&format!("{V1}?labelSelector=seen-as")).await.ok()["items"].as_array().unwrap().is_empty());
}

/// KAPI-CRD-04: create, update, patch, apply and status through the version that is not stored; its schema is the one that counts.
#[tokio::test(flavor = "multi_thread")]
async fn writing() {
    let world = World::new().await;
    let cluster = &world.cluster;
    let created = cluster.post(V2, thing("v2", "a", "count", 1)).await.ok();
    assert_eq!(created["spec"], json!({"count": 1}));
    let stored = cluster.get(&format!("{V1}/a")).await.ok();
    assert_eq!((&stored["spec"], &stored["metadata"]["labels"]["seen-as"]), (&json!({"n": 1}), &json!("v1")));

    let mut next = cluster.get(&format!("{V2}/a")).await.ok();
    next["spec"]["count"] = 2.into();
    assert_eq!(cluster.put(&format!("{V2}/a"), next.clone()).await.ok()["metadata"]["generation"], 2);
    assert_eq!(cluster.put(&format!("{V2}/a"), next).await.status, StatusCode::CONFLICT);
    let refused = cluster.patch(&format!("{V2}/a"), "merge", json!({"spec": {"count": 101}})).await;
    assert!(refused.message().contains("spec.count: Invalid value: 101: spec.count in body should be less than or equal to 100"));
    cluster.patch(&format!("{V2}/a"), "merge", json!({"spec": {"count": 3}})).await.ok();
    cluster.patch(&format!("{V2}/a/status"), "merge", json!({"status": {"ready": true}})).await.ok();
    let applied = json!({"apiVersion": "conv.example.com/v2", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"other": "x"}});
    cluster.patch(&format!("{V2}/a?fieldManager=me"), "apply", applied).await.ok();
    let stored = cluster.get(&format!("{V1}/a")).await.ok();
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({"n": 3, "other": "x"}), &json!({"ready": true})));
    let gone = cluster.delete(&format!("{V2}/a")).await;
    assert_eq!(gone.status, StatusCode::OK);
    assert_eq!(cluster.get(&format!("{V1}/a")).await.status, StatusCode::NOT_FOUND);
}

/// KAPI-CRD-04: a watch shows every event in its own version, also of labels that only the webhook sets.
#[tokio::test(flavor = "multi_thread")]
async fn watching() {
    let world = World::new().await;
    let cluster = &world.cluster;
    cluster.post(V1, thing("v1", "old", "n", 1)).await.ok();
    let mut all = cluster.watch(&format!("{V2}?watch=1")).await;
    let mut large = cluster.watch(&format!("{V2}?watch=1&fieldSelector=spec.count%3D9&labelSelector=seen-as%3Dv2")).await;
    cluster.post(V1, thing("v1", "new", "n", 2)).await.ok();
    cluster.patch(&format!("{V1}/new"), "merge", json!({"spec": {"n": 9}})).await.ok();
    cluster.patch(&format!("{V1}/new"), "merge", json!({"spec": {"n": 3}})).await.ok();
    cluster.delete(&format!("{V1}/new")).await.ok();
    let mut shown = Vec::new();
    for _ in 0..5 {
        let event = all.next().await.unwrap();
        assert_eq!(event["object"]["apiVersion"], "conv.example.com/v2");
        shown.push(format!("{} {}", event["type"].as_str().unwrap(), event["object"]["spec"]["count"]));
    }
    assert_eq!(shown, ["ADDED 1", "ADDED 2", "MODIFIED 9", "MODIFIED 3", "DELETED 3"]);
    assert_eq!(large.take(2).await, ["ADDED new", "DELETED new"]);
}

/// KAPI-SRV-06, KAPI-CRD-04: a watcher that hardly reads is let go of, also where a webhook converts what it is to be told.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_hardly_read() {
    let world = World::new().await;
    let cluster = &world.cluster;
    cluster.post(V1, thing("v1", "a", "n", 1)).await.ok();
    let mut slow = cluster.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(slow.take(1).await, ["ADDED a"]);
    let large = "x".repeat(500 << 10);
    let write = async |from: usize, upto: usize| {
        for number in from..upto {
            cluster.patch(&format!("{V1}/a"), "merge", json!({"spec": {"other": format!("{number}{large}")}})).await.ok();
        }
        // The watchers' queues hold what the cache shows.
        cluster.server.api().objects.cache.catch_up().await.unwrap();
    };
    // No more than may wait, twice; of the first half one is taken.
    write(0, 12).await;
    assert_eq!(slow.take(1).await, ["MODIFIED a"]);
    write(12, 24).await;
    let mut told = 1;
    while slow.next().await.is_some() {
        told += 1;
        assert!(told < 24, "all of it was held for a client that had not asked for it");
    }
}

/// KAPI-CRD-04: after the storage version changed, an update that changes nothing stores the object anew.
#[tokio::test(flavor = "multi_thread")]
async fn storage_version_migration() {
    let world = World::new().await;
    let cluster = &world.cluster;
    let created = cluster.post(V1, thing("v1", "a", "n", 1)).await.ok();
    world
        .redefine(|crd| {
            for version in crd["spec"]["versions"].as_array_mut().unwrap() {
                version["storage"] = (version["name"] == "v2").into();
            }
        })
        .await;
    let status = cluster.get(&format!("{CRDS}/things.conv.example.com")).await.ok()["status"]["storedVersions"].clone();
    assert_eq!(status, json!(["v1", "v2"]));
    let moved = loop {
        let live = cluster.get(&format!("{V1}/a")).await.ok();
        let moved = cluster.put(&format!("{V1}/a"), live).await.ok();
        if moved["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"] {
            break moved;
        }
    };
    let again = cluster.put(&format!("{V1}/a"), moved.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], moved["metadata"]["resourceVersion"]);
    let before = world.reviews.load(Ordering::Relaxed);
    assert_eq!(cluster.get(&format!("{V2}/a")).await.ok()["spec"], json!({"count": 1}));
    assert_eq!(world.reviews.load(Ordering::Relaxed), before);
}

/// KAPI-CRD-04: a webhook that refuses fails requests of the other version, and does not keep a CRD from being deleted.
#[tokio::test(flavor = "multi_thread")]
async fn refusals() {
    let world = World::new().await;
    let cluster = &world.cluster;
    let mut held = thing("v1", "a", "n", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(V1, held).await.ok();
    world
        .redefine(|crd| {
            let url = &mut crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"];
            *url = url.as_str().unwrap().replace("/convert", "/refuse").into();
        })
        .await;
    let refused = loop {
        let answer = cluster.get(&format!("{V2}/a")).await;
        if !answer.status.is_success() {
            break answer;
        }
    };
    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(refused.message(), "conversion webhook for conv.example.com/v1, Kind=Thing failed: not today");
    assert_eq!(cluster.get(V2).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(cluster.post(V2, thing("v2", "b", "count", 1)).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    let mut events = cluster.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(events.next().await.unwrap()["type"], "ERROR");
    cluster.get(&format!("{V1}/a")).await.ok();

    cluster.delete(&format!("{CRDS}/things.conv.example.com")).await.ok();
    while cluster.get(&format!("{V1}/a")).await.ok()["metadata"]["deletionTimestamp"].is_null() {
        tokio::task::yield_now().await;
    }
    cluster.patch(&format!("{V1}/a"), "merge", json!({"metadata": {"finalizers": null}})).await;
    while cluster.get(&format!("{CRDS}/things.conv.example.com")).await.status != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
}
