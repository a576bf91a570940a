//! Too many requests, slow ones, watchers that do not read, and bodies that are no objects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use std::convert::Infallible;

use crate::common::{Answer, Cluster, MAPS, config, map, send};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use mainstay_apiserver::Server;
use mainstay_apiserver::inflight::Limits;
use mainstay_rbac::UserInfo;
use serde_json::json;
use tokio::sync::oneshot;

const JSON: (&str, &str) = ("content-type", "application/json");

/// A cluster that takes one request of each kind at a time, and a user who may do everything and is no administrator.
async fn narrow() -> (Cluster, Router) {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.limits = Limits { reading: 1, writing: 1 };
    let server = Server::open(config).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    let busy = server.in_process(UserInfo::new("busy", &["system:authenticated"]));
    let cluster = Cluster { server, admin, directory };
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await.ok();
    let binding = json!({
        "metadata": {"name": "busy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "busy"}],
    });
    cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.ok();
    (cluster, busy)
}

/// A body that begins, says that somebody reads it, and never goes on.
fn endless() -> (Body, oneshot::Receiver<()>) {
    let (tell, told) = oneshot::channel();
    let begin = futures::stream::once(async move {
        let _ = tell.send(());
        Ok::<_, Infallible>(Bytes::from_static(b"{"))
    });
    (Body::from_stream(begin.chain(futures::stream::pending())), told)
}

async fn figure(cluster: &Cluster, name: &str) -> Option<f64> {
    let page = cluster.get("/metrics").await.text;
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// KAPI-SRV-06: a body that does not end keeps no writer out; beyond the limit of a user there is 429 with Retry-After, not for others and
/// not for administrators.
#[tokio::test]
async fn too_many_requests() {
    let (cluster, busy) = narrow().await;
    let begin = || {
        let ((body, read), router) = (endless(), busy.clone());
        (tokio::spawn(async move { send(&router, "POST", MAPS, &[JSON], body).await }), read)
    };
    let (slow, read) = begin();
    read.await.unwrap();
    let post = |name: &str| send(&busy, "POST", MAPS, &[JSON], map(name, json!({})).to_string());
    post("beside").await.ok();
    let (slower, read) = begin();
    read.await.unwrap();
    let refused: Answer = post("a").await;
    assert_eq!((refused.status, refused.text.as_str()), (StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n"));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
    let other = cluster.server.in_process(UserInfo::new("other", &["system:authenticated"]));
    assert_eq!(send(&other, "GET", "/api", &[], Body::empty()).await.status, StatusCode::OK, "another user is not kept out");
    cluster.post(MAPS, map("b", json!({}))).await.ok();
    let mutating = "{request_kind=\"mutating\"}";
    assert_eq!(
        figure(&cluster, &format!("apiserver_current_inflight_requests{mutating}")).await,
        Some(0.0),
        "what is not there is not worked on"
    );
    assert_eq!(figure(&cluster, &format!("apiserver_dropped_requests_total{mutating}")).await, Some(1.0));
    slower.abort();
    slow.abort();
    assert!(slow.await.is_err_and(|error| error.is_cancelled()));
    post("c").await.ok();
}

/// KAPI-SRV-06: a request that takes longer than it may is answered with 504.
#[tokio::test]
async fn slow_requests_are_ended() {
    let (cluster, busy) = narrow().await;
    let (body, _read) = endless();
    let late = send(&busy, "POST", &format!("{MAPS}?timeout=20ms"), &[JSON], body).await;
    assert_eq!((late.status, &late.body["reason"], &late.body["details"]), (StatusCode::GATEWAY_TIMEOUT, &json!("Timeout"), &json!({})));
    assert_eq!(late.message(), "Timeout: request did not complete within the allotted timeout");
    send(&busy, "POST", MAPS, &[JSON], map("after", json!({})).to_string()).await.ok();
    let page = cluster.get("/metrics").await.text;
    let ended = page.lines().find(|line| line.starts_with("apiserver_request_terminations_total{")).unwrap();
    assert!(ended.contains("resource=\"configmaps\"") && ended.ends_with("} 1"), "{ended}");
    let odd = cluster.get(&format!("{MAPS}?timeout=soon")).await;
    assert_eq!(
        (odd.status, odd.message()),
        (StatusCode::BAD_REQUEST, "invalid timeout specified in the request URL - time: invalid duration \"soon\"")
    );
}

/// KAPI-SRV-06: a watcher that does not read is let go of; one that reads is told everything.
#[tokio::test]
async fn watchers_that_do_not_read() {
    let cluster = Cluster::new().await;
    let mut deaf = cluster.watch(&format!("{MAPS}?watch=true")).await;
    let mut reader = cluster.watch(&format!("{MAPS}?watch=true")).await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    assert_eq!((deaf.take(1).await, reader.take(1).await), (vec!["ADDED a".to_owned()], vec!["ADDED a".to_owned()]));
    let large = "x".repeat(900 << 10);
    for round in 0..20 {
        cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"large": format!("{round}{large}")}})).await.ok();
        assert_eq!(reader.take(1).await, ["MODIFIED a"]);
    }
    let watchers = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",verb=\"WATCH\"}";
    assert_eq!(figure(&cluster, watchers).await, Some(1.0), "only the one that reads is left");
    assert!(deaf.next().await.is_none(), "nothing is kept for the other");
}

/// KAPI-WATCH-02, KAPI-WATCH-01: every form of an event, shared or not, shows the same change to every watcher.
#[tokio::test]
async fn forms_of_an_event() {
    let cluster = Cluster::new().await;
    let accept = [
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ];
    let mut watchers = Vec::new();
    for accept in accept.iter().chain(&accept) {
        watchers.push(cluster.watch_as(&format!("{MAPS}?watch=true"), accept).await);
    }
    for name in ["a", "b"] {
        cluster.post(MAPS, map(name, json!({}))).await.ok();
    }
    let mut told = Vec::new();
    for watcher in &mut watchers {
        told.push([watcher.next().await.unwrap(), watcher.next().await.unwrap()]);
    }
    assert_eq!(told[..3], told[3..]);
    assert_eq!(told[0][1]["object"]["kind"], "ConfigMap");
    let (first, second) = (&told[1][0]["object"], &told[1][1]["object"]);
    assert!(first["columnDefinitions"].is_array() && second.get("columnDefinitions").is_none_or(serde_json::Value::is_null));
    assert_eq!(second["rows"][0]["object"]["metadata"]["name"], "b");
    assert_eq!((&told[2][1]["object"]["kind"], &told[2][1]["object"]["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("b")));
}

/// KAPI-SRV-06, KAPI-REST-03: bodies that are too large, too deep, cut off or no text are refused in Kubernetes' words.
#[tokio::test]
async fn bodies_that_are_no_objects() {
    let cluster = Cluster::new().await;
    let post = |body: Vec<u8>| cluster.send("POST", MAPS, &[JSON], body);
    let large = post(vec![b' '; (3 << 20) + 1]).await;
    assert_eq!((large.status, large.message()), (StatusCode::PAYLOAD_TOO_LARGE, "Request entity too large: limit is 3145728"));
    let intro = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
    for (body, words) in [
        (b"{\"metadata\":".repeat(100_000), "exceeded max depth"),
        (b"[".repeat(1_000_000), "exceeded max depth"),
        (b"{\"metadata\": {\"name\": \"a".to_vec(), "unexpected end of JSON input"),
        (b"{\"metadata\": {\"name\": nope}}".to_vec(), "invalid character"),
    ] {
        let refused = post(body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let message = refused.message();
        assert!(message.starts_with(&format!("{intro}{words}")), "{}", &message[..message.len().min(300)]);
        assert!(message.len() < 20_000);
    }
    let binary = post(b"{\"metadata\": {\"name\": \"a\"}, \"data\": {\"x\": \"\xff\xfe\"}}".to_vec()).await;
    assert!(binary.status.is_success() || binary.status == StatusCode::BAD_REQUEST, "{}", binary.text);
    let twice = br#"{"metadata": {"name": "twice"}, "data": {"x": "1", "x": "2"}}"#;
    let strict = cluster.send("POST", &format!("{MAPS}?fieldValidation=Strict"), &[JSON], twice.to_vec()).await;
    assert_eq!(strict.status, StatusCode::BAD_REQUEST);
    assert!(strict.message().contains("duplicate field \"data.x\""), "{}", strict.message());
}
