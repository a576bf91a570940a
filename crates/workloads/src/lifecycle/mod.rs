//! The lifecycle of nodes: silent nodes are tainted, pods that do not tolerate the taint are evicted, and pods of deleted nodes are
//! collected (KAPI-WL-01).
//!
//! ```text
//!   Leases ──► last heard of ─┐
//!   Nodes ────────────────────┴─► plan ──► conditions, taints ──► pods: not ready, evicted
//!   Pods ──► collect: without a node, without an owner of their place, too many that have ended
//! ```

pub mod collect;
pub mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue, Scope};
use serde_json::json;

use crate::Result;
use crate::api::{Delete, Patch};
use crate::object::{Object, Read as _, condition, items, time};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const COMPONENT: &str = "node-controller";
const EVICTOR: &str = "taint-eviction-controller";

/// The last sign of life of each node, by this process' clock: the clocks of nodes are not trusted.
type Heard = Arc<Mutex<HashMap<String, (String, Timestamp)>>>;

#[derive(Clone)]
struct Controller {
    world: World,
    heard: Heard,
    pods_of: Queue<Key>,
}

fn lock(heard: &Heard) -> MutexGuard<'_, HashMap<String, (String, Timestamp)>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the controllers of nodes and of their pods.
pub async fn run(world: World) {
    let scope = Scope { namespace: Some("kube-node-lease".to_owned()), ..Scope::default() };
    let leases = world.follow_some("coordination.k8s.io/v1", "Lease", "leases", true, &scope);
    for live in [&world.nodes, &world.pods, &leases] {
        live.ready().await;
    }
    let (nodes, pods): (Queue<Key>, Queue<Key>) = (Queue::default(), Queue::default());
    let controller = Controller { world: world.clone(), heard: Heard::default(), pods_of: pods.clone() };
    let (heard, env, wake, known) = (controller.heard.clone(), world.env.clone(), nodes.clone(), world.nodes.clone());
    leases.on_change(move |change| {
        let Some(lease) = change.now.as_ref() else { return };
        hear(&heard, lease.name(), lease.text("/spec/renewTime"), env.now());
        let key = Key::new("", lease.name());
        // A lost node is found again by its own report, so only a node whose readiness is unknown needs a look.
        if known
            .get(&key)
            .is_some_and(|node| condition(node.at("/status/conditions"), "Ready").is_none_or(|ready| ready["status"] == "Unknown"))
        {
            wake.add(key);
        }
    });
    let (heard, env) = (controller.heard.clone(), world.env.clone());
    world.nodes.on_change(move |change| {
        if let Some(node) = change.now.as_ref() {
            let beat = condition(node.at("/status/conditions"), "Ready").map(|ready| ready["lastHeartbeatTime"].to_string());
            hear(&heard, &format!("{}/", node.name()), beat.as_deref().unwrap_or_default(), env.now());
        } else if let Some(node) = change.before.as_ref() {
            lock(&heard).retain(|name, _| name.trim_end_matches('/') != node.name());
        }
    });
    wake_self(&world.nodes, &nodes);
    watch_pods(&world, &pods);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let (of_nodes, of_pods) = (controller.clone(), controller);
    tokio::join!(
        mainstay_runtime::run("node-lifecycle", nodes, 2, env.clone(), stop.clone(), move |key| {
            let controller = of_nodes.clone();
            async move { settle(controller.node(&key).await) }
        }),
        mainstay_runtime::run("taint-eviction", pods, 4, env, stop, move |key| {
            let controller = of_pods.clone();
            async move { settle(controller.pod(&key).await) }
        }),
        collect::run(world),
    );
}

fn hear(heard: &Heard, name: &str, sign: &str, now: Timestamp) {
    let mut heard = lock(heard);
    if !sign.is_empty() && heard.get(name).is_none_or(|(known, _)| known != sign) {
        heard.insert(name.to_owned(), (sign.to_owned(), now));
    }
}

/// Watches pods on tainted nodes: they are checked when they arrive, and when the taints change.
fn watch_pods(world: &World, queue: &Queue<Key>) {
    let (wake, nodes) = (queue.clone(), world.nodes.clone());
    world.pods.on_change(move |change| {
        let Some(pod) = change.now.as_ref().filter(|pod| !pod.text("/spec/nodeName").is_empty()) else { return };
        let arrived = change.before.as_ref().is_none_or(|before| before.at("/spec") != pod.at("/spec"));
        if arrived && nodes.get(&Key::new("", pod.text("/spec/nodeName"))).is_some_and(|node| expels(&node)) {
            wake.add(Key::of(pod));
        }
    });
    let (wake, pods) = (queue.clone(), world.pods.clone());
    world.nodes.on_change(move |change| {
        let Some(node) = change.now.as_ref().filter(|node| expels(node)) else { return };
        if change.before.as_ref().is_none_or(|before| before.at("/spec/taints") != node.at("/spec/taints")) {
            pods.all().iter().filter(|pod| pod.text("/spec/nodeName") == node.name()).for_each(|pod| wake.add(Key::of(pod)));
        }
    });
}

fn expels(node: &DynamicObject) -> bool {
    items(node, "/spec/taints").any(|taint| taint["effect"] == "NoExecute")
}

impl Controller {
    async fn node(&self, key: &Key) -> Result<Outcome> {
        let Some(node) = self.world.nodes.get(key) else { return Ok(Outcome::Done) };
        let heard = {
            let heard = lock(&self.heard);
            [node.name().to_owned(), format!("{}/", node.name())].iter().filter_map(|name| heard.get(name).map(|(_, at)| *at)).max()
        };
        let plan = plan::plan(&node, heard, self.world.env.now());
        let mut current = DynamicObject::clone(&node);
        if let Some(conditions) = plan.conditions {
            let mut status = node.at("/status").as_object().cloned().unwrap_or_default();
            status.insert("conditions".into(), conditions);
            current = self.world.nodes.write_status(&node, &status.into()).await?;
        }
        if plan.ceased {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            self.world.events.record(COMPONENT, "Normal", self.world.nodes.served(), &node, "NodeNotReady", message);
        }
        // The two writes are independent: refused taints do not leave pods ready, nor the other way round.
        let tainted = match plan.taints {
            Some(taints) => {
                let meta = json!({"uid": node.uid(), "resourceVersion": current.metadata.resource_version});
                let patch = Patch::Merge(json!({"metadata": meta, "spec": {"taints": taints}}));
                self.world.nodes.patch(key, "", &patch).await.map(drop)
            }
            None => Ok(()),
        };
        let marked = if plan.lost { self.mark_pods(&node).await } else { Ok(()) };
        tainted.and(marked)?;
        Ok(plan.again.map_or(Outcome::Done, |again| Outcome::After(again.max(Duration::from_millis(100)))))
    }

    /// Marks the pods of a silent node as not ready: they serve no requests, whatever they reported last.
    async fn mark_pods(&self, node: &DynamicObject) -> Result<()> {
        let here = |pod: &Object| pod.text("/spec/nodeName") == node.name() && pod::ready(pod);
        for pod in self.world.pods.all().into_iter().filter(here) {
            let now = time(self.world.env.now());
            let unready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
            let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [unready]}}));
            match self.world.pods.patch(&Key::of(&pod), "status", &patch).await {
                Ok(_) => {
                    self.world.events.record(COMPONENT, "Warning", self.world.pods.served(), &pod, "NodeNotReady", "Node is not ready");
                }
                Err(error) if error.is_stale() => {}
                Err(error) => return Err(error),
            }
            self.pods_of.add(Key::of(&pod));
        }
        Ok(())
    }

    async fn pod(&self, key: &Key) -> Result<Outcome> {
        let Some(pod) = self.world.pods.get(key).filter(|pod| !pod.deleting()) else { return Ok(Outcome::Done) };
        let Some(node) = self.world.nodes.get(&Key::new("", pod.text("/spec/nodeName"))) else { return Ok(Outcome::Done) };
        let Some(at) = plan::evicted_at(&pod, &node) else { return Ok(Outcome::Done) };
        let now = self.world.env.now();
        if at > now {
            return Ok(Outcome::After(at.duration_since(now).try_into().unwrap_or_default()));
        }
        let message = format!("Marking for deletion Pod {key}");
        self.world.events.record(EVICTOR, "Normal", self.world.pods.served(), &pod, "TaintManagerEviction", message);
        let disrupted = plan::disrupted(&pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now);
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [disrupted]}}));
        self.world.pods.patch(key, "status", &patch).await?;
        self.world.pods.delete(key, &Delete::uid(pod.uid())).await?;
        Ok(Outcome::Done)
    }
}
