//! Watches that go on where an earlier one ended, past what the watch cache remembers; over both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use crate::common::{Cluster, Events, MAPS, map};
use crate::etcd_process::EtcdProcess;
use mainstay_apiserver::{Config, Server, Storage};
use mainstay_rbac::UserInfo;
use mainstay_store::etcd::{Options, Prefix};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

async fn open(directory: tempfile::TempDir, config: &Config) -> Cluster {
    let server = Server::open(config.clone()).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    Cluster { server, admin, directory }
}

async fn again(cluster: Cluster, config: &Config) -> Cluster {
    let Cluster { server, admin, directory } = cluster;
    server.close().await;
    drop(admin);
    open(directory, config).await
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn next(events: &mut Events) -> Option<Value> {
    tokio::time::timeout(Duration::from_secs(60), events.next()).await.expect("a watch tells its position or ends")
}

/// A server whose ConfigMaps were quiet for a while is restarted; watches of them go on from before.
async fn quiet_resource(directory: tempfile::TempDir, storage: Storage) {
    let config = Config { store: storage, ..Config::local(directory.path(), 6443) };
    let cluster = open(directory, &config).await;
    cluster.post(NAMESPACES, json!({"metadata": {"name": "ns"}})).await.ok();
    let first = revision(&cluster.post(MAPS, map("a", json!({}))).await.ok());
    let last = revision(&cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "1"}})).await.ok());
    for number in 0..3 {
        cluster.post(NAMESPACES, json!({"metadata": {"name": format!("other-{number}")}})).await.ok();
    }
    let cluster = again(cluster, &config).await;
    let now = revision(&cluster.get(NAMESPACES).await.ok());
    assert!(now > last);
    for (from, told) in [(first, vec!["MODIFIED a"]), (last, vec![])] {
        let path = format!("{MAPS}?watch=true&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=5");
        let mut events = tokio::time::timeout(Duration::from_secs(60), cluster.watch(&path)).await.expect("a watch begins");
        let mut shown = Vec::new();
        // A position past all that has happened shows that the watch has left the past behind, though nothing new came.
        loop {
            let event = next(&mut events).await.expect("the watch tells where it is before it ends");
            match event["type"].as_str().unwrap() {
                "BOOKMARK" if revision(&event["object"]) >= now => break,
                "BOOKMARK" => {}
                kind => shown.push(format!("{kind} {}", event["object"]["metadata"]["name"].as_str().unwrap())),
            }
        }
        assert_eq!(shown, told, "from {from}");
    }
    let mut events = cluster.watch(&format!("{MAPS}?watch=true&resourceVersion={first}")).await;
    cluster.post(MAPS, map("b", json!({}))).await.ok();
    assert_eq!(events.take(2).await, ["MODIFIED a", "ADDED b"]);
}

/// KAPI-WATCH-01, KAPI-STORE-01: after a restart a watch of a quiet resource goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_resource_in_the_folder() {
    quiet_resource(tempfile::tempdir().unwrap(), Storage::default()).await;
}

/// KAPI-WATCH-01, KAPI-STORE-03: the same over etcd, which tells only of changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_resource_in_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let prefix = Prefix { ours: "/registry".into(), theirs: "/resume".into() };
    let options = Options::parse(&format!("etcd://{}", process.address()), None, prefix).unwrap();
    for _ in 0..10 {
        match mainstay_store::Etcd::open(options.clone()).await {
            Ok(_) => return quiet_resource(directory, Storage::Etcd(options)).await,
            Err(mainstay_store::Error::Remote { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("etcd does not answer")
}

/// KAPI-WATCH-01, KAPI-SRV-06: history is read as the client takes it; what it has not taken is not held for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_read_step_by_step() {
    let cluster = Cluster::new().await;
    let first = revision(&cluster.post(MAPS, map("a", json!({}))).await.ok());
    // Larger than what the cache remembers, by far.
    let large = "x".repeat(900 << 10);
    for round in 0..40 {
        cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"large": format!("{round}{large}")}})).await.ok();
    }
    let path = format!("{MAPS}?watch=true&resourceVersion={first}");
    let (mut whole, mut slow) = (cluster.watch(&path).await, cluster.watch(&path).await);
    for round in 0..40 {
        let event = next(&mut whole).await.unwrap();
        assert!(event["object"]["data"]["large"].as_str().unwrap().starts_with(&format!("{round}x")));
    }
    assert_eq!(slow.take(1).await, ["MODIFIED a"]);
    let store = cluster.server.api().objects.store.clone();
    store.compact(store.latest().await.unwrap()).await.unwrap();
    let mut told = 1;
    loop {
        let event = next(&mut slow).await.unwrap();
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["reason"], "Expired");
            break;
        }
        told += 1;
        assert!(told < 10, "what is no longer in the store was held for a client that had not asked for it");
    }
    assert!(next(&mut slow).await.is_none());
}
