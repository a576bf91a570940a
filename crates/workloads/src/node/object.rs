//! The Node objects of simulated nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::{Read as _, condition, time};

/// The label and annotation that marks simulated objects.
pub const SIMULATED: &str = "mainstay.dev/simulated";
/// The annotation of nodes that are an instance of the simulated provider: its name.
pub const INSTANCE: &str = "sim.mainstay.dev/instance";
/// The annotation of such an instance with the annotations that its kubelet registers the node with, as JSON: what it booted with says them
/// (MACH-MCS-03).
pub const NODE_ANNOTATIONS: &str = "sim.mainstay.dev/node-annotations";
/// The annotation of a simulated node that reboots: it is not ready.
pub const REBOOTING: &str = "mainstay.dev/rebooting";
/// The annotation with the identifier of a simulated node's running system.
pub const BOOT_ID: &str = "mainstay.dev/boot-id";
/// The version that the simulated kubelets report.
const VERSION: &str = concat!("v1.34.0+mainstay-", env!("CARGO_PKG_VERSION"), "-simulated");

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The control plane, tainted if there are other nodes.
    ControlPlane,
    /// A worker.
    Worker,
}

/// A simulated node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its number, from zero.
    pub number: u32,
    /// Its facts if it is an instance of the simulated provider.
    pub instance: Option<Instance>,
}

/// An instance of the simulated provider, as its kubelet knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Its UID: another one of the same name is another instance.
    pub uid: String,
    /// Its name at the provider.
    pub provider_id: String,
    /// Labels that the kubelet gives the node.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the kubelet gives the node.
    pub annotations: BTreeMap<String, String>,
    /// Its processors; those of every simulated node if absent.
    pub cpu: Option<String>,
    /// Its memory; that of every simulated node if absent.
    pub memory: Option<String>,
}

/// Returns the nodes of a cluster of `count`: one control-plane node, the others workers.
pub fn nodes(count: u32) -> Vec<Simulated> {
    let node = |number| match number {
        0 => Simulated { name: "control-plane".into(), role: Role::ControlPlane, number, instance: None },
        _ => Simulated { name: format!("worker-{number}"), role: Role::Worker, number, instance: None },
    };
    (0..count).map(node).collect()
}

impl Simulated {
    /// Returns the address of the node.
    pub fn address(&self) -> String {
        let host = self.number + 2;
        format!("172.31.{}.{}", host / 256, host % 256)
    }

    /// Returns the second and third number of its pods' addresses.
    fn network(&self) -> (u32, u32) {
        (244 + self.number / 256, self.number % 256)
    }

    /// Returns the range of its pods' addresses.
    pub fn pod_cidr(&self) -> String {
        let (second, third) = self.network();
        format!("10.{second}.{third}.0/24")
    }

    /// Returns the address of its pod with this number.
    pub fn pod_address(&self, number: u8) -> String {
        let (second, third) = self.network();
        format!("10.{second}.{third}.{number}")
    }

    /// Builds the Node; `alone` if it is the only one.
    pub fn object(&self, alone: bool) -> Value {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture(),
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": architecture(),
            SIMULATED: "true",
        });
        let mut spec =
            json!({"podCIDR": self.pod_cidr(), "podCIDRs": [self.pod_cidr()], "providerID": format!("simulated:///{}", self.name)});
        let mut annotations = json!({SIMULATED: "true"});
        if let Some(instance) = &self.instance {
            spec["providerID"] = json!(instance.provider_id);
            annotations[INSTANCE] = json!(instance.name);
            instance.labels.iter().for_each(|(key, value)| labels[key] = json!(value));
            instance.annotations.iter().for_each(|(key, value)| annotations[key] = json!(value));
        }
        if self.role == Role::ControlPlane {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
            if !alone {
                spec["taints"] = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
            }
        }
        json!({"metadata": {"name": self.name, "labels": labels, "annotations": annotations}, "spec": spec})
    }

    /// Returns true if the conditions of the Node are out of date.
    pub fn differs(&self, node: &DynamicObject) -> bool {
        let shown = node.at("/status/conditions");
        let script = Scripted::of(node);
        if script.boot_id.is_some_and(|boot_id| node.text("/status/nodeInfo/bootID") != boot_id) {
            return true;
        }
        states(script).iter().any(|(kind, state, ..)| condition(shown, kind).is_none_or(|present| present["status"] != *state))
    }

    /// Returns the status of the Node; unchanged conditions keep their time.
    /// `script` is what its annotations say.
    pub fn status(&self, before: &Value, script: Scripted<'_>, now: Timestamp) -> Value {
        let size = |own: fn(&Instance) -> &Option<String>, usual: &str| {
            self.instance.as_ref().and_then(|instance| own(instance).clone()).unwrap_or_else(|| usual.to_owned())
        };
        let resources = json!({
            "cpu": size(|instance| &instance.cpu, "8"), "memory": size(|instance| &instance.memory, "32Gi"), "ephemeral-storage": "100Gi", "pods": "110", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        });
        let all = states(script);
        let conditions: Vec<Value> = all
            .into_iter()
            .map(|(kind, state, reason, message)| {
                let present = condition(&before["conditions"], kind).filter(|present| present["status"] == state);
                let since = present.map_or_else(|| time(now), |present| present["lastTransitionTime"].clone());
                json!({
                    "type": kind, "status": state, "lastHeartbeatTime": time(now), "lastTransitionTime": since,
                    "reason": reason, "message": message,
                })
            })
            .collect();
        let uuid = uuid(&self.name);
        json!({
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": self.address()}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": uuid.replace('-', ""), "systemUUID": uuid, "bootID": script.boot_id.unwrap_or(&uuid),
                "kernelVersion": "simulated", "osImage": "Mainstay simulated node", "containerRuntimeVersion": "simulated://1",
                "kubeletVersion": VERSION, "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": architecture(),
            },
        })
    }
}

/// A condition: type, status, reason, message.
type State = (&'static str, &'static str, &'static str, &'static str);

/// The annotations of a node that script it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scripted<'a> {
    /// Its fault.
    pub fault: Option<&'a str>,
    /// True while it reboots.
    pub rebooting: bool,
    /// The identifier of its running system, once it rebooted.
    pub boot_id: Option<&'a str>,
}

impl<'a> Scripted<'a> {
    /// Reads the annotations.
    pub fn of(node: &'a DynamicObject) -> Self {
        Self {
            fault: node.annotation(super::behaviour::FAULT),
            rebooting: node.annotation(REBOOTING) == Some("true"),
            boot_id: node.annotation(BOOT_ID).filter(|boot_id| !boot_id.is_empty()),
        }
    }
}

/// Returns the conditions of a node, as its script sets them.
fn states(script: Scripted<'_>) -> [State; 4] {
    let mut all = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status"),
    ];
    match script.fault {
        Some("memory-pressure") => {
            all[0] = ("MemoryPressure", "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available");
        }
        Some("disk-pressure") => all[1] = ("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        Some("pid-pressure") => all[2] = ("PIDPressure", "True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        Some("not-ready") => all[3] = ("Ready", "False", "KubeletNotReady", "simulated: container runtime is down"),
        _ => {}
    }
    if script.rebooting {
        all[3] = ("Ready", "False", "KubeletNotReady", "simulated: node is shutting down for a reboot");
    }
    all
}

/// Returns the architecture of this machine, in Go's terms.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns a UUID that is the same for the same name.
fn uuid(name: &str) -> String {
    let digest = Sha256::digest(name);
    let hex = format!("{digest:x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
