//! Copies that hold metadata alone.

#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use axum::response::{IntoResponse, Json, Response};
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_runtime::metrics::Metrics;
use mainstay_runtime::{Cache, Cluster, Key, Part, Scope};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// An API with one ConfigMap, which it shows as it is asked to: whole, or its metadata.
async fn answer(request: Request<Body>) -> Response {
    if request.uri().query().unwrap_or_default().contains("watch=true") {
        return Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>()).into_response();
    }
    let accepted = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut metadata = json!({"name": "trust", "namespace": "n", "resourceVersion": "3", "managedFields": [{"manager": "x"}],
        "annotations": {"asks": "true", "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{}}"}});
    let list = |kind: &str, item: serde_json::Value| json!({"kind": kind, "metadata": {"resourceVersion": "5"}, "items": [item]});
    let mut list = if accepted.contains("as=PartialObjectMetadataList") {
        // A mark that tells which form was sent.
        metadata["labels"] = json!({"sent": "metadata"});
        list("PartialObjectMetadataList", json!({"metadata": metadata}))
    } else {
        list("ConfigMapList", json!({"metadata": metadata, "data": {"large": "text"}}))
    };
    list["apiVersion"] = if accepted.contains("as=") { "meta.k8s.io/v1".into() } else { "v1".into() };
    Json(list).into_response()
}

/// MS-OPS-01, MS-OPS-02: of a kind whose metadata alone matters the API sends nothing else, kubectl's copy of the object in it is not kept
/// either, and the page shows how many there are for as long as the copy is there.
#[tokio::test]
async fn metadata_is_enough() {
    let cluster = Cluster::Embedded { router: Router::new().fallback(answer), identity: |_| () };
    let client = cluster.client().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let (stop, metrics) = (CancellationToken::new(), Metrics::default());
    for (part, data) in [(Part::Whole, json!({"data": {"large": "text"}})), (Part::Metadata, json!({}))] {
        let stop = stop.child_token();
        let cache = Cache::start(&client, &resource, &Scope { part, ..Scope::default() }, &stop).shown(&metrics);
        cache.ready().await;
        let object = cache.get(&Key::new("n", "trust")).unwrap();
        assert_eq!((&object.data, object.types.as_ref().unwrap().kind.as_str()), (&data, "ConfigMap"));
        assert_eq!(object.metadata.annotations.as_ref().unwrap().len(), if part == Part::Whole { 2 } else { 1 });
        assert_eq!(object.metadata.labels.is_some(), part == Part::Metadata, "the API was asked for metadata, and only then");
        assert!(metrics.page().unwrap().contains("mainstay_cache_objects{cache=\"watch\",kind=\"configmaps\"} 1\n"));
        stop.cancel();
        drop(cache);
        let is_shown = || metrics.page().unwrap().contains("kind=\"configmaps\"");
        let gone = async {
            while is_shown() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
    }
}
