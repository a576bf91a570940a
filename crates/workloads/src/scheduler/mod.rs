//! The scheduler: one pod at a time gets the best of the nodes that fit, or a condition that says why none does.

pub mod plan;
pub mod resources;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;

use self::plan::{Candidate, Decision, Neighbours, plan};
use self::resources::Usage;
use crate::Result;
use crate::api::{Api, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, condition, time};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{SCHEDULER, World};

const COMPONENT: &str = "default-scheduler";
/// A pod that fits nowhere is looked at again after this long even when nothing seems to have changed.
const AGAIN: Duration = Duration::from_secs(300);

#[derive(Default)]
struct State {
    usage: Usage,
    waiting: HashSet<Key>,
}

#[derive(Clone)]
struct Scheduler {
    world: World,
    api: Api,
    pods: Live,
    state: Arc<Mutex<State>>,
}

/// Runs the scheduler.
pub async fn run(world: World) {
    let queue: Queue<Key> = Queue::default();
    world.nodes.ready().await;
    world.pods.ready().await;
    let api = world.api_as(SCHEDULER);
    let pods = world.pods.written_by(&api);
    let scheduler = Scheduler { world: world.clone(), api, pods, state: Arc::default() };
    let (state, wake) = (scheduler.state.clone(), queue.clone());
    world.pods.on_change(move |change| {
        let freed = lock(&state).usage.follow(change.before.as_deref(), change.now.as_deref());
        if let Some(pod) = change.now.as_ref().filter(|pod| unscheduled(pod)) {
            wake.add(Key::of(pod));
        }
        if freed {
            wake_waiting(&state, &wake);
        }
    });
    let (state, wake) = (scheduler.state.clone(), queue.clone());
    world.nodes.on_change(move |change| {
        let relevant = |node: Option<&Object>| {
            node.map(|node| (node.at("/spec").clone(), node.at("/status/allocatable").clone(), node.labels().clone()))
        };
        if relevant(change.before.as_ref()) != relevant(change.now.as_ref()) {
            wake_waiting(&state, &wake);
        }
    });
    // One at a time: each decision rests on the one before.
    mainstay_runtime::run("scheduler", queue, 1, world.env.clone(), world.stop.clone(), move |key| {
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
        queue.add(key);
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
        if lock(&self.state).usage.knows(pod.uid()) {
            return Ok(Outcome::Done);
        }
        match self.decide(&pod) {
            Decision::Bind(node) => {
                self.bind(&pod, &node).await?;
                Ok(Outcome::Done)
            }
            Decision::Unschedulable(why) => {
                lock(&self.state).waiting.insert(key.clone());
                self.refuse(&pod, &why).await?;
                Ok(Outcome::After(AGAIN))
            }
        }
    }

    fn decide(&self, pod: &DynamicObject) -> Decision {
        let nodes = self.world.nodes.all();
        let candidates: Vec<Candidate<'_>> = {
            let state = lock(&self.state);
            let known = nodes.iter().filter(|node| !node.deleting());
            known.map(|node| Candidate { node, taken: state.usage.taken(node.name()) }).collect()
        };
        // Most pods have no rules between pods; then nobody is looked at.
        let rules = self.pods.all();
        let concerned: Vec<Object> = if pod.at("/spec/affinity").is_null() {
            rules.into_iter().filter(|other| !other.at("/spec/affinity/podAntiAffinity").is_null()).collect()
        } else {
            rules
        };
        plan(pod, &candidates, &Neighbours { pods: &concerned })
    }

    async fn bind(&self, pod: &Object, node: &str) -> Result<()> {
        lock(&self.state).usage.assign(pod, node);
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let key = Key::of(pod);
        if let Err(error) = self.api.post(self.pods.served(), &key, "binding", &binding).await {
            lock(&self.state).usage.remove(pod.uid());
            return Err(error);
        }
        lock(&self.state).waiting.remove(&key);
        let message = format!("Successfully assigned {key} to {node}");
        self.world.events.record(COMPONENT, "Normal", self.pods.served(), pod, "Scheduled", message);
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
