//! StatefulSets: pods with stable names, in order (KAPI-WL-01).

pub mod plan;

use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::plan::{Facts, Step};
use crate::api::Patch;
use crate::live::Live;
use crate::object::{Object, Read as _};
use crate::replicaset::{delete_pod, settle};
use crate::revision;
use crate::world::{World, label_selector, wake_controller, wake_selecting, wake_self};
use crate::{Result, claim};

const COMPONENT: &str = "statefulset-controller";

#[derive(Clone)]
struct Controller {
    world: World,
    sets: Live,
    revisions: Live,
    claims: Live,
}

/// Runs the controller.
pub async fn run(world: World, sets: Live, revisions: Live, claims: Live) {
    let queue = Queue::default();
    for live in [&sets, &revisions, &claims, &world.pods] {
        live.ready().await;
    }
    wake_self(&sets, &queue);
    wake_controller(&world.pods, "StatefulSet", &queue);
    wake_selecting(&sets, &world.pods, &queue, label_selector);
    wake_claimants(&sets, &claims, &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, sets, revisions, claims };
    mainstay_runtime::run("statefulset", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// Wakes the sets that a claim is of by its name, so that its owners are put right.
fn wake_claimants(sets: &Live, claims: &Live, queue: &Queue<Key>) {
    let (sets, queue) = (sets.clone(), queue.clone());
    claims.on_change(move |change| {
        let Some(claim) = change.now.as_ref().or(change.before.as_ref()) else { return };
        for set in sets.in_namespace(claim.namespace()) {
            if claim.name().contains(&format!("-{}-", set.name())) {
                queue.add(Key::of(&set));
            }
        }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(set) = self.sets.get(key).filter(|set| !set.deleting()) else { return Ok(Outcome::Done) };
        // Only pods that have the set's name and an ordinal can belong to it.
        let named = self.world.pods.claimable(&key.namespace, set.uid()).into_iter().filter(|pod| plan::ordinal(&set, pod).is_some());
        let claim = claim::claim(&set, set.at("/spec/selector"), named);
        let pods = claim::carry_out(claim, &self.sets, &set, &self.world.pods).await?;
        let update = revision::current(&self.revisions, "apps/v1", "StatefulSet", &set).await?;
        let all = revision::of(&self.revisions, &set);
        let known = set.text("/status/currentRevision");
        let current = all.iter().find(|revision| revision.name() == known).map_or(update.name(), |revision| revision.name());
        let facts = Facts { set: &set, pods: &pods, update: update.name(), current, now: self.world.env.now() };
        self.keep_claims(&set, &pods).await?;
        for step in plan::plan(&facts) {
            match step {
                Step::Make { ordinal, revision } => {
                    let template = match all.iter().find(|one| one.name() == revision) {
                        Some(old) => revision::template(old),
                        None => set.at("/spec/template").clone(),
                    };
                    self.make(&set, &template, ordinal, &revision).await?;
                }
                Step::Delete(pod) => delete_pod(&self.world, &self.sets, COMPONENT, &set, &pod).await?,
            }
        }
        let pods: Vec<Object> = self.world.pods.owned_by(set.uid());
        let status = plan::status(&Facts { pods: &pods, ..facts });
        if *set.at("/status") != status {
            self.sets.write_status(&set, &status).await?;
        }
        let mut used: Vec<String> = pods.iter().filter_map(|pod| pod.labels().get(revision::HASH).cloned()).collect();
        used.extend([update.name().to_owned(), current.to_owned()]);
        revision::trim(&self.revisions, &set, &used).await?;
        let min_ready = set.int("/spec/minReadySeconds").unwrap_or_default();
        if min_ready > 0 && status["readyReplicas"].as_i64().unwrap_or_default() != status["availableReplicas"].as_i64().unwrap_or_default()
        {
            return Ok(Outcome::After(Duration::from_secs(min_ready.unsigned_abs())));
        }
        Ok(Outcome::Done)
    }

    /// Sets the owners of claims by the retention policy.
    async fn keep_claims(&self, set: &DynamicObject, pods: &[Object]) -> Result<()> {
        for (pod, number) in pods.iter().filter_map(|pod| Some((pod, plan::ordinal(set, pod)?))) {
            for wanted in plan::claims(set, number) {
                let key = Key::new(set.namespace(), wanted["metadata"]["name"].as_str().unwrap_or_default());
                let Some(claim) = self.claims.get(&key) else { continue };
                let Some(owners) = plan::owners(set, &claim, pod, number) else { continue };
                let meta = json!({"uid": claim.uid(), "resourceVersion": claim.metadata.resource_version, "ownerReferences": owners});
                self.claims.patch(&key, "", &Patch::Merge(json!({"metadata": meta}))).await?;
            }
        }
        Ok(())
    }

    async fn make(&self, set: &DynamicObject, template: &Value, ordinal: i64, revision: &str) -> Result<()> {
        for claim in plan::claims(set, ordinal) {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            if self.claims.get(&Key::new(set.namespace(), name)).is_some() {
                continue;
            }
            match self.claims.create(set.namespace(), &claim).await {
                Ok(_) => {
                    let message = format!("create Claim {name} Pod {}-{ordinal} in StatefulSet {} success", set.name(), set.name());
                    self.world.events.record(COMPONENT, "Normal", self.sets.served(), set, "SuccessfulCreate", message);
                }
                // A claim outlives its pod: that is its purpose.
                Err(error) if error.is_already_there() => {}
                Err(error) => return Err(error),
            }
        }
        let body = plan::body(set, template, ordinal, revision);
        let name = format!("{}-{ordinal}", set.name());
        match self.world.pods.create(set.namespace(), &body).await {
            Ok(_) => {
                let message = format!("create Pod {name} in StatefulSet {} successful", set.name());
                self.world.events.record(COMPONENT, "Normal", self.sets.served(), set, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_stale() && !error.is_already_there() {
                    let message = format!("create Pod {name} in StatefulSet {} failed error: {}", set.name(), error.message());
                    self.world.events.record(COMPONENT, "Warning", self.sets.served(), set, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }
}
