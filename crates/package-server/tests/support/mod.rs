//! An embedded API server with the definitions of OLM classic.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Config, Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_objects::{Expect, ObjectRef};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Kinds};
use serde_json::Value;

pub fn administrator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new("admin", &["system:masters"]))));
}

/// An embedded cluster.
pub struct Api {
    pub admin: Writer,
    pub server: Server,
    _folder: tempfile::TempDir,
}

impl Api {
    pub async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let _ = tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_test_writer().try_init();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::open(Config::local(folder.path().join("cluster"), 6443)).await.unwrap();
        let client = Cluster::Embedded { router: server.router(), identity: administrator }.client().unwrap();
        let api = Self { admin: Writer::new(client.clone(), Kinds::new(client), "test"), server, _folder: folder };
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
