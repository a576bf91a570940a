//! Removal with custom resources.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, place};

/// OLM0-CSV-22: with `cleanup`, custom resources go first, and those that stay are listed.
#[tokio::test(flavor = "multi_thread")]
async fn cleanup() {
    let api = Api::start().await;
    for name in ["home", "other"] {
        api.namespace(name, json!({})).await;
    }
    api.apply(crd("widgets")).await;
    api.established("widgets.example.com").await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let mut object = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    object["spec"]["cleanup"] = json!({"enabled": true});
    let object = api.apply(object).await;
    api.permissions(&object).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let widget = |namespace: &str, name: &str, finalizers: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": namespace, "finalizers": finalizers}});
    api.apply(widget("home", "plain", json!([]))).await;
    api.apply(widget("home", "held", json!(["example.com/hold"]))).await;
    api.apply(widget("other", "kept", json!([]))).await;
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    let waiting = |csv: &Value| {
        let pending = &csv["status"]["cleanup"]["pendingDeletion"];
        csv["status"]["reason"] == "WaitingOnCleanup"
            && pending == &json!([{"group": "example.com", "kind": "Widget", "instances": [{"namespace": "home", "name": "held"}]}])
    };
    api.until(&csv_at("home", "widgets.v1.0.0"), waiting).await;
    api.patch(&place("example.com/v1", "Widget", "home", "held"), json!({"metadata": {"finalizers": []}})).await;
    api.gone(&csv_at("home", "widgets.v1.0.0")).await;
    assert!(api.get(&place("example.com/v1", "Widget", "other", "kept")).await.is_some());
    api.close().await;
}
