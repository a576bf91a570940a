//! Objects that somebody else makes while an extension is being installed: they stay his.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use mainstay_apply::Writer;
use mainstay_objects::{Expect, Patch};
use mainstay_runtime::Cluster;
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{operator_controller, place};

/// Who makes an object just before the controller makes one of some resource.
#[derive(Clone, Default)]
struct Stranger {
    makes: Arc<Mutex<Option<Making>>>,
}

/// Before which resource, by whom, what.
type Making = (&'static str, Writer, Value);

async fn meanwhile(State(stranger): State<Stranger>, request: Request, next: Next) -> Response {
    let makes = {
        let mut makes = stranger.makes.lock().unwrap();
        let now = makes.as_ref().is_some_and(|(resource, ..)| request.uri().path().ends_with(resource));
        if now && *request.method() == Method::POST { makes.take() } else { None }
    };
    if let Some((_, writer, object)) = makes {
        writer.apply(&object, true, &Expect::default()).await.unwrap();
    }
    next.run(request).await
}

/// OLM1-OWN-01, OLM1-OWN-03: an object that a stranger makes between the plan and the step that would create it is not taken over, and the
/// condition names it; when it is gone, the install goes on. So does one that he makes in the place of an installed one that was deleted, while
/// one whose marks were only taken off is put right. What was created that way is applied later: an upgrade takes away fields that
/// its bundle does not have any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_makes_meanwhile_stays_his() {
    let stranger = Stranger::default();
    let layer = from_fn_with_state(stranger.clone(), meanwhile);
    let bench = Bench::with(|setup| {
        let Cluster::Embedded { router, .. } = &setup.operator_controller else { panic!("another cluster") };
        setup.operator_controller = Cluster::Embedded { router: router.clone().layer(layer), identity: operator_controller };
    })
    .await;
    let config = |data: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data});
    let content = |data: &Value| Content { more: vec![config(data)], ..Content::default() };
    let one = bench.bundle("widgets", "1.0.0", files("1.0.0", &content(&json!({"a": "1", "b": "2"})))).await;
    let two = bench.bundle("widgets", "1.1.0", files("1.1.0", &content(&json!({"a": "1"})))).await;
    bench.catalog("test", "widgets", &[("1.0.0", &one), ("1.1.0", &two)]).await;
    bench.account().await;
    bench.administrator().await;
    let mut his = config(&json!({"c": "3"}));
    his["metadata"]["namespace"] = json!("work");
    // The record is written before everything else.
    *stranger.makes.lock().unwrap() = Some(("/secrets", bench.api.admin.clone(), his.clone()));
    bench.api.apply(cluster_extension("widgets", "widgets", Some("1.0.0"))).await;
    let refusal = "ConfigMap 'settings' already exists in namespace 'work' and cannot be managed by operator-controller";
    bench.progressing("widgets", "Retrying", refusal).await;
    let settings = place("v1", "ConfigMap", "work", "settings");
    let found = bench.api.get(&settings).await.unwrap();
    assert_eq!(found["data"], json!({"c": "3"}));
    assert_eq!((&found["metadata"]["labels"], &found["metadata"]["ownerReferences"]), (&Value::Null, &Value::Null));

    bench.api.delete(&settings).await;
    bench.installed("widgets", "1.0.0").await;
    assert_eq!(bench.api.get(&settings).await.unwrap()["data"], json!({"a": "1", "b": "2"}));
    bench.api.apply(cluster_extension("widgets", "widgets", Some("1.1.0"))).await;
    bench.installed("widgets", "1.1.0").await;
    assert_eq!(bench.api.get(&settings).await.unwrap()["data"], json!({"a": "1"}));

    // Its marks are taken off, and it is still the extension's.
    let bare = json!({"metadata": {"labels": null, "ownerReferences": null}});
    bench.api.admin.patch(&settings, "", &Patch::Merge(bare)).await.unwrap();
    let restored = |live: &Value| live["data"] == json!({"a": "1"}) && live["metadata"]["ownerReferences"][0]["name"] == "widgets";
    bench.api.until(&settings, restored).await;
    // It is deleted, and a stranger makes his own before it is put back.
    *stranger.makes.lock().unwrap() = Some(("/configmaps", bench.api.admin.clone(), his));
    bench.api.delete(&settings).await;
    bench.progressing("widgets", "Retrying", refusal).await;
    let found = bench.api.get(&settings).await.unwrap();
    assert_eq!((&found["data"], &found["metadata"]["labels"]), (&json!({"c": "3"}), &Value::Null));
    bench.api.delete(&settings).await;
    bench.api.until(&settings, restored).await;
    bench.installed("widgets", "1.1.0").await;
    bench.end().await;
}

/// OLM1-CTRL-10, OLM1-OWN-01: a Service that was created gets another port. Merged with the port that it was created with, it would have two
/// without names, which the API refuses; the port that is not given any more goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_service_changes_its_port() {
    let bench = Bench::start().await;
    let service = |port: u16| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": port}]}});
    let writer = &bench.api.admin;
    let made = writer.create(&service(80)).await.unwrap();
    let unexpected = Expect { uid: Some("another".to_owned()), ..Expect::default() };
    assert!(writer.apply(&service(81), true, &unexpected).await.is_err());
    let (applied, _) = writer.apply(&service(81), true, &Expect::as_seen(&made)).await.unwrap();
    let ports: Vec<&Value> = applied["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [81]);
    let invalid = writer.apply(&service(0), true, &Expect::default()).await.unwrap_err();
    assert!(mainstay_diagnostics::chain(&invalid).contains("invalid"), "{invalid}");
}
