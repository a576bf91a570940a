//! Simulated nodes: each has a Node with a Lease that is renewed, and a kubelet that runs its pods (KAPI-WL-03).

mod addresses;
pub mod behaviour;
mod container;
pub mod images;
pub mod object;
pub mod plan;
pub mod pulls;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use self::addresses::Addresses;
use self::behaviour::{Behaviour, FAULT, SILENT, Script};
use self::images::Images;
use self::object::{SIMULATED, Simulated};
use self::plan::{Kubelet, Place, Step, plan, told};
use self::pulls::{ImagePuller, Pulls};
use crate::Result;
use crate::api::{Api, Delete, Patch, builtin};
use crate::live::Live;
use crate::object::{Object, Read as _, items};
use crate::replicaset::settle;
use crate::volumes::plan::PROVISIONER;
use crate::world::{KUBELET, World};

/// The interval at which a Lease is renewed, the same as the kubelet's.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The heartbeats after which the Node's conditions are reported even if unchanged.
const REPORT: u64 = 30;

/// Returns a UUID that is the same for the same name.
pub fn uuid(name: &str) -> String {
    let digest = Sha256::digest(name);
    let hex = format!("{digest:x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[derive(Clone)]
struct Kubelets {
    world: World,
    pods: Live,
    nodes: Arc<HashMap<String, Simulated>>,
    addresses: Arc<Mutex<Addresses>>,
    script: Arc<Script>,
    images: Images,
    pulls: Pulls,
}

/// Pods that are reconciled concurrently.
const WORKERS: usize = 16;

/// The message about a pod whose node has no address left.
const NO_ADDRESS: &str = "Failed to create pod sandbox: simulated: all addresses of the node's range of pods are in use";

/// Runs the simulated nodes.
pub async fn run(world: World, count: u32, script: Script, images: Images, puller: Option<Arc<dyn ImagePuller>>) {
    let all = object::nodes(count);
    world.nodes.ready().await;
    world.pods.ready().await;
    let api = world.api_as(KUBELET);
    let heartbeats = tokio::spawn(beat(world.clone(), api.clone(), all.clone()));
    let queue: Queue<Key> = Queue::default();
    let nodes: Arc<HashMap<String, Simulated>> = Arc::new(all.into_iter().map(|node| (node.name.clone(), node)).collect());
    let kubelets = Kubelets {
        pods: world.pods.written_by(&api),
        world: world.clone(),
        nodes: nodes.clone(),
        addresses: Arc::default(),
        script: Arc::new(script),
        images,
        pulls: Pulls::new(puller, queue.clone()),
    };
    // The addresses of existing pods are known before new pods get theirs.
    for pod in world.pods.all() {
        if let Some(node) = nodes.get(pod.text("/spec/nodeName")).filter(|_| !pod.text("/status/podIP").is_empty()) {
            lock(&kubelets.addresses).of(&pod, node);
        }
    }
    let (wake, addresses, pulls) = (queue.clone(), kubelets.addresses.clone(), kubelets.pulls.clone());
    world.pods.on_change(move |change| {
        if let (Some(gone), None) = (&change.before, &change.now) {
            pulls.forget(gone);
        }
        lock(&addresses).changed(change.before.as_deref(), change.now.as_deref());
        if let Some(pod) = change.now.as_ref().filter(|pod| nodes.contains_key(pod.text("/spec/nodeName"))) {
            wake.add(Key::of(pod));
        }
    });
    // A kubelet that is heard from again reconciles everything that happened meanwhile.
    let (wake, pods) = (queue.clone(), world.pods.clone());
    world.nodes.on_change(move |change| {
        if let Some(node) = change.before.as_ref().filter(|before| silent(before) && !change.now.as_deref().is_some_and(silent)) {
            pods.all().iter().filter(|pod| pod.text("/spec/nodeName") == node.name()).for_each(|pod| wake.add(Key::of(pod)));
        }
    });
    mainstay_runtime::run("kubelet", queue, WORKERS, world.env.clone(), world.stop.clone(), move |key| {
        let kubelets = kubelets.clone();
        async move { settle(kubelets.reconcile(&key).await) }
    })
    .await;
    if let Err(error) = heartbeats.await {
        tracing::error!(%error, "the heartbeats ended abnormally");
    }
}

fn lock(addresses: &Mutex<Addresses>) -> MutexGuard<'_, Addresses> {
    addresses.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a node is scripted to fall silent.
fn silent(node: &DynamicObject) -> bool {
    node.annotation(FAULT) == Some(SILENT)
}

impl Kubelets {
    /// Returns a pod of a simulated node, and its place.
    fn resident(&self, key: &Key) -> Option<(Object, Place)> {
        // The pod is read while the addresses are locked: if it goes or ends, its address is released afterwards.
        let mut addresses = lock(&self.addresses);
        let pod = self.pods.get(key)?;
        let node = self.nodes.get(pod.text("/spec/nodeName"))?;
        let lost = self.world.nodes.get(&Key::new("", &node.name)).is_some_and(|node| silent(&node));
        let kubelet = if lost { Kubelet::Silent } else { Kubelet::Working };
        let place = Place { kubelet, host_ip: node.address(), pod_ip: addresses.of(&pod, node) };
        Some((pod, place))
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some((pod, place)) = self.resident(key) else { return Ok(Outcome::Done) };
        if place.kubelet == Kubelet::Silent {
            return Ok(Outcome::Done);
        }
        let now = self.world.env.now();
        if place.refuses(&pod) {
            self.world.events.record(KUBELET, "Warning", self.pods.served(), &pod, "FailedCreatePodSandBox", NO_ADDRESS);
        }
        if pod.text("/status/phase") != "Running" {
            for container in items(&pod, "/spec/initContainers").chain(items(&pod, "/spec/containers")) {
                self.images.look(container["image"].as_str().unwrap_or_default(), now).await;
            }
        }
        let mut behaviour = Behaviour::of(&pod, &self.script, &|image| self.images.problem(image));
        if !pod.deleting() && !crate::pod::finished(&pod) {
            self.pulls.look(&pod, &mut behaviour, now);
        }
        if let Some(problem) = &behaviour.problem {
            self.world.events.record(KUBELET, "Warning", self.pods.served(), &pod, "InvalidFault", problem.to_string());
        }
        match plan(&pod, &place, &behaviour, now) {
            Step::Rest(again) => Ok(again.map_or(Outcome::Done, Outcome::After)),
            Step::Remove => {
                // A finalizer may hold the pod, which for the kubelet is deleted already.
                let held = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
                if pod.metadata.deletion_grace_period_seconds != Some(0) || !held {
                    self.pods.delete(key, &Delete { grace_seconds: Some(0), ..Delete::uid(pod.uid()) }).await?;
                }
                Ok(Outcome::Done)
            }
            Step::Report(status, again) => {
                self.pods.write_status(&pod, &status).await?;
                for event in told(&pod, &status, &behaviour) {
                    self.world.events.tell(KUBELET, self.pods.served(), &pod, event);
                }
                Ok(again.map_or(Outcome::Done, Outcome::After))
            }
        }
    }
}

/// Creates the Nodes and renews their Leases. Simulated Nodes beyond the count, of an earlier run, are deleted.
async fn beat(world: World, api: Api, all: Vec<Simulated>) {
    let nodes = world.nodes.written_by(&api);
    for node in nodes.all() {
        let simulated = node.labels().get(SIMULATED).is_some_and(|value| value == "true");
        if simulated && !all.iter().any(|known| known.name == node.name()) {
            let key = Key::of(&node);
            let outcome = nodes.delete(&key, &Delete::uid(node.uid())).await;
            if let Err(error) = outcome {
                tracing::warn!(%error, "a simulated node of an earlier run stays");
            }
        }
    }
    offer_storage(&api).await;
    let changed = Arc::new(tokio::sync::Notify::new());
    let wake = changed.clone();
    world.nodes.on_change(move |change| {
        let fault = |node: Option<&Object>| node.and_then(|node| node.annotation(FAULT)).map(str::to_owned);
        if fault(change.before.as_ref()) != fault(change.now.as_ref()) || (change.before.is_some() && change.now.is_none()) {
            wake.notify_one();
        }
    });
    let note = |node: &Simulated, outcome: Result<()>| match outcome {
        Ok(()) => {}
        // Another client wrote the Node at the same time, so it is reconciled again.
        Err(error) if error.is_conflict() => changed.notify_one(),
        Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, node = node.name, "a simulated node could not report"),
    };
    let mut beats: u64 = 0;
    let mut next = tokio::time::Instant::now();
    loop {
        for node in &all {
            note(node, report(&world, &api, &nodes, node, all.len() == 1, beats.is_multiple_of(REPORT)).await);
        }
        // A node whose script changed reports at once, besides the heartbeats.
        loop {
            tokio::select! {
                () = world.stop.cancelled() => return,
                () = tokio::time::sleep_until(next + HEARTBEAT) => {
                    (next, beats) = (tokio::time::Instant::now(), beats + 1);
                    break;
                }
                () = changed.notified() => {}
            }
            for node in &all {
                let stale = nodes.get(&Key::new("", &node.name)).is_none_or(|present| node.differs(&present));
                if stale {
                    note(node, report(&world, &api, &nodes, node, all.len() == 1, true).await);
                }
            }
        }
    }
}

/// Creates the class of simulated volumes, which is the default one. It is created once, and later changes by users stay.
async fn offer_storage(api: &Api) {
    let classes = builtin("storage.k8s.io/v1", "StorageClass", "storageclasses", false);
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "labels": {SIMULATED: "true"},
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    match api.create(&classes, "", &class).await {
        Err(error) if !error.is_already_there() => tracing::warn!(%error, "the class of simulated volumes could not be made"),
        _ => {}
    }
}

async fn report(world: &World, api: &Api, nodes: &Live, node: &Simulated, alone: bool, conditions: bool) -> Result<()> {
    let now = world.env.now();
    let present = match nodes.get(&Key::new("", &node.name)) {
        Some(present) => present,
        None => Arc::new(nodes.create("", &node.object(alone)).await?),
    };
    // A node that is scripted to be silent reports nothing.
    if silent(&present) {
        return Ok(());
    }
    let status = node.status(present.at("/status"), present.annotation(FAULT), now);
    if conditions || node.differs(&present) {
        nodes.write_status(&present, &status).await?;
    }
    let leases = builtin("coordination.k8s.io/v1", "Lease", "leases", true);
    let key = Key::new("kube-node-lease", &node.name);
    let renewed = json!(format!("{now:.6}"));
    let patch = Patch::Merge(json!({"spec": {"renewTime": renewed}}));
    match api.patch(&leases, &key, "", &patch).await {
        Err(error) if error.is_not_found() => {
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": present.uid()});
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node.name, "namespace": key.namespace, "ownerReferences": [owner]},
                "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": renewed},
            });
            api.create(&leases, &key.namespace, &lease).await?;
        }
        outcome => {
            outcome?;
        }
    }
    Ok(())
}
