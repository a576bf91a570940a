//! Copies of CSVs, tenants' and lifted roles, and OLMConfig.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, labels, place};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CONFIG: &str = "operators.coreos.com/v1";

async fn install(api: &Api, namespace: &str, mode: &str, group: Value) {
    api.namespace(namespace, json!({})).await;
    api.apply(crd("widgets")).await;
    api.group(namespace, "g", group).await;
    let object = api.apply(csv(namespace, "widgets", "1.0.0", &[mode])).await;
    api.permissions(&object).await;
    api.phase(namespace, "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
}

async fn role_name(api: &Api, namespace: &str) -> String {
    let deployment = api.get(&csv_at(namespace, "widgets.v1.0.0")).await.unwrap();
    let parsed = mainstay_bundle::Csv::parse(&deployment).unwrap();
    let uid = deployment["metadata"]["uid"].as_str().unwrap();
    let owner = mainstay_olm_classic_core::owner::Owner { api_version: crate::support::V1ALPHA1, name: "widgets.v1.0.0", namespace, uid };
    let all = mainstay_olm_classic_core::permissions::of(&parsed, &owner).unwrap();
    all["widgets"].roles[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

/// OLM0-OG-18, OLM0-OG-19: copies and roles in the targets of a group; they follow its targets and go with the CSV.
#[tokio::test(flavor = "multi_thread")]
async fn several_namespaces() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.namespace(name, json!({})).await;
    }
    install(&api, "home", "MultiNamespace", json!({"targetNamespaces": ["a", "b"]})).await;
    let copied = |copy: &Value| copy["status"]["reason"] == "Copied" && copy["status"]["phase"] == "Succeeded";
    let copy = api.until(&csv_at("a", "widgets.v1.0.0"), copied).await;
    assert_eq!(labels(&copy)["olm.copiedFrom"], "home");
    assert_eq!(copy["status"]["message"], "The operator is running in home but is managing this namespace");
    let annotations = &copy["metadata"]["annotations"];
    assert_eq!((&annotations["olm.operatorGroup"], annotations.get("olm.targetNamespaces")), (&json!("g"), None));
    let role = role_name(&api, "home").await;
    let tenant = api.until(&place(RBAC, "Role", "b", &role), |role| !role.is_null()).await;
    assert_eq!(labels(&tenant)["olm.copiedFrom"], "home");
    assert_eq!(tenant["metadata"]["ownerReferences"][0]["name"], "widgets.v1.0.0");
    let binding = api.until(&place(RBAC, "RoleBinding", "b", &role), |binding| !binding.is_null()).await;
    assert_eq!(binding["subjects"][0]["namespace"], "home");
    // A copy that is changed or deleted comes back.
    api.delete(&csv_at("a", "widgets.v1.0.0")).await;
    api.until(&csv_at("a", "widgets.v1.0.0"), copied).await;
    // So does a role.
    api.delete(&place(RBAC, "Role", "b", &role)).await;
    let again = |found: &Value| !found.is_null() && found["metadata"]["uid"] != tenant["metadata"]["uid"];
    api.until(&place(RBAC, "Role", "b", &role), again).await;
    // A second group by mistake takes no copy away.
    let kept = api.get(&csv_at("a", "widgets.v1.0.0")).await.unwrap();
    api.group("home", "second", json!({"targetNamespaces": ["a"]})).await;
    api.phase("home", "widgets.v1.0.0", "Failed", "TooManyOperatorGroups").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(api.get(&csv_at("a", "widgets.v1.0.0")).await.unwrap()["metadata"]["uid"], kept["metadata"]["uid"]);
    api.delete(&place(CONFIG, "OperatorGroup", "home", "second")).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    // Other targets, other copies; the operator's own Deployment learns of them.
    let group = place(CONFIG, "OperatorGroup", "home", "g");
    api.patch(&group, json!({"spec": {"targetNamespaces": ["b", "c"]}})).await;
    api.until(&csv_at("c", "widgets.v1.0.0"), copied).await;
    api.gone(&csv_at("a", "widgets.v1.0.0")).await;
    api.gone(&place(RBAC, "Role", "a", &role)).await;
    let told = |deployment: &Value| deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"] == "b,c";
    api.until(&place("apps/v1", "Deployment", "home", "widgets"), told).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    for namespace in ["b", "c"] {
        api.gone(&csv_at(namespace, "widgets.v1.0.0")).await;
    }
    api.close().await;
}

/// OLM0-OG-17, OLM0-OG-19..21, OLM0-API-25, OLM0-ADMIN-14, OLM0-ADMIN-15: copies everywhere, disabled, and enabled again.
#[tokio::test(flavor = "multi_thread")]
async fn all_namespaces() {
    let api = Api::start().await;
    api.namespace("a", json!({})).await;
    install(&api, "home", "AllNamespaces", json!({})).await;
    let copied = |copy: &Value| copy["status"]["reason"] == "Copied";
    for namespace in ["a", "openshift", "default"] {
        api.until(&csv_at(namespace, "widgets.v1.0.0"), copied).await;
    }
    api.namespace("late", json!({})).await;
    api.until(&csv_at("late", "widgets.v1.0.0"), copied).await;
    let role = role_name(&api, "home").await;
    let lifted = api.until(&place(RBAC, "ClusterRole", "", &role), |role| !role.is_null()).await;
    assert_eq!(lifted["rules"].as_array().unwrap().last().unwrap()["resources"], json!(["namespaces"]));
    let binding = api.until(&place(RBAC, "ClusterRoleBinding", "", &role), |binding| !binding.is_null()).await;
    assert_eq!(binding["roleRef"]["kind"], "ClusterRole");
    let config = place(CONFIG, "OLMConfig", "", "cluster");
    let says = |reason: &'static str, status: &'static str, message: &'static str| {
        move |config: &Value| {
            let condition = &config["status"]["conditions"][0];
            condition["reason"] == reason && condition["status"] == status && condition["message"] == message
        }
    };
    api.until(&config, says("CopiedCSVsEnabled", "False", "Copied CSVs are enabled and present across the cluster")).await;
    api.patch(&config, json!({"spec": {"features": {"disableCopiedCSVs": true}}})).await;
    for namespace in ["a", "late", "default"] {
        api.gone(&csv_at(namespace, "widgets.v1.0.0")).await;
    }
    let none = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode";
    api.until(&config, says("CopiedCSVsDisabled", "True", none)).await;
    assert!(api.get(&csv_at("openshift", "widgets.v1.0.0")).await.is_some());
    let events = || async {
        let kind = kube::api::GroupVersionKind::gvk("", "v1", "Event");
        let all = api.admin.list(&kind, 10_000).await.unwrap();
        all.into_iter().filter(|event| event["reason"] == "DisabledCopiedCSVs").collect::<Vec<_>>()
    };
    let mut found = events().await;
    for _ in 0..500 {
        if !found.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        found = events().await;
    }
    assert_eq!((found.len(), &found[0]["type"]), (1, &json!("Warning")));
    assert_eq!(
        (&found[0]["message"], &found[0]["involvedObject"]["name"]),
        (&json!("CSV copying disabled for home/widgets.v1.0.0"), &json!("widgets.v1.0.0"))
    );
    api.patch(&config, json!({"spec": {"features": {"disableCopiedCSVs": false}}})).await;
    api.until(&csv_at("late", "widgets.v1.0.0"), copied).await;
    for _ in 0..500 {
        found = events().await;
        if found.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(found.is_empty(), "{found:?}");
    api.close().await;
}
