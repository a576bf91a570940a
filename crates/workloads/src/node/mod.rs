//! Simulated nodes: each has a Node with a Lease that is renewed, and a kubelet that runs its pods (KAPI-WL-03).

mod addresses;
pub mod behaviour;
mod command;
mod container;
mod fleet;
pub mod images;
pub mod object;
pub mod observed;
pub mod plan;
pub mod process;
pub mod pulls;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;

use self::addresses::Addresses;
use self::behaviour::{Behaviour, FAULT, SILENT, Script};
use self::fleet::Fleet;
use self::images::Images;
use self::object::{BOOT_ID, INSTANCE, REBOOTING, SIMULATED, Scripted, Simulated};
use self::plan::{Kubelet, Place, Step, plan, told};
use self::process::fields;
use self::process::{Links, Machine, PROCESS};
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

#[derive(Clone)]
struct Kubelets {
    world: World,
    pods: Live,
    fleet: Fleet,
    addresses: Arc<Mutex<Addresses>>,
    script: Arc<Script>,
    images: Images,
    processes: Option<(Machine, Links)>,
    pulls: Pulls,
}

/// The interval at which the volumes of processes are brought up to date.
const REFRESH: Duration = Duration::from_secs(15);
/// The most times that a pod is looked at again at once, because processes of it have started.
const ROUNDS: usize = 8;
/// The time that processes have to end when the nodes end.
const PROCESSES_END: Duration = Duration::from_millis(1_200);

/// Pods that are reconciled concurrently.
const WORKERS: usize = 16;

/// The message about a pod whose node has no address left.
const NO_ADDRESS: &str = "Failed to create pod sandbox: simulated: all addresses of the node's range of pods are in use";

/// Sources of containers.
pub struct Options {
    /// The images that exist.
    pub images: Images,
    /// The programs that stand for images.
    pub machine: Option<Machine>,
    /// The pulls of images whose content matters.
    pub puller: Option<Arc<dyn ImagePuller>>,
}

/// Runs the simulated nodes: `count` of them from the start, and one for each instance of the simulated provider.
pub async fn run(world: World, count: u32, script: Script, options: Options) {
    let Options { images, machine, puller } = options;
    let fleet = Fleet::start(&world, object::nodes(count));
    world.nodes.ready().await;
    world.pods.ready().await;
    let api = world.api_as(KUBELET);
    let heartbeats = tokio::spawn(beat(world.clone(), api.clone(), fleet.clone()));
    let queue: Queue<Key> = Queue::default();
    let links = |machine: Machine| {
        machine.sweep(&world.pods.all());
        let (served, events, env) = (world.pods.served().clone(), world.events.clone(), world.env.clone());
        (machine, Links { api: api.clone(), events, served, queue: queue.clone(), env })
    };
    let kubelets = Kubelets {
        processes: machine.map(links),
        pods: world.pods.written_by(&api),
        world: world.clone(),
        fleet: fleet.clone(),
        addresses: Arc::default(),
        script: Arc::new(script),
        images,
        pulls: Pulls::new(puller, queue.clone()),
    };
    // The addresses of existing pods are known before new pods get theirs.
    for pod in world.pods.all() {
        if let Some(node) = fleet.get(pod.text("/spec/nodeName")).filter(|_| !pod.text("/status/podIP").is_empty()) {
            lock(&kubelets.addresses).of(&pod, &node);
        }
    }
    let real = kubelets.processes.is_some();
    let (wake, addresses, pulls, known) = (queue.clone(), kubelets.addresses.clone(), kubelets.pulls.clone(), fleet.clone());
    world.pods.on_change(move |change| {
        if let (Some(gone), None) = (&change.before, &change.now) {
            pulls.forget(gone);
        }
        lock(&addresses).changed(change.before.as_deref(), change.now.as_deref());
        let on_node = |pod: &&Object| known.has(pod.text("/spec/nodeName"));
        if let Some(pod) = change.now.as_ref().or(change.before.as_ref().filter(|_| real)).filter(on_node) {
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
    // Pods may have been bound to a node before its kubelet came.
    let (wake, pods) = (queue.clone(), world.pods.clone());
    fleet.on_new(move |node| {
        pods.all().iter().filter(|pod| pod.text("/spec/nodeName") == node).for_each(|pod| wake.add(Key::of(pod)));
    });
    let refreshing = tokio::spawn(refresh(kubelets.clone()));
    let processes = kubelets.processes.clone();
    mainstay_runtime::run("kubelet", queue, WORKERS, world.env.clone(), world.stop.clone(), move |key| {
        let kubelets = kubelets.clone();
        async move { settle(kubelets.reconcile(&key).await) }
    })
    .await;
    refreshing.abort();
    if let Some((machine, _)) = processes {
        machine.end(PROCESSES_END).await;
    }
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
        let node = self.fleet.get(pod.text("/spec/nodeName"))?;
        let lost = self.world.nodes.get(&Key::new("", &node.name)).is_some_and(|node| silent(&node));
        let kubelet = if lost { Kubelet::Silent } else { Kubelet::Working };
        let place = Place { kubelet, host_ip: node.address(), pod_ip: addresses.of(&pod, &node) };
        Some((pod, place))
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        if let Some((machine, _)) = &self.processes {
            machine.keep(key, self.pods.get(key).as_ref().map(|pod| pod.uid()));
        }
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
                let image = container["image"].as_str().unwrap_or_default();
                if self.processes.as_ref().is_none_or(|(machine, _)| machine.program(image).is_none()) {
                    self.images.look(image, now).await;
                }
            }
        }
        let mut behaviour = Behaviour::of(&pod, &self.script, &|image| self.images.problem(image));
        self.observe(&pod, &mut behaviour);
        if !pod.deleting() && !crate::pod::finished(&pod) {
            self.pulls.look(&pod, &mut behaviour, now);
        }
        if let Some(problem) = &behaviour.problem {
            self.world.events.record(KUBELET, "Warning", self.pods.served(), &pod, "InvalidFault", problem.to_string());
        }
        let mut planned = plan(&pod, &place, &behaviour, now);
        if let Some((machine, links)) = &self.processes {
            if !planned.orders.start.is_empty() {
                self.tell_skipped(machine, &pod);
            }
            // What has started may let others start; each start is one round.
            for _ in 0..ROUNDS {
                if !machine.carry_out(links, &pod, &planned.orders, &addresses_of(&place)).await {
                    break;
                }
                self.observe(&pod, &mut behaviour);
                planned = plan(&pod, &place, &behaviour, self.world.env.now());
            }
            self.show_processes(machine, &pod).await?;
        }
        match planned.step {
            Step::Rest(again) => Ok(again.map_or(Outcome::Done, Outcome::After)),
            Step::Remove => {
                // A finalizer may hold the pod, which for the kubelet is deleted already.
                let held = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
                if pod.metadata.deletion_grace_period_seconds != Some(0) || !held {
                    self.pods.delete(key, &Delete { grace_seconds: Some(0), ..Delete::uid(pod.uid()) }).await?;
                }
                if let Some((machine, _)) = &self.processes {
                    machine.forget(pod.uid());
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

impl Kubelets {
    fn observe(&self, pod: &DynamicObject, behaviour: &mut Behaviour) {
        if let Some((machine, _)) = &self.processes {
            machine.observe(pod, behaviour);
        }
    }

    /// Tells of init containers for which no program stands: they are simulated beside real processes.
    fn tell_skipped(&self, machine: &Machine, pod: &DynamicObject) {
        for container in items(pod, "/spec/initContainers") {
            let text = |field: &str| container[field].as_str().unwrap_or_default();
            if machine.program(text("image")).is_none() {
                let message = format!("init container {} is simulated: no program stands for image {:?}", text("name"), text("image"));
                self.world.events.record(KUBELET, "Warning", self.pods.served(), pod, "SkippedInitContainer", message);
            }
        }
    }

    /// Shows in the pod's annotation which processes it has.
    async fn show_processes(&self, machine: &Machine, pod: &DynamicObject) -> Result<()> {
        let shown = machine.shown(pod.uid());
        if shown.as_deref() == pod.annotation(PROCESS) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid(), "annotations": {PROCESS: shown}}}));
        match self.pods.patch(&Key::of(pod), "", &patch).await {
            Err(error) if error.is_stale() => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

fn addresses_of(place: &Place) -> fields::Addresses {
    fields::Addresses { host: place.host_ip.clone(), pod: place.pod_ip.clone().unwrap_or_else(|| place.host_ip.clone()) }
}

/// Brings the volumes of processes up to date, again and again.
async fn refresh(kubelets: Kubelets) {
    let Some((machine, links)) = &kubelets.processes else { return };
    loop {
        tokio::time::sleep(REFRESH).await;
        for (uid, key) in machine.residents() {
            if let Some((pod, place)) = kubelets.resident(&key).filter(|(pod, place)| pod.uid() == uid && place.kubelet == Kubelet::Working)
            {
                machine.refresh(links, &pod, &addresses_of(&place)).await;
            }
        }
    }
}

/// Creates the Nodes and renews their Leases. Simulated Nodes beyond the count, of an earlier run, are deleted, but not those of instances.
async fn beat(world: World, api: Api, fleet: Fleet) {
    let nodes = world.nodes.written_by(&api);
    for node in nodes.all() {
        let simulated = node.labels().get(SIMULATED).is_some_and(|value| value == "true");
        if simulated && !fleet.has(node.name()) && node.annotation(INSTANCE).is_none() {
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
        let script = |node: Option<&Object>| {
            node.map(|node| [FAULT, REBOOTING, BOOT_ID].map(|key| node.annotation(key).map(str::to_owned))).unwrap_or_default()
        };
        if script(change.before.as_ref()) != script(change.now.as_ref()) || (change.before.is_some() && change.now.is_none()) {
            wake.notify_one();
        }
    });
    let wake = changed.clone();
    fleet.on_new(move |_| wake.notify_one());
    let note = |node: &Simulated, outcome: Result<()>| match outcome {
        Ok(()) => {}
        // Another client wrote the Node at the same time, so it is reconciled again.
        Err(error) if error.is_conflict() => changed.notify_one(),
        Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, node = node.name, "a simulated node could not report"),
    };
    let mut beats: u64 = 0;
    let mut next = tokio::time::Instant::now();
    loop {
        let all = fleet.all();
        for node in &all {
            note(node, report(&world, &api, &nodes, &fleet, node, beats.is_multiple_of(REPORT)).await);
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
            for node in &fleet.all() {
                let stale = nodes.get(&Key::new("", &node.name)).is_none_or(|present| node.differs(&present));
                if stale {
                    note(node, report(&world, &api, &nodes, &fleet, node, true).await);
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

async fn report(world: &World, api: &Api, nodes: &Live, fleet: &Fleet, node: &Simulated, conditions: bool) -> Result<()> {
    let now = world.env.now();
    let present = match nodes.get(&Key::new("", &node.name)) {
        Some(present) => present,
        // A kubelet registers its node once: one that was deleted stays away until the kubelet starts again.
        None if !fleet.registers(node) => return Ok(()),
        None => {
            let made = Arc::new(nodes.create("", &node.object(fleet.is_single())).await?);
            fleet.registered(node);
            made
        }
    };
    // A node that is scripted to be silent reports nothing.
    if silent(&present) {
        return Ok(());
    }
    let status = node.status(present.at("/status"), Scripted::of(&present), now);
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
