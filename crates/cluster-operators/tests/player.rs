//! The player against the real API, as its own account with exactly the permissions of its manifests.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::Extensions;
use mainstay_api::cluster_operator;
use mainstay_apiserver::TrustedIdentity;
use mainstay_cluster_operators::player::{self, Config, Script};
use mainstay_cluster_operators::{ACCOUNT, Error, NAMESPACE, manifests};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Api, place};

fn account(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

fn release(version: &str) -> Arc<[Value]> {
    let operator = |name: &str| {
        let mut object = cluster_operator::object(name);
        object["status"] = json!({"versions": [{"name": "operator", "version": version}]});
        object
    };
    ["dns", "etcd", "marketplace", "console", "absent"].map(operator).into()
}

fn is(operator: &Value, kind: &str, status: &str) -> bool {
    let all = operator["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().any(|each| each["type"] == kind && each["status"] == status)
}

fn at_version(operator: &Value, version: &str) -> bool {
    operator["status"]["versions"][0]["version"] == version && is(operator, "Progressing", "False") && is(operator, "Available", "True")
}

/// COP-G-09, COP-G-10, CVO-SIM-01: what exists and is reported by no other part is played to each release's versions, marked; what
/// others report and what does not exist is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn plays_releases() {
    let definitions: Vec<Value> = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition).collect();
    let api = Api::open(&definitions).await;
    for object in manifests() {
        api.apply(&object).await;
    }
    let script = "{acceleration: 100, operators: {etcd: {neverFinishes: true, degradedFor: 1s}}, defaults: {duration: 5s}}";
    let config = Config { script: Script::read(script).unwrap(), reported: BTreeSet::from(["console".to_owned()]) };
    // Another part reports this one.
    let well = cluster_operator::Report {
        unavailable: None,
        progressing: None,
        degraded: None,
        not_upgradeable: None,
        version: Some("0.9.0".to_owned()),
        related: Vec::new(),
    };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    api.admin.keep_status(&cluster_operator::object("marketplace"), |live| cluster_operator::status(live, &well, now)).await.unwrap();
    let (send, expected) = watch::channel(release("1.0.0"));
    let stop = CancellationToken::new();
    let (cluster, until) = (Cluster::Embedded { router: api.server.router(), identity: account }, stop.clone());
    let playing = tokio::spawn(player::run(cluster, Env::system(), config, expected, until));

    let at = |name: &str| place("config.openshift.io/v1", "ClusterOperator", "", name);
    for name in ["console", "etcd", "dns"] {
        api.admin.create(&cluster_operator::object(name)).await.unwrap();
    }
    let dns = api.until(&at("dns"), |live| at_version(live, "1.0.0")).await;
    assert_eq!(dns["metadata"]["annotations"]["mainstay.dev/simulated"], "true");
    let available = dns["status"]["conditions"].as_array().unwrap().iter().find(|each| each["type"] == "Available").unwrap().clone();
    assert_eq!(available["message"], "simulated: no operand is running");
    api.until(&at("etcd"), |live| is(live, "Progressing", "True") && is(live, "Degraded", "False")).await;

    send.send(release("1.1.0")).unwrap();
    api.until(&at("dns"), |live| at_version(live, "1.1.0")).await;
    let etcd = api.admin.get(&at("etcd")).await.unwrap().unwrap();
    assert!(etcd["status"].get("versions").is_none() && is(&etcd, "Available", "False"), "{etcd:#}");
    // What another part reports is only told its version.
    let marketplace = api.until(&at("marketplace"), |live| at_version(live, "1.1.0")).await;
    assert!(marketplace["metadata"].get("annotations").is_none() && is(&marketplace, "Available", "True"), "{marketplace:#}");
    let console = api.admin.get(&at("console")).await.unwrap().unwrap();
    assert!(console.get("status").is_none_or(|status| status == &json!({})), "{console:#}");
    assert_eq!(api.admin.get(&at("absent")).await.unwrap(), None, "the player makes no object");
    // Another program begins to report: it has the operator from then on, and the mark goes.
    let mut told = false;
    while !told {
        told = api.admin.keep_status(&cluster_operator::object("dns"), |live| cluster_operator::status(live, &well, now)).await.is_ok();
    }
    api.until(&at("dns"), |live| live["metadata"]["annotations"].get("mainstay.dev/simulated").is_none()).await;
    stop.cancel();
    playing.await.unwrap().unwrap();
    api.close().await;
}

/// COP-G-10: the player refuses a cluster that is not embedded.
#[tokio::test]
async fn refuses_a_real_cluster() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new("https://api.example.test:6443/".parse().unwrap());
    let (_send, expected) = watch::channel(release("1.0.0"));
    let real = Cluster::Remote(Box::new(config)).answering_within(std::time::Duration::from_secs(1));
    let refused = player::run(real, Env::system(), Config::default(), expected, CancellationToken::new()).await;
    assert!(matches!(refused, Err(Error::RealCluster(server)) if server.starts_with("https://api.example.test:6443")));
}
