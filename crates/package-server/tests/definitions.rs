//! The definitions of OLM classic in the embedded API server.

use mainstay_olm_classic_core::fresh;
use serde_json::json;

use crate::support::{Api, holds, place};

/// OLM0-API-02, OLM0-API-04, OLM0-API-22: the API server accepts every definition as structural, sets defaults and refuses what is no value.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_served() {
    let api = Api::start().await;
    for manifest in mainstay_api::classic_manifests().unwrap() {
        let name = manifest.definition["metadata"]["name"].as_str().unwrap();
        let crd =
            api.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), |crd| holds(crd, "NamesAccepted")).await;
        assert!(!holds(&crd, "NonStructuralSchema"), "{crd:#}");
    }
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "og", "namespace": "default"}, "spec": {}});
    let made = api.apply(&group).await;
    assert_eq!(made["spec"]["upgradeStrategy"], "Default");
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "c.v1", "namespace": "default"},
        "spec": {"displayName": "C", "release": "1.a",
            "webhookdefinitions": [{"generateName": "w", "type": "ConversionWebhook", "sideEffects": "None", "admissionReviewVersions": ["v1"]}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "d", "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"k": "v"}}, "spec": {
                    "schedulingGroup": {"podGroupName": "g"},
                    "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                        "livenessProbe": {"httpGet": {"port": "http"}}}]}},
            }}]}}},
    });
    let made = api.apply(&csv).await;
    assert_eq!(made["spec"]["webhookdefinitions"][0]["containerPort"], 443);
    let template = &made["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"]["k"], "v");
    assert_eq!(template["spec"]["schedulingGroup"]["podGroupName"], "g");
    assert_eq!(template["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
    let mut wrong = csv.clone();
    wrong["spec"]["release"] = "1.01".into();
    let refused = api.admin.apply(&wrong, true, &mainstay_objects::Expect::default()).await.unwrap_err();
    assert!(refused.to_string().contains("leading zeros"), "{refused}");
    api.end().await;
}

/// OLM0-API-33: a fresh cluster has its groups and settings, which are not reset; a user without any role lists ClusterServiceVersions in
/// `openshift` and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_cluster() {
    let api = Api::start().await;
    api.admin.execute(&fresh::steps(true), |_| {}).await.unwrap();
    let group = |name: &str, namespace: &str| place("operators.coreos.com/v1", "OperatorGroup", namespace, name);
    let global = api.admin.get(&group("global-operators", "openshift-operators")).await.unwrap().unwrap();
    assert_eq!(global["spec"], json!({"upgradeStrategy": "Default"}));
    let own = api.admin.get(&group("olm-operators", "openshift-operator-lifecycle-manager")).await.unwrap().unwrap();
    assert_eq!(own["spec"]["targetNamespaces"], json!(["openshift-operator-lifecycle-manager"]));
    let hub = place("config.openshift.io/v1", "OperatorHub", "", "cluster");
    let change = json!({"spec": {"disableAllDefaultSources": false}});
    api.admin.patch(&hub, "", &mainstay_objects::Patch::Merge(change)).await.unwrap();
    api.admin.execute(&fresh::steps(true), |_| {}).await.unwrap();
    assert_eq!(api.admin.get(&hub).await.unwrap().unwrap()["spec"]["disableAllDefaultSources"], false);
    let path = |namespace: &str| format!("/apis/operators.coreos.com/v1alpha1/namespaces/{namespace}/clusterserviceversions");
    assert_eq!(api.send("ann", "GET", &path("openshift"), &[]).await.status, http::StatusCode::OK);
    assert_eq!(api.send("ann", "GET", &path("openshift-operators"), &[]).await.status, http::StatusCode::FORBIDDEN);
    api.end().await;
}
