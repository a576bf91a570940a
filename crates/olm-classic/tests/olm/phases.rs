//! Reports of a CSV: events, requirements, metrics, and its OperatorCondition.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, place};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The events about a CSV: type, reason and message.
async fn events(api: &Api, namespace: &str, name: &str) -> Vec<(String, String, String)> {
    let kind = kube::api::GroupVersionKind::gvk("", "v1", "Event");
    let all = api.admin.list(&kind, 1000).await.unwrap();
    let about = |event: &&Value| {
        let object = &event["involvedObject"];
        object["kind"] == "ClusterServiceVersion" && object["namespace"] == namespace && object["name"] == name
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter().filter(about).map(|event| (text(&event["type"]), text(&event["reason"]), text(&event["message"]))).collect()
}

/// OLM0-CSV-03, OLM0-MET-02: each phase is an event with the reason and message of the status, a warning if it is `Failed`; the series of an abnormal phase
/// goes with the phase, and with the CSV; copies have none.
#[tokio::test(flavor = "multi_thread")]
async fn phases_are_told() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.namespace("away", json!({})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["SingleNamespace"])).await;
    let name = "widgets.v1.0.0";
    let page = || api.env.metrics().page().unwrap();
    let abnormal = |phase: &str, reason: &str| {
        format!("csv_abnormal{{namespace=\"home\",name=\"{name}\",version=\"1.0.0\",phase=\"{phase}\",reason=\"{reason}\"}} 1\n")
    };
    let shown = async |line: &str| {
        for _ in 0..500 {
            if page().contains(line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{line} is not in {}", page());
    };
    api.phase("home", name, "Failed", "NoOperatorGroup").await;
    shown(&abnormal("Failed", "NoOperatorGroup")).await;
    api.group("home", "g", json!({"targetNamespaces": ["away"]})).await;
    api.phase("home", name, "Pending", "RequirementsNotMet").await;
    shown(&abnormal("Pending", "RequirementsNotMet")).await;
    assert_eq!(page().matches("csv_abnormal{").count(), 1, "{}", page());
    api.apply(crd("widgets")).await;
    api.permissions(&object).await;
    let done = api.phase("home", name, "Succeeded", "InstallSucceeded").await;
    api.until(&csv_at("away", name), |copy| copy["status"]["phase"] == "Succeeded").await;
    shown("csv_succeeded{namespace=\"home\",name=\"widgets.v1.0.0\",version=\"1.0.0\"} 1\n").await;
    assert_eq!(page().matches("csv_abnormal{").count(), 0, "{}", page());
    assert_eq!(page().matches("csv_succeeded{").count(), 1, "{}", page());
    // Every entry of the history is an event.
    let wanted: Vec<(String, String, String)> = done["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| {
            let kind = if each["phase"] == "Failed" { "Warning" } else { "Normal" };
            (kind.to_owned(), each["reason"].as_str().unwrap().to_owned(), each["message"].as_str().unwrap().to_owned())
        })
        .collect();
    assert!(wanted.len() >= 5, "{wanted:?}");
    let mut missing = wanted.clone();
    for _ in 0..500 {
        let told = events(&api, "home", name).await;
        missing = wanted.iter().filter(|one| !told.contains(one)).cloned().collect();
        if missing.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(missing.is_empty(), "{missing:?} of {:?}", events(&api, "home", name).await);
    assert!(events(&api, "away", name).await.is_empty(), "copies tell nothing");
    // An abnormal CSV that is deleted leaves no series.
    let group = place("operators.coreos.com/v1", "OperatorGroup", "home", "g");
    api.delete(&group).await;
    api.phase("home", name, "Failed", "NoOperatorGroup").await;
    shown(&abnormal("Failed", "NoOperatorGroup")).await;
    api.delete(&csv_at("home", name)).await;
    api.gone(&csv_at("home", name)).await;
    shown("csv_count 0\n").await;
    assert!(!page().contains("csv_abnormal{") && !page().contains("csv_succeeded{"), "{}", page());
    api.close().await;
}

/// OLM0-CSV-08: every requirement with its status, and the rules that an account lacks among the dependents.
#[tokio::test(flavor = "multi_thread")]
async fn requirements_are_told() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["spec"]["minKubeVersion"] = json!("1.20.0");
    object["spec"]["nativeAPIs"] =
        json!([{"group": "", "version": "v1", "kind": "Pod"}, {"group": "no.example.com", "version": "v1", "kind": "Nothing"}]);
    object["spec"]["customresourcedefinitions"]["required"] = json!([{"name": "gadgets.example.com", "kind": "Gadget", "version": "v2"}]);
    object["spec"]["apiservicedefinitions"] = json!({
        "owned": [{"name": "lamps", "group": "lamps.example.com", "version": "v1", "kind": "Lamp", "deploymentName": "widgets"},
            {"name": "bulbs", "group": "bulbs.example.com", "version": "v1", "kind": "Bulb", "deploymentName": "absent"}],
        "required": [{"name": "cups", "group": "cups.example.com", "version": "v1", "kind": "Cup"}]});
    let object = api.apply(object).await;
    let status = |csv: &Value, kind: &str, name: &str| {
        let all = csv["status"]["requirementStatus"].as_array().cloned().unwrap_or_default();
        all.iter().find(|each| each["kind"] == kind && each["name"] == name).map(|each| each["status"].clone()).unwrap_or_default()
    };
    let waiting = api.phase("home", "widgets.v1.0.0", "Pending", "RequirementsNotMet").await;
    for (kind, name, wanted) in [
        ("ClusterServiceVersion", "widgets.v1.0.0", "Present"),
        ("CustomResourceDefinition", "widgets.example.com", "NotPresent"),
        ("CustomResourceDefinition", "gadgets.example.com", "NotPresent"),
        ("APIService", "v1.lamps.example.com", "DeploymentFound"),
        ("APIService", "v1.bulbs.example.com", "DeploymentNotFound"),
        ("APIService", "v1.cups.example.com", "NotPresent"),
        ("ServiceAccount", "widgets", "NotPresent"),
    ] {
        assert_eq!(status(&waiting, kind, name), wanted, "{kind} {name}: {:#}", waiting["status"]["requirementStatus"]);
    }
    let text = waiting["status"]["requirementStatus"].to_string();
    assert!(text.contains("Native API does not exist") && text.contains("Native API exists"), "{text}");
    // A CRD that does not serve the version; an account without its permissions.
    api.apply(crd("widgets")).await;
    api.apply(crd("gadgets")).await;
    api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "widgets", "namespace": "home"}})).await;
    // A CRD is there a moment before it is served, and the account may be seen in between.
    let known = |csv: &Value| {
        status(csv, "ServiceAccount", "widgets") == "PresentNotSatisfied"
            && status(csv, "CustomResourceDefinition", "widgets.example.com") == "Present"
    };
    let waiting = api.until(&csv_at("home", "widgets.v1.0.0"), known).await;
    assert_eq!(status(&waiting, "CustomResourceDefinition", "widgets.example.com"), "Present");
    assert_eq!(status(&waiting, "CustomResourceDefinition", "gadgets.example.com"), "NotPresent");
    let account =
        waiting["status"]["requirementStatus"].as_array().unwrap().iter().find(|each| each["kind"] == "ServiceAccount").cloned().unwrap();
    assert_eq!(account["dependents"][0]["status"], "NotSatisfied");
    assert!(account["dependents"][0]["message"].as_str().unwrap().starts_with("namespaced rule:{\"verbs\":"), "{account:#}");
    api.permissions(&object).await;
    let satisfied = api.until(&csv_at("home", "widgets.v1.0.0"), |csv| status(csv, "ServiceAccount", "widgets") == "Present").await;
    let account =
        satisfied["status"]["requirementStatus"].as_array().unwrap().iter().find(|each| each["kind"] == "ServiceAccount").cloned().unwrap();
    assert_eq!(account["dependents"][0]["status"], "Satisfied");
    assert_eq!(satisfied["status"]["phase"], "Pending");
    api.close().await;
}

/// OLM0-COND-02, OLM0-COND-03: every account of a CSV may write its condition, and no other; what users and operators write there stays theirs.
#[tokio::test(flavor = "multi_thread")]
async fn conditions() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]);
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["spec"]["install"]["spec"]["clusterPermissions"] = json!([{"serviceAccountName": "second", "rules": rules}]);
    let object = api.apply(object).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let at = place("operators.coreos.com/v2", "OperatorCondition", "home", "widgets.v1.0.0");
    let condition = api.get(&at).await.unwrap();
    assert!(condition["spec"].get("conditions").is_none() && condition["spec"].get("overrides").is_none(), "{condition:#}");
    let binding = api.until(&place(RBAC, "RoleBinding", "home", "widgets.v1.0.0"), |found| !found.is_null()).await;
    let mut named: Vec<&str> = binding["subjects"].as_array().unwrap().iter().map(|subject| subject["name"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["second", "widgets"]);
    let path = "/apis/operators.coreos.com/v2/namespaces/home/operatorconditions";
    let own = format!("{path}/widgets.v1.0.0");
    let told =
        json!({"type": "Upgradeable", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    for account in ["widgets", "second"] {
        let user = format!("system:serviceaccount:home:{account}");
        assert_eq!(api.send(&user, "GET", &own, None).await.0, 200);
        assert_eq!(api.send(&user, "PATCH", &own, Some(json!({"spec": {"conditions": [told]}}))).await.0, 200);
        assert_eq!(api.send(&user, "PATCH", &format!("{own}/status"), Some(json!({"status": {"conditions": []}}))).await.0, 200);
        assert_eq!(api.send(&user, "DELETE", &own, None).await.0, 403);
        assert_eq!(api.send(&user, "GET", path, None).await.0, 403);
    }
    assert_eq!(api.send("system:serviceaccount:home:default", "GET", &own, None).await.0, 403);
    let known = |condition: &Value| condition["status"]["conditions"][0]["observedGeneration"] == condition["metadata"]["generation"];
    let after = api.until(&at, known).await;
    assert_eq!(after["spec"]["conditions"], json!([told]));
    assert!(after["spec"].get("overrides").is_none());
    // An account more in the CSV is an account more in the binding; what was told stays.
    let third = json!([{"serviceAccountName": "second", "rules": rules}, {"serviceAccountName": "third", "rules": rules}]);
    api.patch(&csv_at("home", "widgets.v1.0.0"), json!({"spec": {"install": {"spec": {"clusterPermissions": third}}}})).await;
    let three = |binding: &Value| binding["subjects"].as_array().is_some_and(|all| all.len() == 3);
    api.until(&place(RBAC, "RoleBinding", "home", "widgets.v1.0.0"), three).await;
    assert_eq!(api.get(&at).await.unwrap()["spec"]["conditions"], json!([told]));
    api.close().await;
}
