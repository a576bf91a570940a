//! Storage version migration against the real API, as its own account.

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_cluster_operators::storage_migration::{self, ACCOUNT, Config, NAMESPACE, definitions, manifests};
use mainstay_objects::Patch;
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Api, place};

fn account(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(std::sync::Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

fn definition(storage: &str) -> Value {
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.demo.io"},
        "spec": {
            "group": "demo.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1"), version("v1beta1")],
        },
    })
}

/// The ClusterOperator as a release brings it.
fn brought() -> Value {
    let owner = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version", "uid": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11"});
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "kube-storage-version-migrator", "ownerReferences": [owner]}, "spec": {}})
}

/// COP-25, COP-SVM-01, COP-SVM-02, COP-SVM-03, COP-SVM-04, COP-SVM-05: a new storage version of a CRD has every object written once more, the old
/// version leaves storedVersions and can be removed, and the ClusterOperator reports.
#[tokio::test(flavor = "multi_thread")]
async fn a_crd_changes_its_storage_version() {
    let release = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition);
    let own = definitions().into_iter();
    let api = Api::open(&release.chain(own).chain([definition("v1beta1")]).collect::<Vec<_>>()).await;
    for object in manifests() {
        api.apply(&object).await;
    }
    api.admin.create(&brought()).await.unwrap();
    let widget = |number: usize| place("demo.io/v1", "Widget", "default", &format!("w{number}"));
    for number in 0..3 {
        let object = json!({"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": format!("w{number}"), "namespace": "default"},
            "spec": {"size": number}});
        api.admin.create(&object).await.unwrap();
    }
    let stop = CancellationToken::new();
    let (cluster, until) = (Cluster::Embedded { router: api.server.router(), identity: account }, stop.clone());
    let config = Config { writes_per_second: 2_000.0, ..Config::default() };
    let running = tokio::spawn(storage_migration::run(cluster, Env::system(), config, until));
    let state = place("migration.k8s.io/v1alpha1", "StorageState", "", "widgets.demo.io");
    let persisted = |live: &Value| live["status"]["persistedStorageVersionHashes"].as_array().map_or(0, Vec::len);
    let first = api.until(&state, |live| persisted(live) == 1).await;

    let crd = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.demo.io");
    let before: Vec<Value> = futures_of(&api, &widget).await;
    let versions = definition("v1")["spec"]["versions"].clone();
    api.admin.patch(&crd, "", &Patch::Merge(json!({"spec": {"versions": versions}}))).await.unwrap();
    let live = api.until(&crd, |live| live["status"]["storedVersions"] == json!(["v1"])).await;
    assert_eq!(live["status"]["storedVersions"], json!(["v1"]));
    let second = api.until(&state, |live| persisted(live) == 1 && live["status"] != first["status"]).await;
    assert_ne!(first["status"]["currentStorageVersionHash"], second["status"]["currentStorageVersionHash"]);
    let after: Vec<Value> = futures_of(&api, &widget).await;
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "it was written");
        assert_eq!((&before["spec"], &before["metadata"]["uid"]), (&after["spec"], &after["metadata"]["uid"]), "unchanged");
    }
    // The old version can go now.
    api.admin.patch(&crd, "", &Patch::Merge(json!({"spec": {"versions": [versions[0]]}}))).await.unwrap();
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "kube-storage-version-migrator");
    let well = |live: &Value, kind: &str, status: &str| {
        let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|each| each["type"] == kind && each["status"] == status)
    };
    api.until(&operator, |live| well(live, "Available", "True") && well(live, "Degraded", "False")).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    api.close().await;
}

async fn futures_of(api: &Api, widget: &dyn Fn(usize) -> mainstay_objects::ObjectRef) -> Vec<Value> {
    let mut all = Vec::new();
    for number in 0..3 {
        all.push(api.admin.get(&widget(number)).await.unwrap().unwrap());
    }
    all
}

/// COP-SVM-03, COP-SVM-05: an object that admission does not accept fails the migration, by name, and shows in the ClusterOperator.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_refused() {
    let release = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition);
    let own = definitions().into_iter();
    let api = Api::open(&release.chain(own).chain([definition("v1beta1")]).collect::<Vec<_>>()).await;
    for object in manifests() {
        api.apply(&object).await;
    }
    api.admin.create(&brought()).await.unwrap();
    let object =
        json!({"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": {"name": "bad", "namespace": "default"}, "spec": {"size": 7}});
    api.admin.create(&object).await.unwrap();
    let group = "admissionregistration.k8s.io";
    let policy = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-widgets"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["demo.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["widgets"]},
            ]},
            "validations": [{"expression": "false", "message": "no widget is changed"}],
        },
    });
    api.apply(&policy).await;
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-widgets"},
        "spec": {"policyName": "no-widgets", "validationActions": ["Deny"]},
    });
    api.apply(&binding).await;
    api.apply(&definition("v1")).await;
    let stop = CancellationToken::new();
    let (cluster, until) = (Cluster::Embedded { router: api.server.router(), identity: account }, stop.clone());
    let config = Config { writes_per_second: 2_000.0, ..Config::default() };
    let running = tokio::spawn(storage_migration::run(cluster, Env::system(), config, until));
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "kube-storage-version-migrator");
    let degraded = |live: &Value| {
        let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|each| {
            each["type"] == "Degraded" && each["status"] == "True" && each["message"].as_str().is_some_and(|text| text.contains("bad"))
        })
    };
    api.until(&operator, degraded).await;
    let crd = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.demo.io");
    let live = api.admin.get(&crd).await.unwrap().unwrap();
    assert_eq!(live["status"]["storedVersions"], json!(["v1beta1", "v1"]), "the old version is still stored");
    stop.cancel();
    running.await.unwrap().unwrap();
    api.close().await;
}

/// COP-SVM-05: the ClusterOperator is a release's: the loop makes none where there is no release, leaves that of others alone, and reports once a
/// release has brought it.
#[tokio::test(flavor = "multi_thread")]
async fn no_cluster_operator_of_its_own() {
    let release = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition);
    let api = Api::open(&release.chain(definitions()).chain([definition("v1beta1")]).collect::<Vec<_>>()).await;
    for object in manifests() {
        api.apply(&object).await;
    }
    let stop = CancellationToken::new();
    let (cluster, until) = (Cluster::Embedded { router: api.server.router(), identity: account }, stop.clone());
    let config = Config { writes_per_second: 2_000.0, ..Config::default() };
    let running = tokio::spawn(storage_migration::run(cluster, Env::system(), config, until));
    let state = place("migration.k8s.io/v1alpha1", "StorageState", "", "widgets.demo.io");
    let persisted = |live: &Value| live["status"]["persistedStorageVersionHashes"].as_array().map_or(0, Vec::len);
    api.until(&state, |live| persisted(live) == 1).await;
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "kube-storage-version-migrator");
    assert!(api.admin.get(&operator).await.unwrap().is_none());

    let mut foreign = brought();
    foreign["metadata"]["ownerReferences"] = json!([]);
    let created = api.admin.create(&foreign).await.unwrap();
    let crd = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.demo.io");
    api.admin.patch(&crd, "", &Patch::Merge(json!({"spec": {"versions": definition("v1")["spec"]["versions"]}}))).await.unwrap();
    api.until(&crd, |live| live["status"]["storedVersions"] == json!(["v1"])).await;
    let live = api.admin.get(&operator).await.unwrap().unwrap();
    assert_eq!(live["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(live["status"]["conditions"], Value::Null, "{live:#}");

    let owners = brought()["metadata"]["ownerReferences"].clone();
    api.admin.patch(&operator, "", &Patch::Merge(json!({"metadata": {"ownerReferences": owners}}))).await.unwrap();
    api.until(&operator, |live| live["status"]["conditions"].is_array()).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    api.close().await;
}
