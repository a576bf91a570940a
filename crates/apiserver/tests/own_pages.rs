//! What the rest of the process answers below `/mainstay/`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{config, send};
use axum::body::Body;
use axum::routing::put;
use axum::{Extension, Router};
use http::StatusCode;
use mainstay_apiserver::{Config, Server, TrustedIdentity};
use mainstay_rbac::UserInfo;
use serde_json::json;

/// MS-OPS-01: such a page is asked by who may by RBAC and by nobody else, hears who asks, and gets the body; other paths are as ever.
#[tokio::test]
async fn pages_are_for_who_may() {
    let says =
        |Extension(TrustedIdentity(user)): Extension<TrustedIdentity>, body: String| async move { format!("{} says {body}", user.name) };
    let directory = tempfile::tempdir().unwrap();
    let pages = Router::new().route("/mainstay/level", put(says));
    let server = Server::open(Config { pages, ..config(directory.path()) }).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    let ann = server.in_process(UserInfo::new("ann", &["system:authenticated"]));

    let refused = send(&ann, "PUT", "/mainstay/level", &[], "debug").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text.contains("cannot put path \\\"/mainstay/level\\\""), "{}", refused.text);
    assert_eq!(send(&admin, "PUT", "/mainstay/level", &[], "debug").await.text, "admin says debug");

    let group = "/apis/rbac.authorization.k8s.io/v1";
    for (kind, object) in [
        ("clusterroles", json!({"metadata": {"name": "level"}, "rules": [{"nonResourceURLs": ["/mainstay/level"], "verbs": ["put"]}]})),
        (
            "clusterrolebindings",
            json!({"metadata": {"name": "level"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "level"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]}),
        ),
    ] {
        let made = send(&admin, "POST", &format!("{group}/{kind}"), &[("content-type", "application/json")], object.to_string()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    }
    assert_eq!(send(&ann, "PUT", "/mainstay/level", &[], "info").await.text, "ann says info");
    assert_eq!(send(&ann, "GET", "/mainstay/level", &[], Body::empty()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(send(&admin, "GET", "/mainstay/other", &[], Body::empty()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(send(&admin, "GET", "/mainstay/backup?objectsOnly=true", &[], Body::empty()).await.status, StatusCode::OK);
    server.end_watches();
    server.close().await;
}
