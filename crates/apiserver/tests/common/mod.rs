//! A server over a temporary directory, and calls to it without sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value, missing_docs)]

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use mainstay_apiserver::{Config, ControlPlane, OpenError, Server};
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub struct Cluster {
    pub server: Server,
    pub admin: Router,
    pub directory: tempfile::TempDir,
}

pub fn config(path: &std::path::Path) -> Config {
    Config { control_plane: ControlPlane { controllers: true, scheduler: false }, ..Config::local(path, 6443) }
}

pub async fn open(path: &std::path::Path) -> Result<Server, OpenError> {
    Server::open(config(path)).await
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Answer {
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.text);
        self.body
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Cluster {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = open(directory.path()).await.unwrap();
        Self::over(server, directory).await
    }

    pub async fn over(server: Server, directory: tempfile::TempDir) -> Self {
        let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
        let cluster = Self { server, admin, directory };
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await.ok();
        cluster.post("/api/v1/namespaces/ns/serviceaccounts", json!({"metadata": {"name": "default"}})).await.ok();
        cluster
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        send(&self.admin, method, path, headers, body).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: Value) -> Answer {
        let kind = match kind {
            "apply" => "application/apply-patch+yaml".to_owned(),
            kind => format!("application/{kind}-patch+json"),
        };
        self.send("PATCH", path, &[("content-type", &kind)], body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], Body::empty()).await
    }

    /// Opens a watch and answers a reader of its events.
    pub async fn watch(&self, path: &str) -> Events {
        self.watch_as(path, "application/json").await
    }

    /// The same in another form.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Events {
        let request = Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = self.admin.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events { body: response.into_body(), rest: Vec::new() }
    }

    /// A CRD `things.GROUP` whose only version has this schema; served when this returns.
    pub async fn define(&self, group: &str, schema: Value, more: Value) {
        let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        for (key, value) in more.as_object().into_iter().flatten() {
            version[key] = value.clone();
        }
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]},
        });
        let events = self
            .watch(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1&fieldSelector=metadata.name%3Dthings.{group}"))
            .await;
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.ok();
        let mut events = events;
        loop {
            let event = events.next().await.expect("the CRD is established");
            let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
                break;
            }
        }
        while self.get(&format!("/apis/{group}/v1/things")).await.status == StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    }
}

pub async fn send(router: &Router, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Answer { status: parts.status, headers: parts.headers, body, text: String::from_utf8_lossy(&bytes).into_owned() }
}

pub struct Events {
    body: Body,
    rest: Vec<u8>,
}

impl Events {
    /// The next event; `None` when the stream ends.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    /// Type and name of the next events.
    pub async fn take(&mut self, count: usize) -> Vec<String> {
        let mut shown = Vec::new();
        for _ in 0..count {
            let event = self.next().await.expect("another event");
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            shown.push(format!("{} {name}", event["type"].as_str().unwrap_or_default()));
        }
        shown
    }
}

pub const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

pub fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}
