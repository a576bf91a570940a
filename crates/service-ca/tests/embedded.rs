//! The service CA against the real API, as its own account with exactly the permissions of its manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env, ManualClock};
use mainstay_service_ca::certificates::Certificate;
use mainstay_service_ca::{ACCOUNT, NAMESPACE, manifests};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn service_ca(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

struct Api {
    admin: Writer,
    server: Server,
    clock: ManualClock,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Api {
    async fn start() -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let clock = ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        Self { admin, server, clock, stop: CancellationToken::new(), _folder: folder }
    }

    /// Starts the loop; what it needs is there first.
    async fn run(&mut self) {
        for object in manifests() {
            self.apply(&object).await;
        }
        self.stop = CancellationToken::new();
        let cluster = Cluster::Embedded { router: self.server.router(), identity: service_ca };
        let (env, stop) = (Env::new(self.clock.clone(), 1), self.stop.clone());
        tokio::spawn(async move { mainstay_service_ca::run(cluster, env, stop).await.unwrap() });
    }

    async fn apply(&self, object: &Value) -> Value {
        self.admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    async fn annotate(&self, place: &ObjectRef, annotations: Value) {
        self.admin.patch(place, "", &Patch::Merge(json!({"metadata": {"annotations": annotations}}))).await.unwrap();
    }

    async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..12_000 {
            last = self.admin.get(place).await.unwrap().unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    async fn crd(&self, group: &str, kind: &str, plural: &str) {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
            },
        });
        self.apply(&crd).await;
        let served = |crd: &Value| {
            crd["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(|each| each["type"] == "Established" && each["status"] == "True"))
        };
        self.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &format!("{plural}.{group}")), served).await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.server.end_watches();
        self.server.close().await;
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn service(name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "annotations": {"service.beta.openshift.io/serving-cert-secret-name": secret}},
        "spec": {"ports": [{"port": 443}]},
    })
}

fn certificates(secret: &Value) -> Vec<Certificate> {
    let text = secret["data"]["tls.crt"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    Certificate::read_all(&text).unwrap_or_default()
}

fn issuer(secret: &Value) -> String {
    certificates(secret).get(1).map(|ca| ca.common_name.clone()).unwrap_or_default()
}

/// COP-34, COP-SCA-01, COP-SCA-03: a Service gets its Secret, also after the Secret was deleted or spoilt; every kind that asks for the bundle
/// gets it, with the loop's own permissions only.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_bundles_are_kept() {
    let mut api = Api::start().await;
    let asks = json!({"service.beta.openshift.io/inject-cabundle": "true"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trust", "namespace": "default", "annotations": asks},
        "data": {"foreign": "goes"}});
    let client_config = json!({"service": {"namespace": "default", "name": "hook"}});
    let webhooks = ["a", "b"].map(|name| {
        json!({"name": format!("{name}.example.com"), "clientConfig": client_config, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": []})
    });
    let hook = |kind: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hooks", "annotations": asks},
            "webhooks": webhooks})
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "annotations": asks},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]}},
        },
    });
    let service_of_api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.far.example.com", "annotations": asks},
        "spec": {"group": "far.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": {"namespace": "default", "name": "hook"}}});
    let takers = [
        (map, "/data/service-ca.crt"),
        (hook("ValidatingWebhookConfiguration"), "/webhooks/1/clientConfig/caBundle"),
        (hook("MutatingWebhookConfiguration"), "/webhooks/1/clientConfig/caBundle"),
        (crd, "/spec/conversion/webhook/clientConfig/caBundle"),
        (service_of_api, "/spec/caBundle"),
    ];
    // Some are there before the loop, some come later.
    for (taker, _) in &takers[..2] {
        api.apply(taker).await;
    }
    api.run().await;
    for (taker, _) in &takers[2..] {
        api.apply(taker).await;
    }
    let shown = api.until(&place("v1", "ConfigMap", NAMESPACE, "signing-cabundle"), |map| map["data"].is_object()).await;
    let bundle = shown["data"]["ca-bundle.crt"].as_str().unwrap();
    for (taker, pointer) in &takers {
        let wanted = if taker["kind"] == "ConfigMap" { bundle.to_owned() } else { STANDARD.encode(bundle) };
        let taken = api.until(&ObjectRef::of(taker).unwrap(), |live| live.pointer(pointer) == Some(&json!(wanted))).await;
        assert!(taken["data"].get("foreign").is_none());
    }

    let made = api.apply(&service("hook", "hook-cert")).await;
    let secret = place("v1", "Secret", "default", "hook-cert");
    let first = api.until(&secret, |secret| !certificates(secret).is_empty()).await;
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    assert_eq!(Certificate::read_all(bundle.as_bytes()).unwrap(), certificates(&first)[1..], "the CA follows");
    let signed_by = format!("openshift-service-serving-signer@{}", "2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap().as_second());
    let said = |service: &Value| service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-signed-by"] == signed_by;
    api.until(&place("v1", "Service", "default", "hook"), said).await;

    api.admin.patch(&secret, "", &Patch::Merge(json!({"data": {"tls.key": STANDARD.encode("spoilt"), "extra": "eA=="}}))).await.unwrap();
    let keys = |secret: &Value| secret["data"].as_object().map(|data| data.keys().cloned().collect::<Vec<_>>());
    let whole = |secret: &Value| {
        keys(secret) == Some(vec!["tls.crt".to_owned(), "tls.key".to_owned()]) && secret["data"]["tls.key"] != STANDARD.encode("spoilt")
    };
    api.until(&secret, whole).await;
    api.admin.delete(&secret, &Expect::default(), Propagation::Background).await.unwrap();
    let again = api.until(&secret, |live| !certificates(live).is_empty() && live["metadata"]["uid"] != first["metadata"]["uid"]).await;
    assert_eq!(issuer(&again), signed_by);
    api.end().await;
}

/// COP-SCA-01, MS-CLI-04: whoever stops asking and then writes the Secret himself keeps what he wrote, also while the loop has not heard of the
/// first yet.
#[tokio::test(flavor = "multi_thread")]
async fn who_stops_asking_is_left_alone() {
    let mut api = Api::start().await;
    api.run().await;
    let secrets: Vec<ObjectRef> = (0..30).map(|number| place("v1", "Secret", "default", &format!("cert-{number}"))).collect();
    let mine = STANDARD.encode("mine");
    for secret in &secrets {
        api.apply(&service(&format!("of-{}", secret.name), &secret.name)).await;
        api.until(secret, |secret| !certificates(secret).is_empty()).await;
    }
    for secret in &secrets {
        let asked = place("v1", "Service", "default", &format!("of-{}", secret.name));
        api.annotate(&asked, json!({"service.beta.openshift.io/serving-cert-secret-name": null})).await;
        api.admin.patch(secret, "", &Patch::Merge(json!({"data": {"tls.key": mine}}))).await.unwrap();
    }
    // It looks at one after the other.
    api.apply(&service("last", "last")).await;
    api.until(&place("v1", "Secret", "default", "last"), |secret| !certificates(secret).is_empty()).await;
    for secret in &secrets {
        assert_eq!(api.admin.get(secret).await.unwrap().unwrap()["data"]["tls.key"], mine, "{secret}");
    }
    api.end().await;
}

/// COP-SCA-02: another's Secret is not overwritten, and the Service says why until it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn anothers_secret_stays() {
    let mut api = Api::start().await;
    api.run().await;
    let foreign =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "taken", "namespace": "default"}, "stringData": {"a": "b"}});
    let before = api.apply(&foreign).await;
    let made = api.apply(&service("hook", "taken")).await;
    let (own, secret) = (place("v1", "Service", "default", "hook"), place("v1", "Secret", "default", "taken"));
    let annotation = |service: &Value, name: &str| {
        service["metadata"]["annotations"][format!("service.beta.openshift.io/serving-cert-generation-{name}")].clone()
    };
    let told = api.until(&own, |service| annotation(service, "error-num") == "2").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert_eq!(annotation(&told, "error"), format!("secret default/taken does not have corresponding service UID {uid}"));
    assert_eq!(api.admin.get(&secret).await.unwrap().unwrap(), before);
    api.admin.delete(&secret, &Expect::default(), Propagation::Background).await.unwrap();
    api.until(&secret, |secret| !certificates(secret).is_empty()).await;
    api.until(&own, |service| annotation(service, "error").is_null() && annotation(service, "error-num").is_null()).await;
    api.end().await;
}

/// COP-SCA-04, COP-SCA-05: a forced rotation, then one by time, each once; certificates and bundles follow. The ClusterOperator is there
/// as soon as its kind is, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn rotations_reach_everything() {
    let mut api = Api::start().await;
    api.run().await;
    api.apply(&service("hook", "hook-cert")).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "trust", "namespace": "default", "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}}});
    api.apply(&map).await;
    let (secret, key) = (place("v1", "Secret", "default", "hook-cert"), place("v1", "Secret", NAMESPACE, "signing-key"));
    let first = issuer(&api.until(&secret, |secret| !issuer(secret).is_empty()).await);

    api.clock.advance(Duration::from_secs(60));
    api.crd("operator.openshift.io", "ServiceCA", "servicecas").await;
    let config = json!({"apiVersion": "operator.openshift.io/v1", "kind": "ServiceCA", "metadata": {"name": "cluster"},
        "spec": {"unsupportedConfigOverrides": {"forceRotation": {"reason": "drill"}}}});
    api.apply(&config).await;
    let second = api.until(&secret, |secret| !["", first.as_str()].contains(&issuer(secret).as_str())).await;
    assert_eq!(certificates(&second).len(), 3);
    let trusted = |count: usize| {
        move |map: &Value| {
            Certificate::read_all(map["data"]["service-ca.crt"].as_str().unwrap_or_default().as_bytes()).is_ok_and(|all| all.len() == count)
        }
    };
    let taker = place("v1", "ConfigMap", "default", "trust");
    api.until(&taker, trusted(4)).await;

    // 400 days on, a sign of life makes it look: of the second CA fewer than 395 days are left.
    api.clock.advance(Duration::from_secs(400 * 24 * 3600));
    api.annotate(&key, json!({"test/look": "now"})).await;
    let second = issuer(&second);
    api.until(&secret, |secret| !["", first.as_str(), second.as_str()].contains(&issuer(secret).as_str())).await;
    api.until(&taker, trusted(7)).await;

    api.crd("config.openshift.io", "ClusterOperator", "clusteroperators").await;
    let operator =
        api.until(&place("config.openshift.io/v1", "ClusterOperator", "", "service-ca"), |operator| operator["status"].is_object()).await;
    let conditions = operator["status"]["conditions"].as_array().unwrap();
    let states: Vec<String> =
        conditions.iter().map(|each| format!("{}={}", each["type"].as_str().unwrap(), each["status"].as_str().unwrap())).collect();
    assert_eq!(states, ["Available=True", "Progressing=False", "Degraded=False", "Upgradeable=True"]);
    api.end().await;
}

/// COP-SCA-01: without its namespace it waits and says what to do; it goes on once the namespace is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_waited_for() {
    let api = Api::start().await;
    let operators = ("config.openshift.io", "ClusterOperator", "clusteroperators");
    api.crd(operators.0, operators.1, operators.2).await;
    for object in manifests().iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole"))) {
        api.apply(object).await;
    }
    let cluster = Cluster::Embedded { router: api.server.router(), identity: service_ca };
    let (env, stop) = (Env::new(api.clock.clone(), 1), api.stop.clone());
    tokio::spawn(async move { mainstay_service_ca::run(cluster, env, stop).await.unwrap() });
    let own = place("config.openshift.io/v1", operators.1, "", ACCOUNT);
    let told = |live: &Value| {
        let conditions = live["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            let says = |condition: &Value| {
                condition["message"].as_str().is_some_and(|text| text.contains("mainstay deploy --components service-ca"))
            };
            all.iter().any(|condition| condition["type"] == "Available" && condition["status"] == "False" && says(condition))
        })
    };
    api.until(&own, told).await;
    for object in manifests() {
        api.apply(&object).await;
    }
    api.until(&place("v1", "Secret", NAMESPACE, "signing-key"), |secret| !certificates(secret).is_empty()).await;
    api.until(&own, |live| {
        live["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|condition| condition["type"] == "Available" && condition["status"] == "True"))
    })
    .await;
    api.end().await;
}
