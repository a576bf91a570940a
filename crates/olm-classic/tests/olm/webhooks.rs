//! Webhooks and their certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
