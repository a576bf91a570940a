//! An embedded API server with the definitions of OLM classic.

use std::time::Duration;

use mainstay_apiserver::Server;
use mainstay_apply::Writer;
use mainstay_catalog::{Limits, MemorySource};
use mainstay_catalog_store::{CatalogStore, StoredCatalog};
use mainstay_objects::{Expect, ObjectRef};
use mainstay_rbac::UserInfo;
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::Value;

/// An embedded cluster.
pub struct Api {
    pub admin: Writer,
    pub server: Server,
    _folder: tempfile::TempDir,
}

impl Api {
    pub async fn start() -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let api = Self { admin, server, _folder: folder };
        let manifests = mainstay_api::classic_manifests().unwrap();
        for manifest in &manifests {
            api.apply(&manifest.definition).await;
        }
        for manifest in &manifests {
            let name = manifest.definition["metadata"]["name"].as_str().unwrap();
            api.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), |crd| holds(crd, "Established")).await;
        }
        api
    }

    pub async fn apply(&self, object: &Value) -> Value {
        self.admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    pub async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..3_000 {
            last = self.admin.get(place).await.unwrap().unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    pub async fn end(self) {
        self.server.end_watches();
        self.server.close().await;
    }
}

/// Says whether a condition of an object is true.
pub fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|each| each["type"] == kind && each["status"] == "True"))
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// An answer of the API.
pub struct Reply {
    pub status: http::StatusCode,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Api {
    /// Sends a request as a user.
    pub async fn send(&self, user: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let groups = if user == "admin" { vec!["system:masters"] } else { vec!["system:authenticated"] };
        let router = self.server.in_process(UserInfo::new(user, &groups));
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = tower::ServiceExt::oneshot(router, request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec();
        Reply { status: parts.status, headers: parts.headers, body }
    }

    pub async fn json(&self, user: &str, path: &str) -> Value {
        let reply = self.send(user, "GET", path, &[]).await;
        assert!(reply.status.is_success(), "{path}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }
}

/// A stored catalog, and the folder that it lies in.
pub fn stored(digit: char, files: &[(String, String)]) -> (StoredCatalog, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    let digest = format!("sha256:{}", digit.to_string().repeat(64)).parse().unwrap();
    let source = files.iter().fold(MemorySource::new(), |source, (path, text)| source.with(path, text.clone()));
    let stored = CatalogStore::unchecked(root.path()).put(&digest, &source, &Limits::default()).unwrap();
    (stored, root)
}
