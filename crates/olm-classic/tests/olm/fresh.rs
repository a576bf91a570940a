//! The objects of a fresh cluster, and restarts of the controller.

use kube::api::{Api as Objects, ListParams};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use crate::support::{Api, crd, csv, place, settled};

/// OLM0-API-33, OLM0-OG-16, OLM0-OG-26: groups, OLMConfig and roles; every user lists CSVs in `openshift`, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn objects() {
    let api = Api::start().await;
    let group = place("operators.coreos.com/v1", "OperatorGroup", "openshift-operators", "global-operators");
    api.until(&group, |group| group["status"]["namespaces"] == json!([""])).await;
    let own = place("operators.coreos.com/v1", "OperatorGroup", "openshift-operator-lifecycle-manager", "olm-operators");
    api.until(&own, |group| group["status"]["namespaces"] == json!(["openshift-operator-lifecycle-manager"])).await;
    let config = place("operators.coreos.com/v1", "OLMConfig", "", "cluster");
    api.until(&config, |config| config["status"]["conditions"][0]["type"] == "DisabledCopiedCSVs").await;
    let view = place("rbac.authorization.k8s.io/v1", "ClusterRole", "", "view");
    let aggregated = |role: &Value| role["rules"].to_string().contains("packagemanifests/icon");
    api.until(&view, aggregated).await;
    let user = api.user();
    let resource = kube::api::ApiResource::from_gvk_with_plural(
        &kube::api::GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "ClusterServiceVersion"),
        "clusterserviceversions",
    );
    let list = |namespace: &str| {
        let api: Objects<kube::api::DynamicObject> = Objects::namespaced_with(user.clone(), namespace, &resource);
        async move { api.list(&ListParams::default()).await }
    };
    list("openshift").await.unwrap();
    let refused = list("openshift-operators").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    api.close().await;
}

/// OLM0-CSV-05: a controller that starts again changes nothing that is as it should be.
#[tokio::test(flavor = "multi_thread")]
async fn restart() {
    let mut api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.namespace("away", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["away"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["SingleNamespace"]);
    object["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "check.example.com",
        "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
    let object = api.apply(object).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let copied = |copy: &Value| copy["status"]["phase"] == "Succeeded";
    api.until(&crate::support::csv_at("away", "widgets.v1.0.0"), copied).await;
    let kinds = [
        ("apps", "v1", "Deployment"),
        ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion"),
        ("", "v1", "Secret"),
        ("operators.coreos.com", "v1", "OperatorGroup"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        ("rbac.authorization.k8s.io", "v1", "Role"),
        ("operators.coreos.com", "v2", "OperatorCondition"),
        ("", "v1", "Namespace"),
        ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
        ("operators.coreos.com", "v1", "OLMConfig"),
    ];
    let admin = api.admin.clone();
    let versions = || async {
        let mut all = Vec::new();
        for (group, version, kind) in kinds {
            let gvk = kube::api::GroupVersionKind::gvk(group, version, kind);
            for object in admin.list(&gvk, 10_000).await.unwrap() {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                all.push((kind, Key::new(text("namespace"), text("name")), text("resourceVersion")));
            }
        }
        all
    };
    let before = settled(versions).await;
    api.restart().await;
    assert_eq!(settled(versions).await, before);
    api.close().await;
}
