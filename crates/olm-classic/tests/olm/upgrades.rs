//! Replacement of CSVs, and what holds it up.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, place};

/// OLM0-CSV-23, OLM0-COND-01..07: a successor waits for the condition, is installed, and its predecessor goes.
#[tokio::test(flavor = "multi_thread")]
async fn replaced() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let first = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&first).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let at = place("operators.coreos.com/v2", "OperatorCondition", "home", "widgets.v1.0.0");
    let condition = api.until(&at, |condition| !condition.is_null()).await;
    assert_eq!(condition["spec"], json!({"deployments": ["widgets"], "serviceAccounts": ["widgets"]}));
    let role = api.until(&place("rbac.authorization.k8s.io/v1", "Role", "home", "widgets.v1.0.0"), |role| !role.is_null()).await;
    assert_eq!(role["rules"][0]["resourceNames"], json!(["widgets.v1.0.0"]));
    api.until(&place("rbac.authorization.k8s.io/v1", "RoleBinding", "home", "widgets.v1.0.0"), |binding| !binding.is_null()).await;
    let told = json!({"type": "Upgradeable", "status": "False", "reason": "Migration", "message": "migrating",
        "lastTransitionTime": "2024-01-01T00:00:00Z"});
    api.patch(&at, json!({"spec": {"conditions": [told]}})).await;
    let known = |condition: &Value| condition["status"]["conditions"][0]["observedGeneration"] == condition["metadata"]["generation"];
    api.until(&at, known).await;
    let mut second = csv("home", "widgets", "2.0.0", &["OwnNamespace"]);
    second["spec"]["replaces"] = json!("widgets.v1.0.0");
    let second = api.apply(second).await;
    let blocked = api.phase("home", "widgets.v2.0.0", "Pending", "OperatorConditionNotUpgradeable").await;
    assert_eq!(blocked["status"]["message"], "operator is not upgradeable: the operator is not upgradeable: migrating");
    let override_it = json!({"type": "Upgradeable", "status": "True", "reason": "Safe", "message": "known"});
    api.patch(&at, json!({"spec": {"overrides": [override_it]}})).await;
    api.phase("home", "widgets.v2.0.0", "Pending", "RequirementsNotMet").await;
    let account = place("v1", "ServiceAccount", "home", "widgets");
    let owner = |csv: &Value| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": csv["metadata"]["name"], "uid": csv["metadata"]["uid"]})
    };
    // An install plan adds the new owner to the account that both use.
    api.permissions(&second).await;
    api.patch(&account, json!({"metadata": {"ownerReferences": [owner(&first), owner(&second)]}})).await;
    api.phase("home", "widgets.v2.0.0", "Succeeded", "InstallSucceeded").await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    let deployment = api.get(&place("apps/v1", "Deployment", "home", "widgets")).await.unwrap();
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "widgets.v2.0.0");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:2.0.0");
    assert!(api.env.metrics().page().unwrap().contains("csv_upgrade_count 1\n"));
    api.phase("home", "widgets.v2.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}

/// OLM0-UPG-16: a CSV that failed is replaced where its group allows that, and only there.
#[tokio::test(flavor = "multi_thread")]
async fn failed_ones_are_replaced() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut first = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    first["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "check.example.com",
        "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
    let first = api.apply(first).await;
    api.permissions(&first).await;
    api.phase("home", "widgets.v1.0.0", "Failed", "InvalidWebhookDescription").await;
    let mut second = csv("home", "widgets", "2.0.0", &["OwnNamespace"]);
    second["spec"]["replaces"] = json!("widgets.v1.0.0");
    let second = api.apply(second).await;
    api.permissions(&second).await;
    let owner = |csv: &Value| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": csv["metadata"]["name"], "uid": csv["metadata"]["uid"]})
    };
    let owners = json!({"metadata": {"ownerReferences": [owner(&first), owner(&second)]}});
    api.patch(&place("v1", "ServiceAccount", "home", "widgets"), owners).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let held = api.get(&csv_at("home", "widgets.v2.0.0")).await.unwrap();
    assert_eq!(held["status"]["phase"], "Pending");
    let group = place("operators.coreos.com/v1", "OperatorGroup", "home", "g");
    api.patch(&group, json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}})).await;
    api.phase("home", "widgets.v2.0.0", "Succeeded", "InstallSucceeded").await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    api.close().await;
}

/// OLM0-CSV-14, OLM0-ADMIN-05, OLM0-ADMIN-06, OLM0-ADMIN-16, OLM0-ADMIN-17: configuration of a Subscription and the cluster's proxy.
#[tokio::test(flavor = "multi_thread")]
async fn configuration() {
    let mut api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let object = api.apply(csv("home", "widgets", "1.0.0", &["OwnNamespace"])).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let spec = json!({"name": "widgets", "channel": "stable", "source": "s", "sourceNamespace": "home",
        "config": {"nodeSelector": {"kubernetes.io/os": "linux"}, "env": [{"name": "LEVEL", "value": "debug"}]}});
    api.apply(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "widgets", "namespace": "home"}, "spec": spec}))
        .await;
    let at = place("operators.coreos.com/v1alpha1", "Subscription", "home", "widgets");
    api.write_status(&at, |_| json!({"installedCSV": "widgets.v1.0.0", "lastUpdated": "2024-01-01T00:00:00Z"})).await;
    let deployment = place("apps/v1", "Deployment", "home", "widgets");
    let pod = |deployment: &Value| deployment["spec"]["template"]["spec"].clone();
    let env = |deployment: &Value, name: &str| {
        let all = pod(deployment)["containers"][0]["env"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|each| each["name"] == name).map(|each| each["value"].clone())
    };
    api.until(&deployment, |found| {
        pod(found)["nodeSelector"]["kubernetes.io/os"] == "linux" && env(found, "LEVEL") == Some(json!("debug"))
    })
    .await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    platform_kind(&api, "config.openshift.io", "Proxy", "proxies").await;
    api.apply(json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {}})).await;
    let proxy = place("config.openshift.io/v1", "Proxy", "", "cluster");
    api.write_status(&proxy, |_| json!({"httpProxy": "http://proxy:3128", "noProxy": ".svc"})).await;
    api.until(&deployment, |found| env(found, "HTTP_PROXY") == Some(json!("http://proxy:3128")) && env(found, "HTTPS_PROXY").is_none())
        .await;
    // A controller that starts again knows of the proxy before it judges a Deployment.
    let settled = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let before = api.get(&deployment).await.unwrap();
    api.restart().await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let after = api.get(&deployment).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    let same = api.get(&csv_at("home", "widgets.v1.0.0")).await.unwrap();
    assert_eq!(same["metadata"]["resourceVersion"], settled["metadata"]["resourceVersion"]);
    api.patch(&at, json!({"spec": {"config": {"env": [{"name": "NO_PROXY", "value": ""}]}}})).await;
    api.until(&deployment, |found| env(found, "HTTP_PROXY").is_none() && env(found, "NO_PROXY").is_some()).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}

/// The definition of a kind of the platform with one object.
async fn platform_kind(api: &Api, group: &str, kind: &str, plural: &str) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    api.apply(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]},
    }))
    .await;
}

/// OLM0-TOKEN-03, OLM0-TOKEN-20: in token mode, the pods of an operator that declares it get the token's volume.
#[tokio::test(flavor = "multi_thread")]
async fn tokens() {
    let api = Api::start().await;
    platform_kind(&api, "operator.openshift.io", "CloudCredential", "cloudcredentials").await;
    platform_kind(&api, "config.openshift.io", "Authentication", "authentications").await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["metadata"]["annotations"] = json!({"features.operators.openshift.io/token-auth-aws": "true"});
    let object = api.apply(object).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let deployment = place("apps/v1", "Deployment", "home", "widgets");
    let volumes = |deployment: &Value| deployment["spec"]["template"]["spec"]["volumes"].clone();
    assert_eq!(volumes(&api.get(&deployment).await.unwrap()), Value::Null);
    let mode = json!({"credentialsMode": "Manual"});
    api.apply(json!({"apiVersion": "operator.openshift.io/v1", "kind": "CloudCredential", "metadata": {"name": "cluster"}, "spec": mode}))
        .await;
    let issuer = json!({"serviceAccountIssuer": "https://issuer.example.com"});
    api.apply(json!({"apiVersion": "config.openshift.io/v1", "kind": "Authentication", "metadata": {"name": "cluster"}, "spec": issuer}))
        .await;
    api.until(&deployment, |found| volumes(found)[0]["name"] == "bound-sa-token").await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}
