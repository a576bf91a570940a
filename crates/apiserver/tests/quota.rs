//! ResourceQuota at the server: hard limits hold against many writers, and what is not stored is given back.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{self, Cluster, map};
use http::StatusCode;
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/ns/resourcequotas";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

impl Cluster {
    /// A quota whose status says what a controller would have said.
    async fn quota(&self, name: &str, hard: Value) {
        self.post(QUOTAS, json!({"metadata": {"name": name}, "spec": {"hard": hard}})).await.ok();
        let used: Value = hard.as_object().unwrap().keys().map(|key| (key.clone(), json!("0"))).collect::<serde_json::Map<_, _>>().into();
        let status = json!({"status": {"hard": hard, "used": used}});
        self.patch(&format!("{QUOTAS}/{name}/status"), "merge", status).await.ok();
        // Enforcement begins when the watch cache shows it.
        self.server.api().objects.cache.catch_up().await.unwrap();
    }

    async fn used(&self, quota: &str, name: &str) -> Value {
        self.get(&format!("{QUOTAS}/{quota}")).await.ok()["status"]["used"][name].clone()
    }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

/// KAPI-ADM-03: 64 writers at a time never exceed a hard limit, whatever else writes the quota; exactly the limit is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hard_limits_hold_against_many_writers() {
    let cluster = Cluster::new().await;
    cluster.quota("q", json!({"secrets": "20", "count/secrets": "40"})).await;
    cluster.quota("other", json!({"count/secrets": "25"})).await;
    let create = |index: usize| {
        let cluster = &cluster;
        async move { cluster.post(SECRETS, secret(&format!("s{index}"))).await.status }
    };
    // Somebody else changes the same quotas all the while, so that charges meet conflicts.
    let disturb = async {
        for index in 0..40 {
            let label = json!({"metadata": {"labels": {"n": index.to_string()}}});
            cluster.patch(&format!("{QUOTAS}/{}", if index % 2 == 0 { "q" } else { "other" }), "merge", label).await.ok();
        }
    };
    let (outcomes, ()) = tokio::join!(futures::future::join_all((0..64).map(create)), disturb);
    let created = outcomes.iter().filter(|status| **status == StatusCode::CREATED).count();
    assert_eq!(created, 20, "{outcomes:?}");
    assert!(outcomes.iter().all(|status| [StatusCode::CREATED, StatusCode::FORBIDDEN].contains(status)), "{outcomes:?}");
    assert_eq!(cluster.get(SECRETS).await.ok()["items"].as_array().unwrap().len(), 20);
    assert_eq!(cluster.used("q", "secrets").await, "20");
    assert_eq!(cluster.used("q", "count/secrets").await, "20");
    assert_eq!(cluster.used("other", "count/secrets").await, "20");
}

/// KAPI-ADM-03: what the store refuses is given back, a dry run takes nothing, and the words are upstream's.
#[tokio::test]
async fn what_is_not_stored_is_not_charged() {
    let cluster = Cluster::new().await;
    cluster.quota("q", json!({"secrets": "2"})).await;
    cluster.post(SECRETS, secret("a")).await.ok();
    assert_eq!(cluster.used("q", "secrets").await, "1");
    assert_eq!(cluster.post(SECRETS, secret("a")).await.status, StatusCode::CONFLICT);
    assert_eq!(cluster.used("q", "secrets").await, "1", "given back");
    cluster.post(&format!("{SECRETS}?dryRun=All"), secret("b")).await.ok();
    assert_eq!(cluster.used("q", "secrets").await, "1", "a dry run");
    cluster.post(SECRETS, secret("b")).await.ok();
    let refused = cluster.post(&format!("{SECRETS}?dryRun=All"), secret("c")).await;
    assert_eq!(
        refused.message(),
        "secrets \"c\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"
    );
    // What the quota does not name is free, and so are other namespaces.
    cluster.post(common::MAPS, map("m", json!({}))).await.ok();
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "free"}})).await.ok();
    cluster.post("/api/v1/namespaces/free/secrets", secret("c")).await.ok();
    let managers = cluster.get(&format!("{QUOTAS}/q")).await.ok()["metadata"]["managedFields"].clone();
    assert!(managers.as_array().unwrap().iter().any(|entry| entry["manager"] == "kube-apiserver" && entry["subresource"] == "status"));
}

/// KAPI-ADM-03: a Service whose type changes is charged with the difference; a refused one gives its ports back.
#[tokio::test]
async fn services_are_charged_by_type() {
    let cluster = Cluster::new().await;
    cluster.quota("q", json!({"services.nodeports": "1", "services.loadbalancers": "0"})).await;
    let services = "/api/v1/namespaces/ns/services";
    let service = |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    cluster.post(services, service("a", "ClusterIP")).await.ok();
    cluster.patch(&format!("{services}/a"), "merge", json!({"spec": {"type": "NodePort"}})).await.ok();
    assert_eq!(cluster.used("q", "services.nodeports").await, "1");
    let taken = cluster.get(&format!("{services}/a")).await.ok()["spec"]["ports"][0]["nodePort"].clone();
    assert_eq!(cluster.post(services, service("b", "NodePort")).await.status, StatusCode::FORBIDDEN);
    let refused = cluster.patch(&format!("{services}/a"), "merge", json!({"spec": {"type": "LoadBalancer"}})).await;
    assert_eq!(
        refused.message(),
        "services \"a\" is forbidden: exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0"
    );
    cluster.patch(&format!("{services}/a"), "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(cluster.get(&format!("{services}/a")).await.ok()["spec"]["ports"][0]["nodePort"], taken);
}
