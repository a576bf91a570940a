//! Nodes that join, get a configuration, and get another one; no kubelet runs, so a node is as ready as it says.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_machine_config::{ACCOUNT, Config, NAMESPACE, disk_name, manifests, read_disk};
use mainstay_objects::{Expect, ObjectRef, Until};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const GROUP: &str = "machineconfiguration.openshift.io/v1";

fn operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

pub(crate) fn at(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    let text = str::to_owned;
    ObjectRef { api_version: text(api_version), kind: text(kind), namespace: text(namespace), name: text(name) }
}

pub(crate) struct Api {
    pub(crate) admin: Writer,
    pub(crate) server: Server,
    pub(crate) stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Api {
    pub(crate) async fn start(nodes: usize) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let api = Self { admin, server, stop: CancellationToken::new(), _folder: folder };
        let kinds: Vec<Value> = mainstay_api::machine_config_manifests().unwrap().into_iter().map(|manifest| manifest.definition).collect();
        for object in kinds.iter().chain(&manifests()) {
            api.admin.apply(object, true, &Expect::default()).await.unwrap();
        }
        for kind in &kinds {
            api.admin.wait(&ObjectRef::of(kind).unwrap(), &Until::Healthy, Duration::from_secs(60)).await.unwrap();
        }
        let authority = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": NAMESPACE},
            "data": {"ca.crt": "an authority"}});
        api.admin.create(&authority).await.unwrap();
        for number in 0..nodes {
            let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("worker-{number}"), "labels": {
                "mainstay.dev/simulated": "true", "kubernetes.io/os": "linux"}}});
            if number == 0 {
                node["metadata"]["name"] = json!("control-plane");
                node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
            }
            let made = api.admin.create(&node).await.unwrap();
            let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it says so"}]});
            api.admin.update_status(&made, &ready).await.unwrap();
        }
        api
    }

    pub(crate) fn run(&mut self) {
        self.stop = CancellationToken::new();
        let cluster = Cluster::Embedded { router: self.server.router(), identity: operator };
        let (config, stop) = (Config { reboot: Duration::from_millis(50), release: None }, self.stop.clone());
        tokio::spawn(async move { mainstay_machine_config::run(cluster, Env::system(), config, stop).await.unwrap() });
    }

    pub(crate) async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
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

    pub(crate) async fn until_updated(&self, pool: &str, before: &str) -> Value {
        let updated = |live: &Value| {
            let name = &live["spec"]["configuration"]["name"];
            name.is_string() && name != before && live["status"]["configuration"]["name"] == *name && is_true(live, "Updated")
        };
        self.until(&at(GROUP, "MachineConfigPool", "", pool), updated).await
    }

    pub(crate) async fn config_of(&self, pool: &str) -> String {
        let live = self.admin.get(&at(GROUP, "MachineConfigPool", "", pool)).await.unwrap().unwrap_or_default();
        live["spec"]["configuration"]["name"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    mainstay_objects::is_condition_true(object, kind)
}

pub(crate) fn file(name: &str, path: &str, text: &str) -> Value {
    let file = json!({"path": path, "contents": {"source": format!("data:,{text}")}});
    json!({
        "apiVersion": GROUP, "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}}},
    })
}

/// MACH-MC-02, MACH-MC-03, MACH-MC-07, MACH-MCP-03, MACH-MCP-04, MACH-MCP-08, MACH-NODE-07: nodes join with the first configuration; a change goes
/// out one node at a time, whose disks have it then; a restart in between loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_goes_out() {
    let mut api = Api::start(4).await;
    api.run();
    for (pool, machines) in [("master", 1), ("worker", 3)] {
        api.until_updated(pool, "").await;
        // A pool without nodes is up to date, too: they join when their roles are known.
        let joined = |live: &Value| live["status"]["machineCount"] == machines && is_true(live, "Updated");
        api.until(&at(GROUP, "MachineConfigPool", "", pool), joined).await;
    }
    let before = api.config_of("worker").await;
    api.admin.create(&file("50-motd", "/etc/motd", "hello")).await.unwrap();
    // The operator is killed as soon as a node is asked.
    let asked = |node: &Value| {
        let told = &node["metadata"]["annotations"];
        told["machineconfiguration.openshift.io/desiredConfig"] != told["machineconfiguration.openshift.io/currentConfig"]
    };
    api.until(&at("v1", "Node", "", "worker-1"), asked).await;
    api.stop.cancel();
    let waiting = api.admin.get(&at("v1", "Node", "", "worker-3")).await.unwrap().unwrap();
    assert!(!asked(&waiting), "one at a time");
    api.run();
    let pool = api.until_updated("worker", &before).await;
    assert_eq!(pool["status"]["updatedMachineCount"], 3);
    let sources = pool["spec"]["configuration"]["source"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["name"] == "50-motd"), "{sources:?}");
    for node in ["worker-1", "worker-2", "worker-3"] {
        let map = api.admin.get(&at("v1", "ConfigMap", NAMESPACE, &disk_name(node))).await.unwrap().unwrap();
        let disk = read_disk(node, &map).unwrap();
        assert!(disk.files.contains_key("/etc/motd") && disk.config.name == api.config_of("worker").await, "{node}");
        let live = api.admin.get(&at("v1", "Node", "", node)).await.unwrap().unwrap();
        assert_eq!(live["metadata"]["annotations"]["mainstay.dev/boot-id"], disk.boot_id.as_str());
        // No controller of nodes runs here: the taint of their creation stays.
        let taints = live["spec"]["taints"].as_array().into_iter().flatten();
        let is_foreign = |taint: &Value| taint["key"] == "node.kubernetes.io/not-ready";
        assert!(taints.into_iter().all(is_foreign) && live["spec"]["unschedulable"].is_null(), "{:#}", live["spec"]);
    }
    let rendered = api.admin.get(&at(GROUP, "MachineConfig", "", &api.config_of("worker").await)).await.unwrap().unwrap();
    assert_eq!(rendered["metadata"]["ownerReferences"][0]["kind"], "MachineConfigPool");
    api.stop.cancel();
}

/// MACH-MCP-03, MACH-MCP-13, MACH-MC-04: pools that select everything, or what no node can take.
#[tokio::test(flavor = "multi_thread")]
async fn pools_that_cannot_be_rendered() {
    let mut api = Api::start(2).await;
    api.run();
    api.until_updated("worker", "").await;
    let pool = json!({"apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": {"name": "all"},
        "spec": {"machineConfigSelector": {}, "nodeSelector": {}}});
    api.admin.create(&pool).await.unwrap();
    let none = json!({"apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": {"name": "none"},
        "spec": {"machineConfigSelector": {"matchLabels": {"a": "b"}}, "nodeSelector": {"matchLabels": {"a": "b"}}}});
    api.admin.create(&none).await.unwrap();
    let degraded = api.until(&at(GROUP, "MachineConfigPool", "", "none"), |pool| is_true(pool, "RenderDegraded")).await;
    let message = mainstay_objects::condition(&degraded, "RenderDegraded").unwrap()["message"].as_str().unwrap();
    assert!(message.starts_with("Failed to render configuration for pool none: no MachineConfigs found matching selector"), "{message}");
    let all = api.admin.get(&at(GROUP, "MachineConfigPool", "", "all")).await.unwrap().unwrap();
    assert!(all["spec"]["configuration"].is_null(), "{all:#}");
    // Neither of them keeps the others from their work.
    let before = api.config_of("worker").await;
    api.admin.create(&file("50-motd", "/etc/motd", "hello")).await.unwrap();
    api.until_updated("worker", &before).await;
    api.stop.cancel();
}
