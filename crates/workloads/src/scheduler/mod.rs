//! The scheduler: each pod gets the best of the nodes that fit, or a condition that says why none does (KAPI-WL-02).
//!
//! Decisions are taken one after the other, each on what the ones before assumed; what they lead to (binding, driving away) is
//! carried out side by side.

pub mod affinity;
pub mod cluster;
pub mod plan;
pub mod resources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::cluster::Cluster;
use self::plan::{Budget, Decision, Incoming, plan};
use crate::Result;
use crate::api::{Api, Delete, Patch};
use crate::lifecycle::plan::disrupted;
use crate::live::Live;
use crate::object::{Object, Read as _, condition, time};
use crate::pod;
use crate::replicaset::settle;
use crate::volumes::Storage;
use crate::volumes::plan::{SELECTED, claims_of};
use crate::world::{SCHEDULER, World};

const COMPONENT: &str = "default-scheduler";
/// A pod that fits nowhere is looked at again after this long even when nothing seems to have changed.
const AGAIN: Duration = Duration::from_secs(300);
/// Changes that could help waiting pods are gathered for so long.
const GATHER: Duration = Duration::from_millis(20);
/// Bindings under way at the same time.
const WORKERS: usize = 16;

#[derive(Default)]
struct State {
    cluster: Cluster,
    waiting: HashSet<Key>,
}

/// What the scheduler follows besides pods and nodes.
#[derive(Clone)]
pub struct Followed {
    /// Namespaces, whose labels rules between pods may ask for.
    pub namespaces: Live,
    /// PodDisruptionBudgets, which preemption spares where it can.
    pub budgets: Live,
    /// Claims, volumes and classes.
    pub storage: Storage,
}

#[derive(Clone)]
struct Scheduler {
    world: World,
    api: Api,
    pods: Live,
    followed: Followed,
    state: Arc<Mutex<State>>,
}

/// What to do for a pod.
enum Next {
    Bind(String),
    Claim(String, Vec<Object>),
    Preempt(String, Vec<Object>, String),
    Refuse(String),
}

/// Runs the scheduler.
pub async fn run(world: World, followed: Followed) {
    let queue: Queue<Key> = Queue::default();
    for live in [&world.nodes, &world.pods, &followed.namespaces, &followed.budgets] {
        live.ready().await;
    }
    followed.storage.ready().await;
    let api = world.api_as(SCHEDULER);
    let pods = world.pods.written_by(&api);
    let scheduler = Scheduler { world: world.clone(), api, pods, followed: followed.clone(), state: Arc::default() };
    let (state, wake) = (scheduler.state.clone(), queue.clone());
    world.nodes.on_change(move |change| {
        let Some(node) = change.object() else { return };
        lock(&state).cluster.set_node(node.name(), change.now.as_ref());
        let relevant = |node: Option<&Object>| {
            node.map(|node| (node.at("/spec").clone(), node.at("/status/allocatable").clone(), node.labels().clone()))
        };
        if relevant(change.before.as_ref()) != relevant(change.now.as_ref()) {
            wake_waiting(&state, &wake);
        }
    });
    let (state, wake) = (scheduler.state.clone(), queue.clone());
    world.pods.on_change(move |change| {
        let freed = lock(&state).cluster.follow(change.before.as_ref(), change.now.as_ref());
        if let Some(pod) = change.now.as_ref().filter(|pod| unscheduled(pod)) {
            // What only tells why it waits is no reason to look again.
            let relevant = |pod: &Object| (pod.at("/spec").clone(), pod.labels().clone());
            if change.before.as_ref().is_none_or(|before| before.uid() != pod.uid() || relevant(before) != relevant(pod)) {
                wake.add(Key::of(pod));
            }
        }
        // A pod that came may be the one that others want to be beside.
        let arrived = change.now.as_ref().is_some_and(|pod| !pod.text("/spec/nodeName").is_empty())
            && change.before.as_ref().is_none_or(|before| before.text("/spec/nodeName").is_empty());
        if freed || arrived {
            wake_waiting(&state, &wake);
        }
    });
    for live in [&followed.storage.claims, &followed.storage.volumes, &followed.storage.classes] {
        let (state, wake) = (scheduler.state.clone(), queue.clone());
        live.on_change(move |_| wake_waiting(&state, &wake));
    }
    mainstay_runtime::run("scheduler", queue, WORKERS, world.env.clone(), world.stop.clone(), move |key| {
        let scheduler = scheduler.clone();
        async move { settle(scheduler.reconcile(&key).await) }
    })
    .await;
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake_waiting(state: &Mutex<State>, queue: &Queue<Key>) {
    let waiting: Vec<Key> = lock(state).waiting.iter().cloned().collect();
    for key in waiting {
        queue.add_after(key, GATHER);
    }
}

fn unscheduled(pod: &DynamicObject) -> bool {
    let ours = matches!(pod.text("/spec/schedulerName"), "" | "default-scheduler");
    let gated = pod.at("/spec/schedulingGates").as_array().is_some_and(|gates| !gates.is_empty());
    ours && !gated && pod.text("/spec/nodeName").is_empty() && pod::active(pod)
}

impl Scheduler {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(pod) = self.pods.get(key).filter(|pod| unscheduled(pod)) else {
            lock(&self.state).waiting.remove(key);
            return Ok(Outcome::Done);
        };
        let Some(next) = self.decide(key, &pod) else { return Ok(Outcome::Done) };
        match next {
            Next::Bind(node) => {
                self.bind(&pod, &node).await?;
                Ok(Outcome::Done)
            }
            Next::Claim(node, claims) => {
                for claim in claims.iter().filter(|claim| claim.annotation(SELECTED) != Some(node.as_str())) {
                    let patch = json!({"metadata": {"uid": claim.uid(), "annotations": {SELECTED: node}}});
                    let claims = self.followed.storage.claims.written_by(&self.api);
                    claims.patch(&Key::of(claim), "", &Patch::Merge(patch)).await?;
                }
                Ok(Outcome::After(AGAIN))
            }
            Next::Preempt(node, victims, why) => {
                self.preempt(&pod, &node, &victims).await?;
                self.refuse(&pod, &why).await?;
                Ok(Outcome::After(AGAIN))
            }
            Next::Refuse(why) => {
                self.refuse(&pod, &why).await?;
                Ok(Outcome::After(AGAIN))
            }
        }
    }

    /// Decides, and assumes what was decided before anybody else does.
    fn decide(&self, key: &Key, pod: &Object) -> Option<Next> {
        let (incoming, delayed) = self.incoming(pod);
        let budgets = self.budgets(pod);
        let namespaces = |name: &str| -> Option<BTreeMap<String, String>> {
            self.followed.namespaces.get(&Key::new("", name)).map(|namespace| namespace.labels().clone())
        };
        let mut state = lock(&self.state);
        if state.cluster.knows(pod.uid()) {
            return None;
        }
        Some(match plan(&incoming, &state.cluster, &namespaces, &budgets) {
            Decision::Bind(node) if delayed.is_empty() => {
                state.cluster.assign(pod, &node);
                state.waiting.remove(key);
                Next::Bind(node)
            }
            Decision::Bind(node) => {
                state.waiting.insert(key.clone());
                Next::Claim(node, delayed)
            }
            Decision::Preempt { node, victims, why } => {
                state.waiting.insert(key.clone());
                state.cluster.nominate(pod, &node);
                Next::Preempt(node, victims, why)
            }
            Decision::Unschedulable(why) => {
                state.waiting.insert(key.clone());
                Next::Refuse(why)
            }
        })
    }

    /// The pod with what its claims mean, and those of them that wait for a node to be chosen.
    fn incoming<'a>(&self, pod: &'a Object) -> (Incoming<'a>, Vec<Object>) {
        let storage = &self.followed.storage;
        let mut incoming = Incoming { pod, problem: None, volumes: Vec::new() };
        let mut delayed = Vec::new();
        for name in claims_of(pod) {
            let Some(claim) = storage.claims.get(&Key::new(pod.namespace(), &name)) else {
                incoming.problem = Some(format!("persistentvolumeclaim {name:?} not found"));
                break;
            };
            if claim.deleting() {
                incoming.problem = Some(format!("persistentvolumeclaim {name:?} is being deleted"));
                break;
            }
            if claim.text("/status/phase") == "Bound" {
                let volume = storage.volumes.get(&Key::new("", claim.text("/spec/volumeName")));
                let affinity = volume.map(|volume| volume.at("/spec/nodeAffinity/required").clone());
                incoming.volumes.extend(affinity.filter(Value::is_object));
            } else if claim.text("/status/phase") == "Lost" {
                incoming.problem = Some(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                    claim.text("/spec/volumeName")
                ));
            } else if storage.class_of(&claim).is_some_and(|class| class.text("/volumeBindingMode") == "WaitForFirstConsumer") {
                delayed.push(claim);
            } else {
                incoming.problem = Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        (incoming, delayed)
    }

    /// Budgets matter only to pods that could drive others away.
    fn budgets(&self, pod: &DynamicObject) -> Vec<Budget> {
        if cluster::priority(pod) <= 0 {
            return Vec::new();
        }
        let of = |budget: Object| Budget {
            namespace: budget.namespace().to_owned(),
            selector: budget.at("/spec/selector").clone(),
            allowed: budget.int("/status/disruptionsAllowed").unwrap_or_default(),
        };
        self.followed.budgets.all().into_iter().map(of).collect()
    }

    async fn bind(&self, pod: &Object, node: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let key = Key::of(pod);
        if let Err(error) = self.api.post(self.pods.served(), &key, "binding", &binding).await {
            lock(&self.state).cluster.remove(pod.uid());
            return Err(error);
        }
        let message = format!("Successfully assigned {key} to {node}");
        self.world.events.record(COMPONENT, "Normal", self.pods.served(), pod, "Scheduled", message);
        Ok(())
    }

    /// Drives pods away, and says for whom.
    async fn preempt(&self, pod: &Object, node: &str, victims: &[Object]) -> Result<()> {
        for victim in victims.iter().filter(|victim| !victim.deleting()) {
            let why = format!("{COMPONENT}: preempting to accommodate a higher priority pod");
            let disrupted = disrupted(victim, "PreemptionByScheduler", &why, self.world.env.now());
            let patch = Patch::Strategic(json!({"metadata": {"uid": victim.uid()}, "status": {"conditions": [disrupted]}}));
            let key = Key::of(victim);
            let told = self.pods.patch(&key, "status", &patch).await;
            let gone = match told {
                Ok(_) => self.pods.delete(&key, &Delete::uid(victim.uid())).await.map(|_| ()),
                Err(error) => Err(error),
            };
            match gone {
                Err(error) if !error.is_stale() => return Err(error),
                _ => {}
            }
            let message = format!("Preempted by pod {} on node {node}", pod.uid());
            self.world.events.record(COMPONENT, "Normal", self.pods.served(), victim, "Preempted", message);
        }
        if pod.text("/status/nominatedNodeName") != node {
            let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": {"nominatedNodeName": node}}));
            self.pods.patch(&Key::of(pod), "status", &patch).await?;
        }
        Ok(())
    }

    async fn refuse(&self, pod: &Object, why: &str) -> Result<()> {
        let present = condition(pod.at("/status/conditions"), "PodScheduled");
        if present.is_some_and(|present| present["status"] == "False" && present["message"] == why) {
            return Ok(());
        }
        let since = present
            .filter(|present| present["status"] == "False")
            .map_or_else(|| time(self.world.env.now()), |present| present["lastTransitionTime"].clone());
        let refused = json!({
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": since,
            "reason": "Unschedulable", "message": why,
        });
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [refused]}});
        self.pods.patch(&Key::of(pod), "status", &Patch::Strategic(patch)).await?;
        self.world.events.record(COMPONENT, "Warning", self.pods.served(), pod, "FailedScheduling", why);
        Ok(())
    }
}
