//! Objects that somebody else makes while an extension is being installed: they stay his.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scene;
mod support;

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use mainstay_apply::{Expect, Writer};
use mainstay_runtime::Cluster;
use scene::{Content, files};
use serde_json::{Value, json};
use support::bench::{Bench, wish};
use support::{operator_controller, place};

/// Who makes an object between the plan and its first step: the record is written before everything else.
#[derive(Clone, Default)]
struct Stranger {
    makes: Arc<Mutex<Option<(Writer, Value)>>>,
}

async fn meanwhile(State(stranger): State<Stranger>, request: Request, next: Next) -> Response {
    let begins = *request.method() == Method::POST && request.uri().path().ends_with("/secrets");
    let makes = if begins { stranger.makes.lock().unwrap().take() } else { None };
    if let Some((writer, object)) = makes {
        writer.apply(&object, true, &Expect::default()).await.unwrap();
    }
    next.run(request).await
}

/// OLM1-OWN-01, OLM1-OWN-03: an object that a stranger makes between the plan and the step that would create it is not taken over, and the
/// condition names it; when it is gone, the install goes on. What was created that way is applied later: an upgrade takes away fields that
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
    *stranger.makes.lock().unwrap() = Some((bench.api.admin.clone(), his));
    bench.api.apply(wish("widgets", "widgets", Some("1.0.0"))).await;
    let refusal = "ConfigMap 'settings' already exists in namespace 'work' and cannot be managed by operator-controller";
    bench.progressing("widgets", "Retrying", refusal).await;
    let settings = place("v1", "ConfigMap", "work", "settings");
    let found = bench.api.get(&settings).await.unwrap();
    assert_eq!(found["data"], json!({"c": "3"}));
    assert_eq!((&found["metadata"]["labels"], &found["metadata"]["ownerReferences"]), (&Value::Null, &Value::Null));

    bench.api.delete(&settings).await;
    bench.installed("widgets", "1.0.0").await;
    assert_eq!(bench.api.get(&settings).await.unwrap()["data"], json!({"a": "1", "b": "2"}));
    bench.api.apply(wish("widgets", "widgets", Some("1.1.0"))).await;
    bench.installed("widgets", "1.1.0").await;
    assert_eq!(bench.api.get(&settings).await.unwrap()["data"], json!({"a": "1"}));
    bench.end().await;
}
