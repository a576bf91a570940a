//! The node agent beside the daemon of a simulated node: the same configurations, told alike (MACH-NODE-08).

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Api as KubeApi, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_node_agent::agent::{Agent, Config, Ended};
use mainstay_node_agent::{Root, Services, Tree};
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::administrator;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rollout::{Api, GROUP, at, file};

const PREFIX: &str = "machineconfiguration.openshift.io/";

/// The node as it is told of: without names, times and what only a simulation has.
struct Told {
    annotations: BTreeMap<String, String>,
    conditions: Vec<Value>,
    events: BTreeSet<(String, String, String)>,
}

async fn told(api: &Api, cluster: &Cluster, node: &str) -> Told {
    let live = api.admin.get(&at("v1", "Node", "", node)).await.unwrap().unwrap();
    let annotations = live["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let annotations = annotations.into_iter().filter(|(key, _)| key.starts_with(PREFIX) && !key.contains("lastSynced"));
    let progress = api.admin.get(&at(GROUP, "MachineConfigNode", "", node)).await.unwrap().unwrap();
    let conditions = progress["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let without = |text: &Value| text.as_str().unwrap_or_default().replace(node, "NODE");
    let conditions = conditions.iter().map(|one| json!([one["type"], one["status"], one["reason"], without(&one["message"])]));
    let gvk = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
    let events: KubeApi<DynamicObject> = KubeApi::all_with(cluster.client().unwrap(), &ApiResource::from_gvk_with_plural(&gvk, "events"));
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_node = events.items.iter().map(|event| &event.data).filter(|event| event["regarding"]["name"] == node);
    let of_daemon = of_node.filter(|event| event["reportingController"] == "machineconfigdaemon");
    let events = of_daemon.map(|event| {
        let note = without(&event["note"]);
        // What was not done for real says so, each in its own words.
        let plain = ["(simulated)", "(not run: no service manager below this root)", "(recorded only)"];
        let note = plain.iter().fold(note, |note, mark| note.replace(mark, "")).trim().to_owned();
        (event["type"].as_str().unwrap_or_default().to_owned(), event["reason"].as_str().unwrap_or_default().to_owned(), note)
    });
    Told {
        annotations: annotations.map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned())).collect(),
        conditions: conditions.collect(),
        events: events.collect(),
    }
}

/// MACH-NODE-08, MACH-NODE-09, MACH-NODE-12, MACH-NODE-13: for the same pairs of configs, a simulated daemon and the agent of a tree give the same
/// annotations, conditions and events; drift on the tree is found, and its repair.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_as_a_simulated_daemon_is() {
    let mut api = Api::start(2).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tree", "labels": {"node-role.kubernetes.io/worker": ""}}});
    let made = api.admin.create(&node).await.unwrap();
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it says so"}]});
    api.admin.update_status(&made, &ready).await.unwrap();
    api.run();
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::Embedded { router: api.server.router(), identity: administrator };
    let tree = Tree::take(Root::open(folder.path()).unwrap()).unwrap().0;
    let services = Services { service: None, reboot: Some(vec!["true".to_owned()]) };
    let config = Config { node: "tree".to_owned(), services, once: false };
    let (agent, stop) = (Agent::new(tree, &cluster, Env::system(), config).unwrap(), CancellationToken::new());
    let running = tokio::spawn(agent.run(stop.clone()));

    let joined = |live: &Value| live["status"]["machineCount"] == 2 && live["status"]["updatedMachineCount"] == 2;
    api.until(&at(GROUP, "MachineConfigPool", "", "worker"), joined).await;
    let key = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}]});
    let labels = json!({"machineconfiguration.openshift.io/role": "worker"});
    let keys = json!({"apiVersion": GROUP, "kind": "MachineConfig", "metadata": {"name": "51-key", "labels": labels},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "passwd": key}}});
    let kernel = json!({"apiVersion": GROUP, "kind": "MachineConfig", "metadata": {"name": "53-kernel", "labels": labels},
        "spec": {"kernelArguments": ["audit=1"]}});
    // A reboot, nothing, a reload, and changes of the operating system.
    for change in [file("50-motd", "/etc/motd", "hello"), keys, file("52-policy", "/etc/containers/policy.json", "%7B%7D"), kernel] {
        let before = api.config_of("worker").await;
        api.admin.create(&change).await.unwrap();
        api.until_updated("worker", &before).await;
        // Events are written after the step that they tell of.
        let mut pair = None;
        for _ in 0..200 {
            let (one, other) = (told(&api, &cluster, "worker-1").await, told(&api, &cluster, "tree").await);
            let same = one.events == other.events && one.conditions == other.conditions && one.annotations == other.annotations;
            pair = Some((one, other));
            if same {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let (one, mut other) = pair.unwrap();
        assert_eq!(one.events, other.events, "{}", change["metadata"]["name"]);
        assert_eq!(one.conditions, other.conditions, "{}", change["metadata"]["name"]);
        other.annotations.retain(|key, _| one.annotations.contains_key(key));
        assert_eq!(one.annotations, other.annotations, "{}", change["metadata"]["name"]);
        assert!(one.events.len() > 2, "{:?}", one.events);
    }
    let motd = folder.path().join("etc/motd");
    assert_eq!(std::fs::read_to_string(&motd).unwrap(), "hello");
    assert_eq!(std::fs::read_to_string(folder.path().join("home/core/.ssh/authorized_keys.d/ignition")).unwrap(), "ssh-ed25519 AAAA\n");
    let recorded = std::fs::read_to_string(folder.path().join("etc/machine-config-daemon/recorded.json")).unwrap();
    assert!(recorded.contains("audit=1"), "{recorded}");
    let live = api.admin.get(&at("v1", "Node", "", "tree")).await.unwrap().unwrap();
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["mainstay.dev/recorded-only"], "kernelArguments");
    assert!(annotations["mainstay.dev/boot-id"].is_null() && annotations["mainstay.dev/rebooting"].is_null(), "{annotations:#}");

    // A change by hand, and its repair by hand.
    std::fs::write(&motd, "changed").unwrap();
    let in_state = |wanted: &'static str| move |node: &Value| node["metadata"]["annotations"][format!("{PREFIX}state")] == wanted;
    let degraded = api.until(&at("v1", "Node", "", "tree"), in_state("Degraded")).await;
    let reason = degraded["metadata"]["annotations"][format!("{PREFIX}reason")].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("unexpected on-disk state validating against rendered-worker-")
            && reason.ends_with("content mismatch for file \"/etc/motd\""),
        "{reason}"
    );
    std::fs::write(&motd, "hello").unwrap();
    api.until(&at("v1", "Node", "", "tree"), in_state("Done")).await;
    // Another one, and its repair by force.
    std::fs::write(&motd, "changed").unwrap();
    api.until(&at("v1", "Node", "", "tree"), in_state("Degraded")).await;
    std::fs::write(folder.path().join("run/machine-config-daemon-force"), "").unwrap();
    api.until(&at("v1", "Node", "", "tree"), in_state("Done")).await;
    assert_eq!(std::fs::read_to_string(&motd).unwrap(), "hello");
    assert!(!folder.path().join("run/machine-config-daemon-force").exists());
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), Ended::Stopped);
    api.stop.cancel();
}
