//! Webhooks and their certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_runtime::{Env, ManualClock};
use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, labels, place};

const WEBHOOKS: &str = "admissionregistration.k8s.io/v1";

async fn only(api: &Api, kind: &str) -> Option<Value> {
    let gvk = kube::api::GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let mut all = api.admin.list(&gvk, 100).await.unwrap();
    all.retain(|each| each["metadata"]["labels"]["olm.owner"] == "widgets.v1.0.0");
    assert!(all.len() <= 1, "{all:?}");
    all.pop()
}

/// OLM0-WEBHOOK-01, OLM0-WEBHOOK-02, OLM0-WEBHOOK-04, OLM0-WEBHOOK-05, OLM0-WEBHOOK-07, OLM0-CSV-21: webhooks with certificates, made new
/// when these are gone, and removed with the CSV.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({})).await;
    let webhook = |kind: &str, name: &str, more: Value| {
        let mut entry = json!({"type": kind, "generateName": name, "deploymentName": "widgets", "containerPort": 443, "targetPort": 9443,
            "admissionReviewVersions": ["v1"], "sideEffects": "None"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]);
    let mut object = csv("home", "widgets", "1.0.0", &["AllNamespaces"]);
    object["spec"]["webhookdefinitions"] = json!([
        webhook(
            "ValidatingAdmissionWebhook",
            "check.example.com",
            json!({"rules": rules, "failurePolicy": "Ignore", "webhookPath": "/check"})
        ),
        webhook("ConversionWebhook", "convert.example.com", json!({"conversionCRDs": ["widgets.example.com"], "webhookPath": "/convert"})),
    ]);
    let object = api.apply(object).await;
    api.permissions(&object).await;
    let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    assert!(done["status"]["certsRotateAt"].is_string() && done["status"]["certsLastUpdated"].is_string());
    let secret = place("v1", "Secret", "home", "widgets-service-cert");
    let first = api.get(&secret).await.unwrap();
    let authority = first["data"]["olmCAKey"].clone();
    let found = only(&api, "ValidatingWebhookConfiguration").await.unwrap();
    assert!(found["metadata"]["name"].as_str().unwrap().starts_with("check.example.com-"));
    assert_eq!(labels(&found)["olm.webhook-description-generate-name"], "check.example.com");
    assert_eq!(found["webhooks"][0]["clientConfig"]["caBundle"], authority);
    assert!(found["webhooks"][0].get("namespaceSelector").is_none_or(|selector| selector == &json!({})), "{found}");
    let converted = api.get(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")).await.unwrap();
    let conversion = &converted["spec"]["conversion"];
    assert_eq!((&conversion["strategy"], &conversion["webhook"]["clientConfig"]["caBundle"]), (&json!("Webhook"), &authority));
    let service = api.get(&place("v1", "Service", "home", "widgets-service")).await.unwrap();
    assert_eq!((&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]), (&json!(443), &json!(9443)));
    let deployment = api.get(&place("apps/v1", "Deployment", "home", "widgets")).await.unwrap();
    let mounts = &deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(mounts[1], json!({"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}));
    let pem = STANDARD.decode(first["data"]["tls.crt"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(pem).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    // A Secret that is gone is made new, and everything trusts the new authority.
    api.delete(&secret).await;
    let renewed = api.until(&secret, |found| !found.is_null() && found["data"]["olmCAKey"] != authority).await;
    let name = found["metadata"]["name"].as_str().unwrap();
    let trusts = |found: &Value| found["webhooks"][0]["clientConfig"]["caBundle"] == renewed["data"]["olmCAKey"];
    api.until(&place(WEBHOOKS, "ValidatingWebhookConfiguration", "", name), trusts).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    assert_eq!(only(&api, "ValidatingWebhookConfiguration").await, None);
    let reset = |crd: &Value| crd["spec"]["conversion"]["strategy"] == "None";
    api.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com"), reset).await;
    api.gone(&secret).await;
    api.close().await;
}

/// OLM0-WEBHOOK-05, OLM0-CSV-05: a certificate that ends within a day is made new, and the pods learn of it.
#[tokio::test(flavor = "multi_thread")]
async fn rotation() {
    let mut api = Api::bare().await;
    let clock = ManualClock::new(jiff::Timestamp::now());
    api.run_with(Env::new(clock.clone(), 1));
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["spec"]["webhookdefinitions"] = json!([{"type": "MutatingAdmissionWebhook", "generateName": "change.example.com",
        "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
    let object = api.apply(object).await;
    api.permissions(&object).await;
    let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let webhook = only(&api, "MutatingWebhookConfiguration").await.unwrap();
    let label = format!(
        "olm.operatorgroup.uid/{}",
        api.get(&place("operators.coreos.com/v1", "OperatorGroup", "home", "g")).await.unwrap()["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(webhook["webhooks"][0]["namespaceSelector"]["matchLabels"][&label], "");
    let secret = place("v1", "Secret", "home", "widgets-service-cert");
    let first = api.get(&secret).await.unwrap();
    clock.advance(std::time::Duration::from_secs((730 * 24 - 20) * 3600));
    api.patch(&csv_at("home", "widgets.v1.0.0"), json!({"metadata": {"labels": {"look": "again"}}})).await;
    let second = api.until(&secret, |found| found["data"]["tls.crt"] != first["data"]["tls.crt"]).await;
    let trusts = |deployment: &Value| {
        deployment["spec"]["template"]["metadata"]["annotations"]["olmcahash"] == second["metadata"]["annotations"]["olmcahash"]
    };
    api.until(&place("apps/v1", "Deployment", "home", "widgets"), trusts).await;
    let again = |csv: &Value| csv["status"]["phase"] == "Succeeded" && csv["status"]["certsRotateAt"] != done["status"]["certsRotateAt"];
    let rotated = api.until(&csv_at("home", "widgets.v1.0.0"), again).await;
    assert!(crate::support::history(&rotated).iter().any(|(phase, reason)| phase == "Pending" && reason == "NeedsCertRotation"));
    api.close().await;
}

/// OLM0-WEBHOOK-06: an owned API gets its APIService and what stands behind it, and waits until it is available.
#[tokio::test(flavor = "multi_thread")]
async fn api_services() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["spec"]["apiservicedefinitions"] = json!({"owned": [{"name": "things", "group": "api.example.com", "version": "v1",
        "kind": "Thing", "deploymentName": "widgets", "containerPort": 5443, "displayName": "Thing", "description": ""}]});
    let object = api.apply(object).await;
    api.permissions(&object).await;
    let waiting = |csv: &Value| csv["status"]["phase"] == "Installing" && csv["status"]["message"] == "apiServices not installed";
    api.until(&csv_at("home", "widgets.v1.0.0"), waiting).await;
    let at = place("apiregistration.k8s.io/v1", "APIService", "", "v1.api.example.com");
    let found = api.get(&at).await.unwrap();
    let secret = api.get(&place("v1", "Secret", "home", "widgets-service-cert")).await.unwrap();
    let spec = &found["spec"];
    assert_eq!(
        (&spec["groupPriorityMinimum"], &spec["versionPriority"], &spec["caBundle"]),
        (&json!(2000), &json!(15), &secret["data"]["olmCAKey"])
    );
    assert_eq!(spec["service"], json!({"name": "widgets-service", "namespace": "home", "port": 5443}));
    let rbac = "rbac.authorization.k8s.io/v1";
    assert!(api.get(&place(rbac, "ClusterRoleBinding", "", "widgets-service-system:auth-delegator")).await.is_some());
    assert!(api.get(&place(rbac, "RoleBinding", "kube-system", "widgets-service-auth-reader")).await.is_some());
    let group = api.get(&place("operators.coreos.com/v1", "OperatorGroup", "home", "g")).await.unwrap();
    assert_eq!(group["metadata"]["annotations"]["olm.providedAPIs"], "Thing.v1.api.example.com,Widget.v1.example.com");
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    api.gone(&at).await;
    api.gone(&place(rbac, "ClusterRoleBinding", "", "widgets-service-system:auth-delegator")).await;
    api.close().await;
}

/// OLM0-WEBHOOK-05, OLM0-CSV-23: a successor takes the certificate over, and keeps it when its predecessor goes; without it, another one is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_goes_to_the_successor() {
    let api = Api::start().await;
    api.namespace("home", json!({})).await;
    api.apply(crd("widgets")).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let with_webhook = |version: &str| {
        let mut object = csv("home", "widgets", version, &["OwnNamespace"]);
        object["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "check.example.com",
            "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
        object
    };
    let first = api.apply(with_webhook("1.0.0")).await;
    api.permissions(&first).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let secret = place("v1", "Secret", "home", "widgets-service-cert");
    let made = api.get(&secret).await.unwrap();
    let mut second = with_webhook("2.0.0");
    second["spec"]["replaces"] = json!("widgets.v1.0.0");
    let second = api.apply(second).await;
    api.permissions(&second).await;
    let owner = |csv: &Value| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": csv["metadata"]["name"], "uid": csv["metadata"]["uid"]})
    };
    let owners = json!({"metadata": {"ownerReferences": [owner(&first), owner(&second)]}});
    api.patch(&place("v1", "ServiceAccount", "home", "widgets"), owners).await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    api.phase("home", "widgets.v2.0.0", "Succeeded", "InstallSucceeded").await;
    let kept = api.get(&secret).await.unwrap();
    assert_eq!((&kept["metadata"]["uid"], &kept["data"]), (&made["metadata"]["uid"], &made["data"]), "nothing was made again");
    let named: Vec<&Value> = kept["metadata"]["ownerReferences"].as_array().unwrap().iter().map(|owner| &owner["name"]).collect();
    assert!(named.contains(&&json!("widgets.v2.0.0")), "{named:?}");
    // One without an owner is missed as well.
    api.patch(&secret, json!({"metadata": {"ownerReferences": null}})).await;
    api.delete(&secret).await;
    api.until(&secret, |found| !found.is_null() && found["data"]["olmCAKey"] != made["data"]["olmCAKey"]).await;
    api.phase("home", "widgets.v2.0.0", "Succeeded", "InstallSucceeded").await;
    api.close().await;
}
