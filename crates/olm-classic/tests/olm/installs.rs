//! CSVs that are made by hand: from nothing to `Succeeded`, and what keeps them from it.

use serde_json::json;

use crate::support::{Api, crd, csv, csv_at, history, place};

/// OLM0-API-01, OLM0-CSV-01, OLM0-CSV-05, OLM0-CSV-10, COP-OLM0-01: a CSV without catalog waits for its requirements, and is installed once they are there.
#[tokio::test(flavor = "multi_thread")]
async fn by_hand() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.phase("home", "widgets.v1.0.0", "Failed", "NoOperatorGroup").await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let waiting = api.phase("home", "widgets.v1.0.0", "Pending", "RequirementsNotMet").await;
    let statuses = waiting["status"]["requirementStatus"].as_array().unwrap();
    assert_eq!(
        (&statuses[0]["message"], &statuses[1]["message"]),
        (&json!("CRD is not present"), &json!("Service account does not exist"))
    );
    api.apply(crd("widgets")).await;
    api.permissions(&object).await;
    let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let found = history(&done);
    let phases: Vec<(&str, &str)> = found.iter().map(|(phase, reason)| (phase.as_str(), reason.as_str())).collect();
    let first = [("Failed", "NoOperatorGroup"), ("Pending", "RequirementsUnknown"), ("Pending", "RequirementsNotMet")];
    assert_eq!(phases[..3], first);
    assert_eq!(phases[3..5], [("InstallReady", "AllRequirementsMet"), ("Installing", "InstallSucceeded")]);
    assert_eq!(phases.last(), Some(&("Succeeded", "InstallSucceeded")));
    let annotations = &done["metadata"]["annotations"];
    assert_eq!((&annotations["olm.operatorGroup"], &annotations["olm.targetNamespaces"]), (&json!("g"), &json!("home")));
    assert_eq!(done["metadata"]["finalizers"], json!(["operators.coreos.com/csv-cleanup"]));
    let deployment = api.get(&place("apps/v1", "Deployment", "home", "widgets")).await.unwrap();
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "widgets.v1.0.0");
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"], "home");
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 1);
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0], json!({"name": "OPERATOR_CONDITION_NAME", "value": "widgets.v1.0.0"}));
    let page = api.env.metrics().page().unwrap();
    assert!(page.contains("csv_succeeded{namespace=\"home\",name=\"widgets.v1.0.0\",version=\"1.0.0\"} 1\n"), "{page}");
    assert!(!page.contains("csv_abnormal{") && page.contains("csv_count 1\n"), "{page}");
    // A Deployment that is deleted comes back.
    api.delete(&place("apps/v1", "Deployment", "home", "widgets")).await;
    let again = |uid: &serde_json::Value| {
        let uid = uid.clone();
        move |found: &serde_json::Value| !found.is_null() && found["metadata"]["uid"] != uid
    };
    api.until(&place("apps/v1", "Deployment", "home", "widgets"), again(&deployment["metadata"]["uid"])).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    // OLM0-CSV-20, OLM0-CSV-21: it goes with what it owns, and the CRD stays.
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    api.gone(&place("apps/v1", "Deployment", "home", "widgets")).await;
    api.gone(&place("v1", "ServiceAccount", "home", "widgets")).await;
    assert!(api.get(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")).await.is_some());
    api.close().await;
}

/// OLM0-CSV-05, OLM0-ADMIN-06: others who write to the Deployment at the same time do not make its installation fail.
#[tokio::test(flavor = "multi_thread")]
async fn contended() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let deployment = place("apps/v1", "Deployment", "home", "widgets");
    for round in 0..8 {
        let text = round.to_string();
        api.patch(&csv_at("home", "widgets.v1.0.0"), json!({"metadata": {"annotations": {"round": text}}})).await;
        for write in 0..40 {
            api.patch(&deployment, json!({"metadata": {"annotations": {"write": format!("{round}-{write}")}}})).await;
        }
        api.until(&deployment, |found| found["spec"]["template"]["metadata"]["annotations"]["round"] == text.as_str()).await;
        let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
        let failed: Vec<_> = history(&done).into_iter().filter(|(phase, _)| phase == "Failed").collect();
        assert!(failed.iter().all(|(_, reason)| reason != "InstallComponentFailed"), "{}", done["status"]["conditions"]);
    }
    api.close().await;
}

/// OLM0-OG-02, OLM0-CSV-04, OLM0-CSV-06: several groups and unsupported modes fail a CSV until they are mended.
#[tokio::test(flavor = "multi_thread")]
async fn groups_are_mended() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.namespace("other", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    api.group("home", "h", json!({"targetNamespaces": ["other"]})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Failed", "TooManyOperatorGroups").await;
    let group = place("operators.coreos.com/v1", "OperatorGroup", "home", "h");
    let told = |object: &serde_json::Value| object["status"]["conditions"][0]["reason"] == "MultipleOperatorGroupsFound";
    api.until(&group, told).await;
    api.delete(&place("operators.coreos.com/v1", "OperatorGroup", "home", "g")).await;
    let failed = api.phase("home", "widgets.v1.0.0", "Failed", "UnsupportedOperatorGroup").await;
    assert_eq!(failed["status"]["message"], "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace");
    api.until(&group, |object| object["status"].get("conditions").is_none()).await;
    api.patch(&group, json!({"spec": {"targetNamespaces": ["home"]}})).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}
