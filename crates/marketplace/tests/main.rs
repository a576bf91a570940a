//! The marketplace against the real API, as its own account with exactly the permissions of its manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_marketplace::{ACCOUNT, Config, NAMESPACE, default_catalogs, manifests, operator_hub, run};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

fn marketplace(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

struct World {
    admin: Writer,
    server: Server,
    release: watch::Sender<String>,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl World {
    async fn start(hub: Value) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let (release, follow) = watch::channel("4.18.54".to_owned());
        let world = Self { admin, server, release, stop: CancellationToken::new(), _folder: folder };
        for object in manifests() {
            world.apply(&object).await;
        }
        let cluster = Cluster::Embedded { router: world.server.router(), identity: marketplace };
        let (config, stop) = (Config { catalogs: default_catalogs(), release: follow }, world.stop.clone());
        // It runs before its kinds are served.
        tokio::spawn(async move { run(cluster, Env::system(), config, stop).await.unwrap() });
        for manifest in mainstay_api::classic_manifests().unwrap() {
            world.apply(&manifest.definition).await;
        }
        let crd = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "operatorhubs.config.openshift.io");
        let established = |crd: &Value| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|each| each["type"] == "Established" && each["status"] == "True"))
        };
        world.until(&crd, established).await;
        world.apply(&hub).await;
        world
    }

    async fn apply(&self, object: &Value) -> Value {
        self.admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
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

    async fn image(&self, name: &str, ending: &str) -> Value {
        self.until(&source(name), |live| live["spec"]["image"].as_str().is_some_and(|image| image.ends_with(ending))).await
    }

    async fn end(self) {
        self.stop.cancel();
        self.server.end_watches();
        self.server.close().await;
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn source(name: &str) -> ObjectRef {
    place("operators.coreos.com/v1alpha1", "CatalogSource", NAMESPACE, name)
}

fn hub() -> ObjectRef {
    place("config.openshift.io/v1", "OperatorHub", "", "cluster")
}

/// OLM0-HUB-01, OLM0-HUB-03, OLM0-HUB-05, OLM0-HUB-06, OLM0-HUB-11, OLM0-CAT-29: default catalogs are made, restored, made again, follow the release, and go.
#[tokio::test(flavor = "multi_thread")]
async fn default_catalogs_are_kept() {
    let world = World::start(operator_hub(false)).await;
    let made = world.image("redhat-operators", "redhat-operator-index:v4.18").await;
    assert_eq!(made["metadata"]["annotations"]["operatorframework.io/managed-by"], "marketplace-operator");
    let done = |hub: &Value| {
        hub["status"]["sources"].as_array().is_some_and(|all| all.len() == 3 && all.iter().all(|one| one["status"] == "Success"))
    };
    world.until(&hub(), done).await;

    let edit = json!({"spec": {"priority": 7, "grpcPodConfig": {"nodeSelector": {"mine": "yes"}}}});
    world.admin.patch(&source("certified-operators"), "", &Patch::Merge(edit)).await.unwrap();
    let restored = |live: &Value| live["spec"]["priority"] == -200 && live["spec"]["grpcPodConfig"]["nodeSelector"].get("mine").is_none();
    world.until(&source("certified-operators"), restored).await;

    let uid = made["metadata"]["uid"].clone();
    world.admin.delete(&source("redhat-operators"), &Expect::default(), Propagation::Background).await.unwrap();
    world.until(&source("redhat-operators"), |live| live.is_object() && live["metadata"]["uid"] != uid).await;

    let own = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "mine", "namespace": NAMESPACE},
        "spec": {"sourceType": "grpc", "image": "example.com/mine:v4.18"}});
    world.apply(&own).await;
    world.release.send_replace("4.19.44".to_owned());
    for (name, ending) in [("redhat-operators", ":v4.19"), ("community-operators", ":v4.19"), ("mine", ":v4.18")] {
        world.image(name, ending).await;
    }

    // The ClusterOperator, whose kind comes late, tells the release whose catalogs there are.
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let operators = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators", "singular": "clusteroperator"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    });
    world.apply(&operators).await;
    let operators = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "clusteroperators.config.openshift.io");
    world
        .until(&operators, |crd| {
            crd["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|each| each["type"] == "Established"))
        })
        .await;
    let reported = |operator: &Value| {
        let conditions = operator["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let available = conditions.iter().any(|each| each["type"] == "Available" && each["status"] == "True");
        available && operator["status"]["versions"] == json!([{"name": "operator", "version": "4.19.44"}])
    };
    world.until(&place("config.openshift.io/v1", "ClusterOperator", "", "marketplace"), reported).await;

    // A user takes one of the names over; then all defaults are disabled.
    let mut change = json!({"spec": {"sources": [{"name": "community-operators", "disabled": true}, {"name": "mine", "disabled": true}]}});
    world.admin.patch(&hub(), "", &Patch::Merge(change.clone())).await.unwrap();
    world.until(&source("community-operators"), Value::is_null).await;
    let mut taken = own.clone();
    taken["metadata"]["name"] = "community-operators".into();
    world.apply(&taken).await;
    change["spec"]["disableAllDefaultSources"] = true.into();
    world.admin.patch(&hub(), "", &Patch::Merge(change)).await.unwrap();
    world.until(&source("redhat-operators"), Value::is_null).await;
    world.until(&source("certified-operators"), Value::is_null).await;
    let told = |hub: &Value| {
        let find = |name: &str| {
            hub["status"]["sources"].as_array().and_then(|all| all.iter().find(|one| one["name"] == name).cloned()).unwrap_or_default()
        };
        find("mine")["message"] == "Not present in the default definitions" && find("redhat-operators")["disabled"] == true
    };
    world.until(&hub(), told).await;
    for name in ["mine", "community-operators"] {
        assert_eq!(world.admin.get(&source(name)).await.unwrap().unwrap()["spec"]["image"], "example.com/mine:v4.18", "{name}");
    }
    world.end().await;
}

/// OLM0-HUB-12: with all defaults disabled none is made, and the status says so.
#[tokio::test(flavor = "multi_thread")]
async fn none_is_made_where_all_are_disabled() {
    let world = World::start(operator_hub(true)).await;
    let told = |hub: &Value| {
        hub["status"]["sources"].as_array().is_some_and(|all| all.len() == 3 && all.iter().all(|one| one["disabled"] == true))
    };
    world.until(&hub(), told).await;
    for name in ["redhat-operators", "certified-operators", "community-operators"] {
        assert!(world.admin.get(&source(name)).await.unwrap().is_none(), "{name}");
    }
    world.end().await;
}

/// OLM0-HUB-05, OLM0-HUB-07: a default catalog that the cluster refuses keeps no other one from being made, and the status says why; it is made
/// once the refusal is gone.
#[tokio::test(flavor = "multi_thread")]
async fn one_refused_catalog_delays_no_other() {
    let world = World::start(operator_hub(true)).await;
    world.until(&hub(), |hub| hub["status"]["sources"].is_array()).await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-certified"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["operators.coreos.com"], "apiVersions": ["v1alpha1"], "operations": ["CREATE"], "resources": ["catalogsources"]}]},
            "validations": [{"expression": "object.metadata.name != 'certified-operators'", "message": "not here"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-certified"},
        "spec": {"policyName": "no-certified", "validationActions": ["Deny"]},
    });
    world.apply(&policy).await;
    world.apply(&binding).await;
    // The policy holds as soon as it refuses this.
    let probe = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "certified-operators", "namespace": "default"}, "spec": {"sourceType": "grpc"}});
    while world.admin.create(&probe).await.is_ok() {
        let place = ObjectRef { namespace: "default".to_owned(), ..source("certified-operators") };
        world.admin.delete(&place, &Expect::default(), Propagation::Background).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.admin.patch(&hub(), "", &Patch::Merge(json!({"spec": {"disableAllDefaultSources": false}}))).await.unwrap();
    let of = |hub: &Value, name: &str| {
        let sources = hub["status"]["sources"].as_array().cloned().unwrap_or_default();
        sources.into_iter().find(|one| one["name"] == name).unwrap_or_default()
    };
    let refused = world.until(&hub(), |hub| of(hub, "certified-operators")["status"] == "Error").await;
    assert!(of(&refused, "certified-operators")["message"].as_str().unwrap().contains("not here"), "{refused:#}");
    for name in ["redhat-operators", "community-operators"] {
        world.image(name, ":v4.18").await;
        assert_eq!(of(&refused, name), json!({"name": name, "disabled": false, "status": "Success"}));
    }
    let binding = place("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", "no-certified");
    world.admin.delete(&binding, &Expect::default(), Propagation::Background).await.unwrap();
    world.image("certified-operators", ":v4.18").await;
    world.until(&hub(), |hub| of(hub, "certified-operators")["status"] == "Success").await;
    world.end().await;
}
