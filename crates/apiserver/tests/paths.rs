//! Paths that clients write in many ways are one path for authorization, for routing, and for the aggregated API server behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Cluster, config, send};
use crate::peer::Peer;
use axum::Router;
use axum::body::Body;
use http::Request;
use mainstay_apiserver::Server;
use mainstay_rbac::UserInfo;
use serde_json::json;

const GROUP: &str = "metrics.example.com";

/// Shows the path and query that it is asked for.
async fn show(request: Request<Body>) -> String {
    json!({"uri": request.uri().path_and_query().unwrap().as_str()}).to_string()
}

/// A cluster with an aggregated API server that answers; the server stops with the peer.
async fn world() -> (Cluster, Peer) {
    let peer = Peer::start(&["metrics.ops.svc"], Router::new().fallback(show)).await;
    let directory = tempfile::tempdir().unwrap();
    let local = format!("ops/metrics=127.0.0.1:{}", peer.port).parse().unwrap();
    let server = Server::open(mainstay_apiserver::Config { local_services: vec![local], ..config(directory.path()) }).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    let cluster = Cluster { server, admin, directory };
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": {"name": "metrics", "namespace": "ops"}, "caBundle": peer.ca_bundle(),
        },
    });
    cluster.post(services, object).await.ok();
    let mut events = cluster.watch(&format!("{services}?watch=1&fieldSelector=metadata.name%3Dv1.{GROUP}")).await;
    while events.next().await.expect("the watch lasts")["object"]["status"]["conditions"][0]["status"] != "True" {}
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    (cluster, peer)
}

/// KAPI-AGG-01, KAPI-AUTHZ-01: the other server reads the very path that was authorized, however the client wrote it.
#[tokio::test(flavor = "multi_thread")]
async fn encoded_paths() {
    let (cluster, _peer) = world().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [GROUP], "resources": ["loads"], "verbs": ["get"]}]);
    cluster.post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "reader"}, "rules": rules})).await.ok();
    let binding = json!({
        "metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    cluster.post(&format!("{rbac}/clusterrolebindings"), binding).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
    let bob = cluster.server.in_process(UserInfo::new("bob", &["system:authenticated"]));
    let loads = format!("/apis/{GROUP}/v1/namespaces/a/loads");
    for (path, status) in [("x", 200), ("x%2Flog", 403), ("x/log", 403), ("%78", 200), ("x%zz", 400), ("x%", 400)] {
        let answer = send(&bob, "GET", &format!("{loads}/{path}"), &[], Body::empty()).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        if status == 400 {
            assert_eq!(
                (answer.text.as_str(), &answer.headers["content-type"]),
                ("400 Bad Request", &"text/plain; charset=utf-8".parse().unwrap())
            );
        }
    }
    let shown = async |path: &str| cluster.get(&format!("{loads}/{path}")).await.ok()["uri"].clone();
    assert_eq!(shown("x%2Flog?a=%2F+b&c").await, format!("{loads}/x/log?a=%2F+b&c"), "the query is the client's");
    assert_eq!(shown("%2e%2e/y").await, format!("{loads}/../y"));
    assert_eq!(shown("%252e%3Fx").await, format!("{loads}/%252e%3Fx"), "nothing is decoded twice");
    assert_eq!(cluster.get(&format!("/apis%2F{GROUP}/v1/loads")).await.ok()["uri"], format!("/apis/{GROUP}/v1/loads"));
}
