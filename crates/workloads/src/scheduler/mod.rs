//! The scheduler: each pod gets the best of the nodes that fit, or a condition with the reason why none does (KAPI-WL-02).
//!
//! Decisions are sequential, and each includes what earlier ones assumed. Their execution (binding, preemption) is
//! concurrent.

pub mod affinity;
pub mod claims;
pub mod cluster;
pub mod plan;
pub mod resources;
pub mod scheduling_queue;
#[cfg(test)]
mod tests;
pub mod waiting;

use std::sync::Arc;
use std::time::Duration;

use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;

use self::plan::{Budget, Incoming};
use self::scheduling_queue::{Facts, Next, SchedulingQueue, unscheduled};
use crate::Result;
use crate::api::{Api, Delete, Patch};
use crate::lifecycle::plan::disrupted;
use crate::live::Live;
use crate::object::{Object, Read as _, condition, time};
use crate::replicaset::settle;
use crate::volumes::Storage;
use crate::volumes::plan::SELECTED;
use crate::world::{SCHEDULER, World};

const COMPONENT: &str = "default-scheduler";
/// The interval at which a pod that fits nowhere is reconsidered even without a relevant change.
const AGAIN: Duration = Duration::from_secs(300);
/// The bindings that are executed concurrently.
const WORKERS: usize = 16;

/// The kinds that the scheduler follows besides pods and nodes.
#[derive(Clone)]
pub struct Followed {
    /// Namespaces, whose labels the rules between pods may select.
    pub namespaces: Live,
    /// PodDisruptionBudgets, which preemption respects if possible.
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
    waiting: Arc<SchedulingQueue>,
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
    let waiting = Arc::new(SchedulingQueue::new(queue.clone()));
    let scheduler = Scheduler { world: world.clone(), api, pods, followed: followed.clone(), waiting: waiting.clone() };
    let told = waiting.clone();
    world.nodes.on_change(move |change| told.node_changed(change));
    let told = waiting.clone();
    world.pods.on_change(move |change| told.pod_changed(change));
    let told = waiting.clone();
    followed.namespaces.on_change(move |change| told.namespace_changed(change));
    for live in [&followed.storage.claims, &followed.storage.volumes, &followed.storage.classes] {
        let told = waiting.clone();
        live.on_change(move |change| told.storage_changed(change));
    }
    mainstay_runtime::run("scheduler", queue, WORKERS, world.env.clone(), world.stop.clone(), move |key| {
        let scheduler = scheduler.clone();
        async move { settle(scheduler.reconcile(&key).await) }
    })
    .await;
}

impl Scheduler {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(pod) = self.pods.get(key).filter(|pod| unscheduled(pod)) else {
            self.waiting.settled(key);
            return Ok(Outcome::Done);
        };
        let Some(next) = self.waiting.decide(key, &pod, self) else { return Ok(Outcome::Done) };
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
            Next::Preempt { node, victims, why } => {
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

    async fn bind(&self, pod: &Object, node: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let key = Key::of(pod);
        if let Err(error) = self.api.post(self.pods.served(), &key, "binding", &binding).await {
            self.waiting.bind_failed(pod, self);
            return Err(error);
        }
        let message = format!("Successfully assigned {key} to {node}");
        self.world.events.record(COMPONENT, "Normal", self.pods.served(), pod, "Scheduled", message);
        Ok(())
    }

    /// Evicts pods, and records for which pod.
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

impl Facts for Scheduler {
    fn pod(&self, key: &Key) -> Option<Object> {
        self.pods.get(key)
    }

    fn incoming<'a>(&self, pod: &'a Object) -> (Incoming<'a>, Vec<Object>) {
        claims::incoming(pod, &self.followed.storage)
    }

    fn namespace(&self, name: &str) -> Option<Object> {
        self.followed.namespaces.get(&Key::new("", name))
    }

    fn budgets(&self) -> Vec<Budget> {
        let of = |budget: Object| Budget {
            namespace: budget.namespace().to_owned(),
            selector: budget.at("/spec/selector").clone(),
            allowed: budget.int("/status/disruptionsAllowed").unwrap_or_default(),
        };
        self.followed.budgets.all().into_iter().map(of).collect()
    }
}
