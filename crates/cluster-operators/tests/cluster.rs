//! An embedded API with the kinds of a release.

use std::time::Duration;

use mainstay_apiserver::Server;
use mainstay_apply::Writer;
use mainstay_objects::{Expect, ObjectRef};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::Value;

/// The server, and a writer that may do everything.
pub struct Api {
    pub server: Server,
    pub admin: Writer,
    _folder: tempfile::TempDir,
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

impl Api {
    pub async fn open(definitions: &[Value]) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let api = Self { server, admin, _folder: folder };
        for definition in definitions {
            api.apply(definition).await;
        }
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().unwrap();
            let established = |crd: &Value| {
                let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
                all.iter().any(|each| each["type"] == "Established" && each["status"] == "True")
            };
            api.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), established).await;
        }
        api
    }

    pub async fn apply(&self, object: &Value) {
        self.admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}"));
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

    pub async fn close(self) {
        self.server.end_watches();
        self.server.close().await;
    }
}
