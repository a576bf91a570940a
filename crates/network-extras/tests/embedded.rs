//! The loop against the real API, as its own account with exactly the permissions of its manifests.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_network_extras::fresh::{self, Families};
use mainstay_network_extras::trust::{KEY, LABEL};
use mainstay_network_extras::{ACCOUNT, Config, NAMESPACE, manifests};
use mainstay_objects::{Expect, ObjectRef, Patch};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn account(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

async fn apply(admin: &Writer, object: &Value) {
    admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}"));
}

async fn until(admin: &Writer, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..6_000 {
        last = admin.get(place).await.unwrap().unwrap_or_default();
        if holds(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{place} did not become as expected: {last:#}");
}

fn certificate(name: &str) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap().pem().replace("\r\n", "\n")
}

fn degraded(operator: &Value, reason: &str) -> bool {
    let all = operator["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().any(|each| each["type"] == "Degraded" && each["reason"] == reason)
}

/// COP-12, COP-NET-01, COP-NET-02, OLM0-ADMIN-19: ConfigMaps with the label follow the bundle, a flawed bundle or Proxy changes nothing and shows in the
/// ClusterOperator, and the Proxy's status follows its spec.
#[tokio::test(flavor = "multi_thread")]
async fn bundle_and_proxy() {
    let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let operators = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators", "singular": "clusteroperator"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    });
    let definitions: Vec<Value> =
        mainstay_api::platform_manifests().unwrap().into_iter().map(|manifest| manifest.definition).chain([operators]).collect();
    for definition in &definitions {
        apply(&admin, definition).await;
    }
    for definition in &definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let established = |crd: &Value| {
            let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|each| each["type"] == "Established" && each["status"] == "True")
        };
        until(&admin, &place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), established).await;
    }
    for object in manifests() {
        apply(&admin, &object).await;
    }
    let infrastructure =
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {}});
    let status = |_: &Value| json!({"apiServerInternalURI": "https://api-int:6443", "platformStatus": {"type": "None"}});
    admin.keep_status(&infrastructure, status).await.unwrap();
    let families = Families::Ipv4;
    admin.keep_status(&fresh::network(families), |live| fresh::network_status(live, families)).await.unwrap();
    admin.execute(&fresh::settings_once(families), |_| {}).await.unwrap();

    let (system, own) = (certificate("system"), certificate("own"));
    let file = folder.path().join("system.pem");
    std::fs::write(&file, &system).unwrap();
    let stop = CancellationToken::new();
    let (cluster, until_stop) = (Cluster::Embedded { router: server.router(), identity: account }, stop.clone());
    let config = Config { system_certificates: Some(file) };
    tokio::spawn(async move { mainstay_network_extras::run(cluster, Env::system(), config, until_stop).await.unwrap() });

    let asker = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trusted", "namespace": "default", "labels": {LABEL: "true", "a": "b"}},
        "data": {"other": "x"},
    });
    apply(&admin, &asker).await;
    let at = place("v1", "ConfigMap", "default", "trusted");
    let found = until(&admin, &at, |map| map["data"][KEY] == system.as_str()).await;
    assert_eq!((&found["data"]["other"], &found["metadata"]["labels"]["a"]), (&json!("x"), &json!("b")));

    let user = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "openshift-config"}, "data": {KEY: text}});
    let proxy = place("config.openshift.io/v1", "Proxy", "", "cluster");
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "network");
    let set = async |spec: Value| drop(admin.patch(&proxy, "", &Patch::Merge(json!({"spec": spec}))).await.unwrap());
    set(json!({"trustedCA": {"name": "ca"}})).await;
    until(&admin, &operator, |operator| degraded(operator, "InvalidProxyConfig")).await;
    apply(&admin, &user("nonsense")).await;
    let told = until(&admin, &operator, |operator| degraded(operator, "TrustBundleValidationFailure")).await;
    assert!(told.to_string().contains("openshift-config/ca: it has no certificate"), "{told:#}");
    assert_eq!(admin.get(&at).await.unwrap().unwrap()["data"][KEY], system.as_str(), "the old content stays");
    apply(&admin, &user(&own)).await;
    until(&admin, &at, |map| map["data"][KEY] == format!("{own}{system}")).await;
    until(&admin, &operator, |operator| degraded(operator, "AsExpected")).await;

    // Without the label, the key stays as it was.
    admin.patch(&at, "", &Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}, "data": {KEY: "mine"}}))).await.unwrap();
    set(json!({"httpProxy": "http://p:3128", "noProxy": "example.com"})).await;
    let found = until(&admin, &proxy, |proxy| proxy["status"]["httpProxy"] == "http://p:3128").await;
    let expected = ".cluster.local,.svc,10.0.0.0/16,10.128.0.0/14,10.96.0.0/16,127.0.0.1,api-int,example.com,localhost";
    assert_eq!(found["status"]["noProxy"], expected);
    set(json!({"httpProxy": "ftp://p"})).await;
    until(&admin, &operator, |operator| degraded(operator, "InvalidProxyConfig")).await;
    assert_eq!(admin.get(&proxy).await.unwrap().unwrap()["status"]["noProxy"], expected, "the status stays as it was");
    set(json!({"httpProxy": null, "noProxy": null, "trustedCA": null})).await;
    until(&admin, &proxy, |proxy| proxy["status"].get("httpProxy").is_none() && proxy["status"].get("noProxy").is_none()).await;
    assert_eq!(admin.get(&at).await.unwrap().unwrap()["data"][KEY], "mine");
    stop.cancel();
    server.end_watches();
    server.close().await;
}
