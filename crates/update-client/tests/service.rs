//! Update services that answer, and those that do not.

use std::time::{Duration, Instant};

use mainstay_oci::{OutboundConfig, Pace};
use mainstay_update_client::{ClusterProxy, LIMITS, Limits, ask, user_agent};
use mainstay_update_graph::{Query, RetrievalError, Retrieved};

use crate::server::{Reply, start, with_tls};

/// From 1.0.0 to 1.0.1, and back, which is nothing to a cluster.
const CYCLE: &str = r#"{"nodes": [
    {"version": "1.0.0", "payload": "q.example/a@sha256:0", "metadata": {}},
    {"version": "1.0.1", "payload": "q.example/a@sha256:1", "metadata": {"url": "https://errata.example/1"}}
], "edges": [[0, 1], [1, 0], [1, 1]]}"#;

fn limits() -> Limits {
    Limits { connect: Duration::from_secs(5), silence: Duration::from_millis(500), total: Duration::from_secs(30) }
}

fn settings() -> OutboundConfig {
    ClusterProxy::default().outbound(&user_agent("1.0.0"), limits())
}

fn query(service: &str) -> Query {
    Query {
        update_service: service.to_owned(),
        cluster_id: "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11".to_owned(),
        desired_architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "fast-1.0".to_owned(),
        version: "1.0.0".to_owned(),
    }
}

async fn asked(service: &str) -> Result<Retrieved, RetrievalError> {
    ask(&query(service), &settings()).await
}

/// The reason and the message of a failed retrieval.
fn said(outcome: Result<Retrieved, RetrievalError>) -> (&'static str, String) {
    let error = outcome.unwrap_err();
    (error.reason(), error.to_string())
}

/// CVO-USC-02, CVO-USC-07: what is asked, and what comes of the answer; parameters of the endpoint stay.
#[tokio::test]
async fn an_answer() {
    let (url, seen) = start(Reply::Body(200, CYCLE.to_owned())).await;
    let found = asked(&format!("{url}/api/graph?own=1")).await.unwrap();
    assert_eq!(found.updates.iter().map(|update| update.version.as_str()).collect::<Vec<_>>(), ["1.0.1"]);
    let seen = seen.lock().unwrap();
    let (uri, headers) = &seen[0];
    assert_eq!(uri, "/api/graph?arch=amd64&channel=fast-1.0&id=5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11&own=1&version=1.0.0");
    assert_eq!(headers["accept"], "application/json");
    assert_eq!(headers["user-agent"], "ClusterVersionOperator/1.0.0");
    assert_eq!(seen.len(), 1);
}

/// CVO-USC-07: answers that are none, with upstream's reasons.
#[tokio::test]
async fn answers_that_are_none() {
    for (reply, reason, message) in [
        (Reply::Body(500, CYCLE.to_owned()), "ResponseFailed", "unexpected HTTP status: 500 Internal Server Error"),
        (Reply::Body(204, String::new()), "ResponseFailed", "unexpected HTTP status: 204 No Content"),
        (Reply::Body(404, "x".to_owned()), "ResponseFailed", "unexpected HTTP status: 404 Not Found"),
        (Reply::Body(200, "<html>".to_owned()), "ResponseInvalid", "invalid character '<' looking for beginning of value"),
        (Reply::Body(200, String::new()), "ResponseInvalid", "unexpected end of JSON input"),
        (
            Reply::Body(200, "{}".to_owned()),
            "VersionNotFound",
            "currently reconciling cluster version 1.0.0 not found in the \"fast-1.0\" channel",
        ),
        (Reply::Large(50), "ResponseFailed", "the answer is longer than 33554432 bytes"),
    ] {
        let (url, _) = start(reply).await;
        assert_eq!(said(asked(&url).await), (reason, format!("Unable to retrieve available updates: {message}")));
    }
    let (url, _) = start(Reply::BreaksOff).await;
    let (reason, message) = said(asked(&url).await);
    assert_eq!(reason, "ResponseFailed");
    assert!(message.starts_with("Unable to retrieve available updates: the answer broke off: "), "{message}");
}

/// CVO-USC-03, CVO-USC-07: a server that falls silent holds no client for long, and one that drips not beyond the end.
#[tokio::test]
async fn slow_servers() {
    assert_eq!(LIMITS.total, Duration::from_secs(3600));
    let begun = Instant::now();
    let (url, _) = start(Reply::Silent).await;
    let (reason, message) = said(asked(&url).await);
    assert_eq!(reason, "RemoteFailed", "{message}");
    assert!(message.starts_with(&format!("Unable to retrieve available updates: Get \"{url}/?arch=amd64")), "{message}");
    let (url, _) = start(Reply::Stalls).await;
    assert_eq!(said(asked(&url).await).0, "ResponseFailed");
    let (url, _) = start(Reply::Drips).await;
    let ends = OutboundConfig { deadline: Duration::from_secs(1), ..settings() };
    let found = said(ask(&query(&url), &ends).await);
    assert_eq!(found, ("ResponseFailed", "Unable to retrieve available updates: the answer is given up: its time has run out".to_owned()));
    // Long before the end, because it does not keep pace.
    let pace = Pace { window: Duration::from_millis(500), ..Pace::default() };
    let (reason, message) = said(ask(&query(&url), &OutboundConfig { pace, ..settings() }).await);
    assert_eq!(reason, "ResponseFailed");
    assert!(message.contains("fewer than 262144 bytes came within 500ms"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// CVO-USC-07: no server is there, under a name or an address.
#[tokio::test]
async fn nobody_there() {
    for url in ["http://127.0.0.1:1/graph", "http://nobody.invalid/graph", "gopher://a/graph"] {
        let (reason, message) = said(asked(url).await);
        assert_eq!(reason, "RemoteFailed", "{message}");
        assert!(message.starts_with(&format!("Unable to retrieve available updates: Get \"{url}")), "{message}");
    }
    assert_eq!(said(asked("http://a b/graph").await).0, "InvalidURI");
    let (_, message) = said(asked("http://me:secret@127.0.0.1:1/graph").await);
    assert!(!message.contains("secret") && message.contains("me:xxxxx@"), "{message}");
}

/// CVO-USC-03: redirects are followed, but not for ever, and not to where a server on the network may not lead.
#[tokio::test]
async fn redirects() {
    let (graph, _) = start(Reply::Body(200, CYCLE.to_owned())).await;
    let (url, _) = start(Reply::Redirect(format!("{graph}/other"))).await;
    assert_eq!(asked(&url).await.unwrap().updates.len(), 1);
    let (url, seen) = start(Reply::Loop).await;
    let (reason, message) = said(asked(&url).await);
    assert_eq!(reason, "RemoteFailed");
    assert!(message.contains("redirects more than 10 times"), "{message}");
    assert_eq!(seen.lock().unwrap().len(), 11);
    let (url, _) = start(Reply::Redirect("http://169.254.169.254/latest/meta-data".to_owned())).await;
    assert_eq!(said(asked(&url).await).0, "RemoteFailed");
}

/// CVO-USC-03: the trusted CA of the cluster counts from one request to the next; other certificates do not, nor a step down to plain HTTP.
#[tokio::test]
async fn certificates() {
    let (plain, _) = start(Reply::Body(200, CYCLE.to_owned())).await;
    let (url, pem) = with_tls(&plain).await;
    let (reason, message) = said(asked(&url).await);
    assert_eq!(reason, "RemoteFailed");
    assert!(message.contains("certificate"), "{message}");
    let trusting = |authorities: &str| ClusterProxy { authorities, ..ClusterProxy::default() }.outbound("a", limits());
    assert_eq!(ask(&query(&url), &trusting(&pem)).await.unwrap().updates.len(), 1);
    let named = url.replace("localhost", "127.0.0.1");
    assert_eq!(said(ask(&query(&named), &trusting(&pem)).await).0, "RemoteFailed");
    let (_, message) = said(ask(&query(&url), &trusting("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")).await);
    assert!(message.contains("the trusted CA bundle of the cluster"), "{message}");
    let (down, _) = start(Reply::Redirect(plain)).await;
    let (down, pem) = with_tls(&down).await;
    let (_, message) = said(ask(&query(&down), &trusting(&pem)).await);
    assert!(message.contains("redirects from HTTPS to HTTP"), "{message}");
}

/// CVO-USC-03: the cluster's proxy takes the request, unless the host needs none.
#[tokio::test]
async fn proxies() {
    let (proxy, seen) = start(Reply::Body(200, CYCLE.to_owned())).await;
    let through = ClusterProxy { http: &proxy, none: "direct.example", ..ClusterProxy::default() }.outbound("a", limits());
    assert_eq!(ask(&query("http://updates.example/graph"), &through).await.unwrap().updates.len(), 1);
    assert_eq!(seen.lock().unwrap()[0].0.host(), Some("updates.example"));
    assert_eq!(said(ask(&query("http://direct.example/graph"), &through).await).0, "RemoteFailed");
    assert_eq!(seen.lock().unwrap().len(), 1);
}
