//! The Machine API on an embedded cluster, with the permissions that it has; no kubelet runs.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_machine_api::{ACCOUNT, Config, NAMESPACE, definitions, manifests};
use mainstay_objects::{Expect, ObjectRef, Propagation, Until};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const MACHINE: &str = "machine.openshift.io/v1beta1";

fn account(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

pub(crate) fn at(api_version: &str, kind: &str, name: &str) -> ObjectRef {
    let namespace = if api_version == "v1" && kind == "Node" { "" } else { NAMESPACE };
    let text = str::to_owned;
    ObjectRef { api_version: text(api_version), kind: text(kind), namespace: text(namespace), name: text(name) }
}

pub(crate) struct Api {
    pub(crate) admin: Writer,
    pub(crate) server: Server,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Api {
    pub(crate) async fn start() -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let api = Self { admin, server, stop: CancellationToken::new(), _folder: folder };
        api.define(&definitions().unwrap()).await;
        for object in manifests() {
            api.admin.apply(&object, true, &Expect::default()).await.unwrap();
        }
        api
    }

    pub(crate) async fn define(&self, definitions: &[Value]) {
        for definition in definitions {
            self.admin.apply(definition, true, &Expect::default()).await.unwrap();
        }
        for definition in definitions {
            self.admin.wait(&ObjectRef::of(definition).unwrap(), &Until::Healthy, Duration::from_secs(60)).await.unwrap();
        }
    }

    /// Starts the controllers, those that ran before are stopped.
    pub(crate) fn run(&mut self, config: Config) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        let cluster = Cluster::Embedded { router: self.server.router(), identity: account };
        let stop = self.stop.clone();
        tokio::spawn(async move { mainstay_machine_api::run(cluster, Env::system(), config, stop).await.unwrap() });
    }

    pub(crate) async fn get(&self, place: &ObjectRef) -> Option<Value> {
        self.admin.get(place).await.unwrap()
    }

    pub(crate) async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..6_000 {
            last = self.get(place).await.unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    pub(crate) async fn until_gone(&self, place: &ObjectRef) {
        self.until(place, Value::is_null).await;
    }

    pub(crate) async fn delete(&self, place: &ObjectRef) {
        self.admin.delete(place, &Expect::default(), Propagation::Background).await.unwrap();
    }

    pub(crate) async fn machine(&self, name: &str, provider_spec: &Value) -> ObjectRef {
        let machine = json!({
            "apiVersion": MACHINE, "kind": "Machine", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"providerSpec": {"value": provider_spec}},
        });
        self.admin.create(&machine).await.unwrap();
        at(MACHINE, "Machine", name)
    }
}

pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}
