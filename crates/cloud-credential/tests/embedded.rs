//! The loop against the real API, as its own account with exactly the permissions of its manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_cloud_credential::{ACCOUNT, NAMESPACE, Provider, Simulated, fresh, manifests};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env, ManualClock};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn account(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

struct World {
    admin: Writer,
    server: Server,
    env: Env,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl World {
    /// A cluster with the platform's kinds, and the loop.
    async fn start(platform: Option<fresh::Platform>) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let env = Env::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()), 1);
        let world = Self { admin, server, env, stop: CancellationToken::new(), _folder: folder };
        for manifest in mainstay_api::platform_manifests().unwrap() {
            world.apply(&manifest.definition).await;
        }
        world.cluster_operators().await;
        for manifest in mainstay_api::platform_manifests().unwrap() {
            let name = manifest.definition["metadata"]["name"].as_str().unwrap().to_owned();
            world.established(&name).await;
        }
        world.established("clusteroperators.config.openshift.io").await;
        for object in manifests() {
            world.apply(&object).await;
        }
        let status = |live: &Value| fresh::infrastructure_status(live, platform, "https://api:6443");
        world.admin.keep_status(&fresh::infrastructure(), status).await.unwrap();
        world.admin.execute(&fresh::settings(platform, "https://issuer"), |_| {}).await.unwrap();
        let (cluster, env, stop) =
            (Cluster::Embedded { router: world.server.router(), identity: account }, world.env.clone(), world.stop.clone());
        let provider: Arc<dyn Provider> = Arc::new(Simulated::new(env.clone()));
        tokio::spawn(async move { mainstay_cloud_credential::run(cluster, env, Some(provider), stop).await.unwrap() });
        world
    }

    async fn cluster_operators(&self) {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.apply(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusteroperators.config.openshift.io"},
            "spec": {
                "group": "config.openshift.io", "scope": "Cluster",
                "names": {"kind": "ClusterOperator", "plural": "clusteroperators", "singular": "clusteroperator"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
            },
        }))
        .await;
    }

    async fn established(&self, name: &str) {
        let served = |crd: &Value| {
            let all = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|each| each["type"] == "Established" && each["status"] == "True")
        };
        self.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name), served).await;
    }

    async fn apply(&self, object: &Value) -> Value {
        self.admin.apply(object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..6_000 {
            last = self.admin.get(place).await.unwrap().unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
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

fn request_at() -> ObjectRef {
    place("cloudcredential.openshift.io/v1", "CredentialsRequest", NAMESPACE, "cache")
}

fn secret_at() -> ObjectRef {
    place("v1", "Secret", "caches", "creds")
}

fn request(provider: Value) -> Value {
    json!({
        "apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest", "metadata": {"name": "cache", "namespace": NAMESPACE},
        "spec": {"secretRef": {"name": "creds", "namespace": "caches"}, "serviceAccountNames": ["cache"], "providerSpec": provider},
    })
}

fn text(secret: &Value, key: &str) -> String {
    let data = secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    String::from_utf8(data).unwrap()
}

fn holds(object: &Value, condition: &str, status: &str) -> bool {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().any(|each| each["type"] == condition && each["status"] == status)
}

/// COP-02, COP-CRED-01, COP-CRED-04, OLM0-TOKEN-01, OLM0-TOKEN-04: a request waits for its namespace, gets its Secret, which is put right when it is spoilt or
/// deleted, and takes it along when it goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_by_token() {
    let world = World::start(Some(fresh::Platform::AwsSts)).await;
    let provider =
        json!({"apiVersion": "cloudcredential.openshift.io/v1", "kind": "AWSProviderSpec", "stsIAMRoleARN": "arn:aws:iam::1:role/r"});
    world.apply(&request(provider)).await;
    world.until(&request_at(), |object| holds(object, "MissingTargetNamespace", "True")).await;
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "caches"}})).await;
    let secret = world.until(&secret_at(), |secret| text(secret, "credentials").contains("role_arn = arn:aws:iam::1:role/r")).await;
    assert_eq!(secret["metadata"]["labels"]["cloudcredential.openshift.io/credentials-request"], "true");
    let object = world
        .until(&request_at(), |object| object["status"]["provisioned"] == true && holds(object, "MissingTargetNamespace", "False"))
        .await;
    assert_eq!(object["metadata"]["finalizers"], json!(["cloudcredential.openshift.io/deprovision"]));

    world.admin.patch(&secret_at(), "", &Patch::Merge(json!({"data": {"credentials": "eA=="}}))).await.unwrap();
    world.until(&secret_at(), |secret| text(secret, "credentials").contains("role_arn")).await;
    world.admin.delete(&secret_at(), &Expect::default(), Propagation::Background).await.unwrap();
    world.until(&secret_at(), |secret| text(secret, "credentials").contains("role_arn")).await;

    world.admin.delete(&request_at(), &Expect::default(), Propagation::Background).await.unwrap();
    world.until(&request_at(), Value::is_null).await;
    assert!(world.admin.get(&secret_at()).await.unwrap().is_none());
    world.end().await;
}

/// COP-CRED-02, COP-CRED-03, COP-CRED-05: the mode changes while the loop runs: minted, then passed on; the ClusterOperator and the metrics tell it, and
/// nothing tells a secret.
#[tokio::test(flavor = "multi_thread")]
async fn modes() {
    let world = World::start(None).await;
    let infrastructure = json!({"status": {"platform": "AWS", "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}}});
    let at = place("config.openshift.io/v1", "Infrastructure", "", "cluster");
    world.admin.patch(&at, "status", &Patch::Merge(infrastructure)).await.unwrap();
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "caches"}})).await;
    world
        .apply(&request(json!({"apiVersion": "cloudcredential.openshift.io/v1", "kind": "AWSProviderSpec", "statementEntries": []})))
        .await;
    world.until(&request_at(), |object| holds(object, "CredentialsProvisionFailure", "True")).await;
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "cloud-credential");
    world.until(&operator, |operator| holds(operator, "Progressing", "True")).await;

    world
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws-creds", "namespace": "kube-system"},
        "stringData": {"aws_access_key_id": "ROOT", "aws_secret_access_key": "ROOTKEY"}}))
        .await;
    let minted = world.until(&secret_at(), |secret| text(secret, "aws_access_key_id").starts_with("AKIA")).await;
    let object = world.until(&request_at(), |object| object["status"]["provisioned"] == true).await;
    assert!(object["status"]["providerStatus"]["user"].as_str().unwrap().starts_with("mainstay-cache-"));
    assert!(!object.to_string().contains(&text(&minted, "aws_secret_access_key")));
    world.until(&operator, |operator| holds(operator, "Progressing", "False") && holds(operator, "Degraded", "False")).await;
    let page = world.env.metrics().page().unwrap();
    assert!(
        page.contains("cco_credentials_requests{cloud_type=\"aws\"} 1") && page.contains("cco_credentials_mode{mode=\"mint\"} 1"),
        "{page}"
    );

    let mode = place("operator.openshift.io/v1", "CloudCredential", "", "cluster");
    world.admin.patch(&mode, "", &Patch::Merge(json!({"spec": {"credentialsMode": "Passthrough"}}))).await.unwrap();
    world.until(&secret_at(), |secret| text(secret, "aws_access_key_id") == "ROOT").await;
    world.until(&request_at(), |object| object["status"]["providerStatus"]["user"].is_null()).await;
    world.admin.delete(&request_at(), &Expect::default(), Propagation::Background).await.unwrap();
    world.until(&secret_at(), Value::is_null).await;
    world.end().await;
}
