//! The config operator and the samples operator against the real API, as their own accounts with exactly the permissions of their manifests.

use std::sync::Arc;

use axum::http::Extensions;
use mainstay_api::cluster_operator;
use mainstay_apiserver::TrustedIdentity;
use mainstay_cluster_operators::{Error, NAMESPACE, base, cluster_config, manifests, samples};
use mainstay_objects::{Expect, Patch, Propagation};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Api, place};

fn account(extensions: &mut Extensions, name: &str) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, name))));
}

fn config_operator(extensions: &mut Extensions) {
    account(extensions, cluster_config::ACCOUNT);
}

fn samples_operator(extensions: &mut Extensions) {
    account(extensions, samples::ACCOUNT);
}

fn release(version: &str) -> Arc<[Value]> {
    let operator = |name: &str| {
        let mut object = cluster_operator::object(name);
        object["status"] = json!({"versions": [{"name": "operator", "version": version}]});
        object
    };
    let gate = json!({
        "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {},
        "status": {"featureGates": [{"version": "", "enabled": [{"name": "One"}], "disabled": [{"name": "Two"}]}]},
    });
    [operator(cluster_config::OPERATOR), operator(samples::OPERATOR), gate].into()
}

fn is(operator: &Value, kind: &str, status: &str) -> bool {
    let all = operator["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().any(|each| each["type"] == kind && each["status"] == status)
}

fn at_version(operator: &Value, version: &str) -> bool {
    operator["status"]["versions"][0]["version"] == version && is(operator, "Progressing", "False") && is(operator, "Available", "True")
}

/// The definitions that both need.
fn definitions() -> Vec<Value> {
    let own = ["imagestreams.image.openshift.io", "configs.samples.operator.openshift.io", "infrastructures.config.openshift.io"];
    let candidates = base::definitions().unwrap().into_iter().map(|candidate| candidate.object);
    let chosen = candidates.filter(|object| own.iter().any(|name| object["metadata"]["name"] == *name));
    mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition).chain(chosen).collect()
}

/// COP-07, COP-13, COP-G-08: both operators report a release that has them, and the next one; the samples are kept and come back, the old configuration
/// is migrated.
#[tokio::test(flavor = "multi_thread")]
async fn two_releases() {
    let api = Api::open(&definitions()).await;
    for object in [manifests(), cluster_config::manifests(), samples::manifests()].iter().flatten() {
        api.apply(object).await;
    }
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["openshift", "openshift-config"] {
        api.apply(&namespace(name)).await;
    }
    let config = "config.openshift.io/v1";
    let infrastructure = json!({"apiVersion": config, "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {}});
    api.admin.keep_status(&infrastructure, |_| json!({"platform": "None"})).await.unwrap();
    api.apply(&json!({"apiVersion": config, "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {}})).await;
    let (send, expected) = watch::channel(release("1.0.0"));
    let stop = CancellationToken::new();
    let cluster = |identity| Cluster::Embedded { router: api.server.router(), identity };
    let one = tokio::spawn(cluster_config::run(cluster(config_operator), Env::system(), expected.clone(), stop.clone()));
    let two = tokio::spawn(samples::run(cluster(samples_operator), Env::system(), expected, stop.clone()));
    let at = |name: &str| place(config, "ClusterOperator", "", name);
    for name in [cluster_config::OPERATOR, samples::OPERATOR] {
        api.admin.create(&cluster_operator::object(name)).await.unwrap();
    }
    api.until(&at(cluster_config::OPERATOR), |live| at_version(live, "1.0.0")).await;
    let gate = api.admin.get(&place(config, "FeatureGate", "", "cluster")).await.unwrap().unwrap();
    assert_eq!(gate["status"]["featureGates"], json!([{"version": "1.0.0", "enabled": [{"name": "One"}], "disabled": [{"name": "Two"}]}]));
    let migrated = api.admin.get(&place(config, "Infrastructure", "", "cluster")).await.unwrap().unwrap();
    assert_eq!(migrated["status"]["platformStatus"]["type"], "None");

    let operator = api.until(&at(samples::OPERATOR), |live| at_version(live, "1.0.0")).await;
    assert_eq!(operator["metadata"]["annotations"]["mainstay.dev/simulated"], "true");
    let settings = place("samples.operator.openshift.io/v1", "Config", "", "cluster");
    let stream = |name: &str| place("image.openshift.io/v1", "ImageStream", "openshift", name);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull-secret", "namespace": "openshift-config"}});
    api.apply(&secret).await;
    api.until(&settings, |live| is(live, "ImportCredentialsExist", "True")).await;
    let edit = Patch::Merge(json!({"spec": {"tags": [{"name": "mine"}]}}));
    api.admin.patch(&stream("sample-hello"), "", &edit).await.unwrap();
    api.admin.delete(&stream("sample-batch"), &Expect::default(), Propagation::Background).await.unwrap();
    api.until(&stream("sample-batch"), |live| live["spec"]["tags"][0]["name"] == "1.0").await;
    assert_eq!(api.admin.get(&stream("sample-hello")).await.unwrap().unwrap()["spec"]["tags"][0]["name"], "mine");

    send.send(release("1.1.0")).unwrap();
    api.until(&at(samples::OPERATOR), |live| at_version(live, "1.1.0")).await;
    api.until(&at(cluster_config::OPERATOR), |live| at_version(live, "1.1.0")).await;
    assert_eq!(api.admin.get(&stream("sample-hello")).await.unwrap().unwrap()["spec"]["tags"][0]["name"], "1.1");
    let before = api.admin.get(&settings).await.unwrap().unwrap()["metadata"]["uid"].clone();
    api.admin.delete(&settings, &Expect::default(), Propagation::Background).await.unwrap();
    api.until(&settings, |live| {
        live["metadata"]["uid"].is_string() && live["metadata"]["uid"] != before && is(live, "SamplesExist", "True")
    })
    .await;
    stop.cancel();
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
    api.close().await;
}

/// COP-G-10: samples are played, and refused on a cluster that is not embedded.
#[tokio::test]
async fn refuses_a_real_cluster() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new("https://api.example.test:6443/".parse().unwrap());
    let (_send, expected) = watch::channel(release("1.0.0"));
    let refused = samples::run(Cluster::Remote(Box::new(config)), Env::system(), expected, CancellationToken::new()).await;
    assert!(matches!(refused, Err(Error::RealCluster(server)) if server.starts_with("https://api.example.test:6443")));
}

/// COP-G-15: the status player may write ClusterOperators and events, and nothing else: what it plays is their status alone.
#[test]
fn the_player_writes_nothing_else() {
    let role = manifests().into_iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    let writes =
        |rule: &&Value| rule["verbs"].as_array().unwrap().iter().any(|verb| !["get", "list", "watch"].contains(&verb.as_str().unwrap()));
    let resources: Vec<String> =
        role["rules"].as_array().unwrap().iter().filter(writes).map(|rule| rule["resources"].to_string()).collect();
    assert_eq!(resources, [r#"["clusteroperators"]"#, r#"["clusteroperators/status"]"#, r#"["events"]"#]);
}
