//! What a change does to the nodes of a pool, line by line of the acceptance walk (MACH-DISR-10): two nodes, a Deployment with a pod on each and a
//! budget that spares one. A drain is what happens to the pods, a reboot what happens to the boot IDs.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_cluster_operators::base;
use mainstay_machine_config::{NAMESPACE, disk_name, read_disk};
use mainstay_machine_config_core::daemon::Disk;
use mainstay_machine_config_core::daemon::disk::digest;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Until};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_workloads::Options;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rollout::{Api, GROUP, at, file, is_true};

const WORKERS: [&str; 2] = ["worker-1", "worker-2"];

/// What a change does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    None,
    Drain,
    DrainAndReboot,
}

/// What a node is before and after a change: its boot ID, and the UIDs of its pods.
type Shown = BTreeMap<String, (String, Vec<String>)>;

struct Walk {
    api: Api,
    workloads: CancellationToken,
}

fn kubernetes(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(std::sync::Arc::new(UserInfo::new("system:mainstay", &["system:masters", "system:authenticated"]))));
}

impl Walk {
    async fn start() -> Self {
        let mut api = Api::start(0).await;
        for object in base::definitions().unwrap().into_iter().map(|candidate| candidate.object) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if ["imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io"].contains(&name) {
                api.admin.apply(&object, true, &Expect::default()).await.unwrap();
                api.admin.wait(&ObjectRef::of(&object).unwrap(), &Until::Healthy, Duration::from_secs(60)).await.unwrap();
            }
        }
        let workloads = run_workloads(&api, "the first authority");
        api.run();
        let walk = Self { api, workloads };
        let joined = |pool: &Value| pool["status"]["readyMachineCount"] == 2 && is_true(pool, "Updated");
        walk.api.until(&at(GROUP, "MachineConfigPool", "", "worker"), joined).await;
        walk.deploy().await;
        walk
    }

    /// A pod on each worker, of which one may be away.
    async fn deploy(&self) {
        let labels = json!({"app": "ledger"});
        let apart = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]);
        let pod = json!({"containers": [{"name": "main", "image": "registry.example/ledger"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ledger", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        });
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "ledger", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        self.make(&deployment).await;
        self.make(&budget).await;
        self.until_settled().await;
    }

    async fn until_settled(&self) {
        self.api.until(&at("apps/v1", "Deployment", "default", "ledger"), |live| live["status"]["availableReplicas"] == 2).await;
        for node in WORKERS {
            self.api.until(&at("v1", "Node", "", node), |live| live["spec"]["unschedulable"].is_null() && is_true(live, "Ready")).await;
        }
    }

    async fn make(&self, object: &Value) {
        self.api.admin.apply(object, true, &Expect::default()).await.unwrap();
    }

    async fn shown(&self) -> Shown {
        let mut shown = Shown::new();
        for node in WORKERS {
            let live = self.api.admin.get(&at("v1", "Node", "", node)).await.unwrap().unwrap();
            shown.insert(node.to_owned(), (live["status"]["nodeInfo"]["bootID"].as_str().unwrap().to_owned(), Vec::new()));
        }
        let request = http_get("/api/v1/namespaces/default/pods");
        let pods: Value = self.api.admin.client().request(request).await.unwrap();
        for pod in pods["items"].as_array().unwrap() {
            let node = shown.get_mut(pod["spec"]["nodeName"].as_str().unwrap()).unwrap();
            node.1.push(pod["metadata"]["uid"].as_str().unwrap().to_owned());
        }
        assert!(shown.values().all(|(_, pods)| pods.len() == 1), "{shown:?}");
        shown
    }

    /// Makes a change, waits until the pool has it, and looks what it did to the nodes.
    async fn change(&self, change: impl AsyncFnOnce(&Self), wanted: Disturbance) {
        let (before, config) = (self.shown().await, self.api.config_of("worker").await);
        change(self).await;
        self.api.until_updated("worker", &config).await;
        self.until_settled().await;
        self.compare(&before, wanted).await;
    }

    async fn compare(&self, before: &Shown, wanted: Disturbance) {
        let after = self.shown().await;
        for node in WORKERS {
            let (was, is) = (&before[node], &after[node]);
            let found = match (was.0 != is.0, was.1 != is.1) {
                (false, false) => Disturbance::None,
                (false, true) => Disturbance::Drain,
                (true, true) => Disturbance::DrainAndReboot,
                (true, false) => panic!("{node} rebooted without a drain"),
            };
            assert_eq!(found, wanted, "{node}");
        }
    }

    async fn disk(&self, node: &str) -> Disk {
        let map = self.api.admin.get(&at("v1", "ConfigMap", NAMESPACE, &disk_name(node))).await.unwrap().unwrap();
        read_disk(node, &map).unwrap()
    }

    fn end(self) {
        self.api.stop.cancel();
        self.workloads.cancel();
    }
}

fn http_get(path: &str) -> axum::http::Request<Vec<u8>> {
    axum::http::Request::get(path).body(Vec::new()).unwrap()
}

fn run_workloads(api: &Api, authority: &str) -> CancellationToken {
    let stop = CancellationToken::new();
    let cluster = Cluster::Embedded { router: api.server.router(), identity: kubernetes };
    let options = Options { ca_pem: authority.as_bytes().to_vec(), ..Options::default() };
    tokio::spawn(mainstay_workloads::run(cluster, options, Env::system(), stop.clone()));
    stop
}

fn mirrors(kind: &str, name: &str, list: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": {list: [{"source": format!("registry.example/{name}"), "mirrors": [format!("mirror.example/{name}")]}]},
    })
}

fn by_digest(name: &str) -> Value {
    mirrors("ImageDigestMirrorSet", name, "imageDigestMirrors")
}

/// MACH-DISR-10: an SSH key.
#[tokio::test(flavor = "multi_thread")]
async fn an_ssh_key_disturbs_nothing() {
    let walk = Walk::start().await;
    let users = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}]});
    let key = json!({
        "apiVersion": GROUP, "kind": "MachineConfig",
        "metadata": {"name": "52-key", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "passwd": users}},
    });
    walk.change(async |walk| walk.make(&key).await, Disturbance::None).await;
    assert_eq!(walk.disk("worker-2").await.ssh_keys, ["ssh-ed25519 AAAA"]);
    walk.end();
}

/// MACH-DISR-10: the cluster's pull secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_disturbs_nothing() {
    let walk = Walk::start().await;
    let credentials = json!({"auths": {"registry.example": {"auth": "YTpi"}}}).to_string();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": credentials},
    });
    let change = async |walk: &Walk| {
        walk.make(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}})).await;
        walk.make(&secret).await;
    };
    walk.change(change, Disturbance::None).await;
    assert_eq!(walk.disk("worker-1").await.files["/var/lib/kubelet/config.json"].digest, digest(credentials.as_bytes()));
    walk.end();
}

/// MACH-DISR-10: mirrors that serve digests alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_mirror_disturbs_nothing() {
    let walk = Walk::start().await;
    walk.change(async |walk| walk.make(&by_digest("team")).await, Disturbance::None).await;
    walk.end();
}

/// MACH-DISR-10: mirrors that serve tags.
#[tokio::test(flavor = "multi_thread")]
async fn a_tag_mirror_drains() {
    let walk = Walk::start().await;
    let tags = mirrors("ImageTagMirrorSet", "tags", "imageTagMirrors");
    walk.change(async |walk| walk.make(&tags).await, Disturbance::Drain).await;
    walk.end();
}

/// MACH-DISR-10: a registry that goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_registry_drains() {
    let walk = Walk::start().await;
    walk.change(async |walk| walk.make(&by_digest("team")).await, Disturbance::None).await;
    walk.change(async |walk| walk.make(&by_digest("other")).await, Disturbance::None).await;
    let place = at("config.openshift.io/v1", "ImageDigestMirrorSet", "", "team");
    let change = async |walk: &Walk| assert!(walk.api.admin.delete(&place, &Expect::default(), Propagation::Background).await.unwrap());
    walk.change(change, Disturbance::Drain).await;
    walk.end();
}

/// MACH-DISR-10: any other file.
#[tokio::test(flavor = "multi_thread")]
async fn another_file_drains_and_reboots() {
    let walk = Walk::start().await;
    walk.change(async |walk| walk.make(&file("50-motd", "/etc/motd", "hello")).await, Disturbance::DrainAndReboot).await;
    walk.end();
}

async fn pause(walk: &Walk) {
    let pool = at(GROUP, "MachineConfigPool", "", "worker");
    walk.api.admin.patch(&pool, "", &Patch::Merge(json!({"spec": {"paused": true}}))).await.unwrap();
}

/// MACH-DISR-10, MACH-PAUSE-01: any other file while the pool is paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_pool_is_left_alone() {
    let walk = Walk::start().await;
    pause(&walk).await;
    let (before, config) = (walk.shown().await, walk.api.config_of("worker").await);
    walk.make(&file("50-motd", "/etc/motd", "hello")).await;
    let is_false = |pool: &Value, kind: &str| mainstay_objects::condition(pool, kind).is_some_and(|found| found["status"] == "False");
    let held =
        |pool: &Value| pool["spec"]["configuration"]["name"] != config.as_str() && is_false(pool, "Updated") && is_false(pool, "Updating");
    walk.api.until(&at(GROUP, "MachineConfigPool", "", "worker"), held).await;
    // What is to happen to nodes would have begun by now: two looks of the daemons.
    tokio::time::sleep(Duration::from_secs(2)).await;
    walk.compare(&before, Disturbance::None).await;
    for node in WORKERS {
        let disk = walk.disk(node).await;
        assert!(disk.config.name == config && !disk.files.contains_key("/etc/motd"), "{node}");
        let live = walk.api.admin.get(&at("v1", "Node", "", node)).await.unwrap().unwrap();
        assert_eq!(live["metadata"]["annotations"]["machineconfiguration.openshift.io/desiredConfig"], config.as_str());
    }
    walk.end();
}
