//! `Operator` objects.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, labels, place};

/// OLM0-API-26: the Subscription's label reaches the CSV and what it owns, and the `Operator` lists all of it.
#[tokio::test(flavor = "multi_thread")]
async fn components() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    // What its InstallPlan made of the other manifests.
    for kind in ["ConfigMap", "Secret", "Service"] {
        let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "widgets.v1.0.0",
            "uid": object["metadata"]["uid"]});
        let metadata = json!({"name": "settings", "namespace": "home", "labels": {"olm.managed": "true"}, "ownerReferences": [owner]});
        let mut manifest = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        if kind == "Service" {
            manifest["spec"] = json!({"ports": [{"port": 80}]});
        }
        api.apply(manifest).await;
    }
    api.apply(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "sub", "namespace": "home"},
        "spec": {"name": "widgets", "channel": "stable", "source": "s", "sourceNamespace": "home"}}),
    )
    .await;
    let at = place("operators.coreos.com/v1alpha1", "Subscription", "home", "sub");
    api.write_status(&at, |_| json!({"installedCSV": "widgets.v1.0.0", "lastUpdated": "2024-01-01T00:00:00Z"})).await;
    let label = "operators.coreos.com/widgets.home";
    api.until(&at, |found| labels(found).contains_key(label)).await;
    let listed = |operator: &Value, kind: &str| {
        let refs = operator["status"]["components"]["refs"].as_array().cloned().unwrap_or_default();
        refs.into_iter().find(|each| each["kind"] == kind)
    };
    let kinds = [
        "ClusterServiceVersion",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "OperatorCondition",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "Subscription",
    ];
    let operator = place("operators.coreos.com/v1", "Operator", "", "widgets.home");
    let complete = |operator: &Value| {
        let succeeded = listed(operator, "ClusterServiceVersion").is_some_and(|csv| csv["conditions"][0]["type"] == "Succeeded");
        succeeded && kinds.iter().all(|kind| listed(operator, kind).is_some())
    };
    let found = api.until(&operator, complete).await;
    let selector = json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    assert_eq!(found["status"]["components"]["labelSelector"], selector);
    let deployment = listed(&found, "Deployment").unwrap();
    assert_eq!((&deployment["namespace"], &deployment["name"]), (&json!("home"), &json!("widgets")));
    api.delete(&operator).await;
    api.until(&operator, complete).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}
