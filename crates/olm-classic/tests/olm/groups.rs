//! OperatorGroups: targets, roles, provided APIs, accounts.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, labels, place};

const V1: &str = "operators.coreos.com/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// OLM0-OG-06, OLM0-OG-08: the status follows a selector, and the label of a group its targets.
#[tokio::test(flavor = "multi_thread")]
async fn targets_follow_labels() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.namespace("a", json!({"env": "prod"})).await;
    let group = api.group("home", "g", json!({"selector": {"matchLabels": {"env": "prod"}}})).await;
    let at = place(V1, "OperatorGroup", "home", "g");
    let targets = |names: &'static [&'static str]| move |group: &Value| group["status"]["namespaces"] == json!(names);
    api.until(&at, targets(&["a"])).await;
    let label = format!("olm.operatorgroup.uid/{}", group["metadata"]["uid"].as_str().unwrap());
    let labelled = |wanted: bool| {
        let label = label.clone();
        move |namespace: &Value| labels(namespace).contains_key(&label) == wanted
    };
    api.until(&place("v1", "Namespace", "", "a"), labelled(true)).await;
    api.namespace("b", json!({"env": "prod"})).await;
    api.until(&at, targets(&["a", "b"])).await;
    api.until(&place("v1", "Namespace", "", "b"), labelled(true)).await;
    api.patch(&place("v1", "Namespace", "", "a"), json!({"metadata": {"labels": {"env": null}}})).await;
    api.until(&at, targets(&["b"])).await;
    api.until(&place("v1", "Namespace", "", "a"), labelled(false)).await;
    api.delete(&at).await;
    api.until(&place("v1", "Namespace", "", "b"), labelled(false)).await;
    api.close().await;
}

/// OLM0-OG-10, OLM0-OG-12..14, OLM0-OG-24: roles of a group and of its APIs, found through aggregation, and the annotation.
#[tokio::test(flavor = "multi_thread")]
async fn roles_and_apis() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    let at = place(V1, "OperatorGroup", "home", "g");
    api.until(&at, |group| group["metadata"]["annotations"]["olm.providedAPIs"] == "Widget.v1.example.com").await;
    let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    assert!(labels(&done).iter().any(|(key, value)| key.starts_with("olm.api.") && value == "provided"));
    let role = |name: &str| place(RBAC, "ClusterRole", "", name);
    let edit = api.until(&role("widgets.example.com-v1-edit"), |found| !found.is_null()).await;
    assert_eq!(edit["rules"][0]["verbs"], json!(["create", "update", "patch", "delete"]));
    assert_eq!(edit["metadata"]["ownerReferences"][0]["kind"], "CustomResourceDefinition");
    assert_eq!(labels(&edit)["olm.opgroup.permissions/aggregate-to-edit"], "g");
    let view = api.until(&role("widgets.example.com-v1-crdview"), |found| !found.is_null()).await;
    assert_eq!(view["rules"][0]["resourceNames"], json!(["widgets.example.com"]));
    // The group's role has the rules of the APIs.
    let group = mainstay_olm_classic_core::csv::Group { name: "g".to_owned(), namespace: "home".to_owned(), ..Default::default() };
    let name = mainstay_olm_classic_core::operator_group::cluster_role_name(&group, "admin");
    let aggregated =
        |found: &Value| found["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["resources"] == json!(["widgets"])));
    api.until(&role(&name), aggregated).await;
    // Without the CSV, the API leaves the annotation; without the group, its roles go.
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.until(&at, |group| group["metadata"]["annotations"]["olm.providedAPIs"] == "").await;
    api.delete(&at).await;
    api.gone(&role(&name)).await;
    api.close().await;
}

/// OLM0-OG-11, OLM0-OG-23: intersecting groups with one API, and a static annotation.
#[tokio::test(flavor = "multi_thread")]
async fn intersections() {
    let api = Api::start().await;
    for name in ["home", "rival"] {
        api.namespace(name, json!({})).await;
    }
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["AllNamespaces"])).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.group("rival", "h", json!({"targetNamespaces": ["rival"]})).await;
    let mut object = csv("rival", "widgets", "1.0.0", &["OwnNamespace"]);
    object["metadata"]["name"] = json!("rivals.v1.0.0");
    let object = api.apply(object).await;
    api.permissions(&object).await;
    api.phase("rival", "rivals.v1.0.0", "Failed", "InterOperatorGroupOwnerConflict").await;
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.phase("rival", "rivals.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.patch(&place(V1, "OperatorGroup", "home", "g"), json!({"spec": {"staticProvidedAPIs": true}})).await;
    api.apply(crd("gadgets")).await;
    let object = api.apply(csv("home", "gadgets", "1.0.0", &["AllNamespaces"])).await;
    api.permissions(&object).await;
    api.phase("home", "gadgets.v1.0.0", "Failed", "CannotModifyStaticOperatorGroupProvidedAPIs").await;
    let provided = json!({"metadata": {"annotations": {"olm.providedAPIs": "Gadget.v1.example.com"}}});
    api.patch(&place(V1, "OperatorGroup", "home", "g"), provided).await;
    api.phase("home", "gadgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}

/// OLM0-OG-25, OLM0-CSV-05: a group's account must be there, and installs with its own permissions alone.
#[tokio::test(flavor = "multi_thread")]
async fn accounts() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"], "serviceAccountName": "robot"})).await;
    let at = place(V1, "OperatorGroup", "home", "g");
    let missing = api.until(&at, |group| group["status"]["conditions"][0]["reason"] == "ServiceAccountNotFound").await;
    assert_eq!(missing["status"]["conditions"][0]["message"], "ServiceAccount robot not found");
    api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "home"}})).await;
    let found = api.until(&at, |group| group["status"]["serviceAccountRef"]["name"] == "robot").await;
    assert!(found["status"].get("conditions").is_none());
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    let failed = api.phase("home", "widgets.v1.0.0", "Failed", "InstallComponentFailedNoRetry").await;
    let message = failed["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("install strategy failed: install strategy failed: deployments.apps"), "{message}");
    api.apply(json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "robot", "namespace": "home"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "home"}]}))
        .await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}
