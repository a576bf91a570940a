//! An embedded API server with workloads and the OLM operator, and ways to it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::{Reason, Writer};
use mainstay_bundle::Csv;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_olm_classic::olm;
use mainstay_olm_classic_core::owner::Owner;
use mainstay_olm_classic_core::permissions;
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::{EmbeddedCluster, administrator};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const CSV: &str = "ClusterServiceVersion";
pub const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";

fn olm_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(olm::NAMESPACE, olm::ACCOUNT))));
}

fn anyone(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new("anyone", &["system:authenticated"]))));
}

/// An embedded cluster with simulated nodes.
pub struct Api {
    pub admin: Writer,
    pub env: Env,
    server: Server,
    stop: CancellationToken,
    olm: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Api {
    /// A cluster with everything that a fresh one holds, and the OLM operator.
    pub async fn start() -> Self {
        let mut api = Self::bare().await;
        api.run();
        api
    }

    /// A cluster without the OLM operator.
    pub async fn bare() -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let cluster = Cluster::Embedded { router: server.router(), identity: administrator };
        let (stop, env) = (CancellationToken::new(), Env::system());
        let (workloads, stopped) = (env.clone(), stop.clone());
        tokio::spawn(async move {
            mainstay_workloads::run(cluster, mainstay_workloads::Options::default(), workloads, stopped).await.unwrap();
        });
        let api = Self { admin, env, server, stop, olm: CancellationToken::new(), _folder: folder };
        for manifest in mainstay_api::classic_manifests().unwrap() {
            let crd = api.apply(manifest.definition).await;
            api.established(crd["metadata"]["name"].as_str().unwrap()).await;
        }
        api.admin.execute(&mainstay_olm_classic_core::fresh::steps(true), |_| {}).await.unwrap();
        for manifest in olm::manifests() {
            api.apply(manifest).await;
        }
        api
    }

    /// Runs the OLM operator.
    pub fn run(&mut self) {
        self.run_with(self.env.clone());
    }

    /// Runs the OLM operator with a clock of its own.
    pub fn run_with(&mut self, env: Env) {
        self.olm = self.stop.child_token();
        let setup = olm::Setup::new(Cluster::Embedded { router: self.server.router(), identity: olm_operator }, env);
        let stop = self.olm.clone();
        tokio::spawn(async move { olm::run(setup, stop).await.unwrap() });
    }

    /// Stops the OLM operator, and runs it again.
    pub async fn restart(&mut self) {
        self.olm.cancel();
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.run();
    }

    /// The way to the API without any identity.
    pub fn router(&self) -> axum::Router {
        self.server.router()
    }

    /// The cluster as the OLM operator reaches it.
    pub fn cluster(&self) -> Cluster {
        Cluster::Embedded { router: self.server.router(), identity: olm_operator }
    }

    /// A client of a user without any role.
    pub fn user(&self) -> kube::Client {
        Cluster::Embedded { router: self.server.router(), identity: anyone }.client().unwrap()
    }

    /// Sends a request as a user (or as a ServiceAccount, by its user name), and returns the code and the answer.
    pub async fn send(&self, user: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let info = match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => UserInfo::service_account(namespace, name),
            None => UserInfo::new(user, &["system:authenticated"]),
        };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = axum::http::Request::builder().method(method).uri(path).header("content-type", kind);
        let text = body.map(|body| body.to_string()).unwrap_or_default();
        let request = request.body(axum::body::Body::from(text)).unwrap();
        let response = tower::ServiceExt::oneshot(self.server.in_process(info), request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub async fn established(&self, crd: &str) {
        let holds = |crd: &Value| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|each| each["type"] == "Established" && each["status"] == "True"))
        };
        self.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd), holds).await;
    }

    pub async fn apply(&self, object: Value) -> Value {
        for _ in 0..50 {
            match self.admin.apply(&object, true, &Expect::default()).await {
                Ok((applied, _)) => return applied,
                // A kind may be served a moment later.
                Err(mainstay_apply::WriteError::Kind { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => panic!("{error:?}: {object}"),
            }
        }
        panic!("its kind is not served: {object}");
    }

    pub async fn get(&self, place: &ObjectRef) -> Option<Value> {
        self.admin.get(place).await.unwrap()
    }

    pub async fn patch(&self, place: &ObjectRef, patch: Value) {
        self.admin.patch(place, "", &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, place: &ObjectRef) {
        self.admin.delete(place, &Expect::default(), Propagation::Background).await.unwrap();
    }

    pub async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..3_000 {
            last = match self.admin.get(place).await {
                Ok(object) => object.unwrap_or_default(),
                Err(mainstay_apply::WriteError::Kind { .. }) => Value::Null,
                Err(error) => panic!("{error}"),
            };
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if let Some(spec) = last.get_mut("spec") {
            *spec = Value::Null;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    pub async fn gone(&self, place: &ObjectRef) {
        self.until(place, Value::is_null).await;
    }

    /// Waits until a CSV has a phase and reason.
    pub async fn phase(&self, namespace: &str, name: &str, phase: &str, reason: &str) -> Value {
        let reached = |csv: &Value| csv["status"]["phase"] == phase && csv["status"]["reason"] == reason;
        self.until(&place(V1ALPHA1, CSV, namespace, name), reached).await
    }

    pub async fn namespace(&self, name: &str, labels: Value) {
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})).await;
    }

    pub async fn group(&self, namespace: &str, name: &str, spec: Value) -> Value {
        let metadata = json!({"name": name, "namespace": namespace});
        self.apply(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": spec})).await
    }

    /// The accounts, roles and bindings of a CSV, as a user or an install plan makes them.
    pub async fn permissions(&self, csv: &Value) {
        let namespace = csv["metadata"]["namespace"].as_str().unwrap();
        let parsed = Csv::parse(csv).unwrap();
        let uid = csv["metadata"]["uid"].as_str().unwrap();
        let owner = Owner { api_version: V1ALPHA1, name: &parsed.name, namespace, uid };
        for each in permissions::of(&parsed, &owner).unwrap().into_values() {
            let rbac = "rbac.authorization.k8s.io/v1";
            let kinds = [
                ("v1", "ServiceAccount", vec![each.service_account]),
                (rbac, "Role", each.roles),
                (rbac, "RoleBinding", each.role_bindings),
                (rbac, "ClusterRole", each.cluster_roles),
                (rbac, "ClusterRoleBinding", each.cluster_role_bindings),
            ];
            for (api_version, kind, objects) in kinds {
                for mut object in objects {
                    object["apiVersion"] = json!(api_version);
                    object["kind"] = json!(kind);
                    object["metadata"]["namespace"] = json!(namespace);
                    if kind.starts_with("Cluster") {
                        object["metadata"].as_object_mut().unwrap().remove("namespace");
                    }
                    self.apply(object).await;
                }
            }
        }
    }

    /// Writes the status that is made of the live object; once more if the object was written in between.
    pub async fn write_status(&self, target: &ObjectRef, status: impl Fn(&Value) -> Value) {
        loop {
            let live = self.get(target).await.unwrap();
            match self.admin.update_status(&live, &status(&live)).await {
                Ok(_) => return,
                Err(error) => assert_eq!(error.reason(), Some(&Reason::Conflict), "{error}"),
            }
        }
    }

    pub async fn close(self) {
        self.stop.cancel();
        self.server.end_watches();
        self.server.close().await;
    }
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

pub fn csv_at(namespace: &str, name: &str) -> ObjectRef {
    place(V1ALPHA1, CSV, namespace, name)
}

/// A CSV `<kind>s.v<version>` of an operator with one API, with these install modes.
pub fn csv(namespace: &str, operator: &str, version: &str, modes: &[&str]) -> Value {
    let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
    let rules = json!([{"apiGroups": ["example.com"], "resources": [operator], "verbs": ["get", "list", "watch"]}]);
    json!({
        "apiVersion": V1ALPHA1, "kind": CSV,
        "metadata": {"name": format!("{operator}.v{version}"), "namespace": namespace},
        "spec": {
            "displayName": operator, "version": version, "installModes": modes,
            "customresourcedefinitions": {"owned": [{"name": format!("{operator}.example.com"), "kind": kind(operator), "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": operator, "rules": rules}],
                "deployments": [{"name": operator, "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": operator}},
                    "template": {"metadata": {"labels": {"app": operator}}, "spec": {"serviceAccountName": operator, "containers": [
                        {"name": "manager", "image": format!("example.com/{operator}:{version}")}
                    ]}},
                }}],
            }},
        },
    })
}

/// The CRD of [`csv`].
pub fn crd(operator: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{operator}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind(operator), "plural": operator, "singular": kind(operator).to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}}}],
        },
    })
}

fn kind(operator: &str) -> String {
    let singular = operator.trim_end_matches('s');
    singular[..1].to_uppercase() + &singular[1..]
}

/// The phases and reasons in the history of a CSV.
pub fn history(csv: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    csv["status"]["conditions"].as_array().into_iter().flatten().map(|each| (text(&each["phase"]), text(&each["reason"]))).collect()
}

/// Waits until a reading stays the same for some seconds, and returns it.
pub async fn settled<T: PartialEq, F: Future<Output = T>>(read: impl Fn() -> F) -> T {
    let mut last = read().await;
    let mut same = 0;
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = read().await;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same == 7 {
            return last;
        }
    }
    panic!("it does not settle");
}

/// The labels of an object.
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    let all = object["metadata"]["labels"].as_object().into_iter().flatten();
    all.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}
