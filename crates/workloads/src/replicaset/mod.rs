//! ReplicaSets and ReplicationControllers: they keep the desired number of pods (KAPI-WL-01).

pub mod plan;

use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::api::Delete;
use crate::live::Live;
use crate::object::{Object, Read as _};
use crate::world::{World, wake_controller, wake_selecting, wake_self};
use crate::{Error, Result, claim, pod};

/// The kind that is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The kind of apps/v1.
    ReplicaSet,
    /// The kind of the core group; its selector is a plain map of labels.
    ReplicationController,
}

impl Flavour {
    fn api_version(self) -> &'static str {
        match self {
            Self::ReplicaSet => "apps/v1",
            Self::ReplicationController => "v1",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    fn component(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
        }
    }

    fn selector(self, object: &DynamicObject) -> Value {
        match self {
            Self::ReplicaSet => object.at("/spec/selector").clone(),
            Self::ReplicationController => json!({"matchLabels": object.at("/spec/selector")}),
        }
    }
}

#[derive(Clone)]
struct Controller {
    world: World,
    replicasets: Live,
    flavour: Flavour,
}

/// Runs the controller.
pub async fn run(world: World, replicasets: Live, flavour: Flavour) {
    let queue = Queue::default();
    replicasets.ready().await;
    world.pods.ready().await;
    wake_self(&replicasets, &queue);
    wake_controller(&world.pods, flavour.kind(), &queue);
    wake_selecting(&replicasets, &world.pods, &queue, move |object| flavour.selector(object));
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, replicasets, flavour };
    mainstay_runtime::run(flavour.component(), queue, 4, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// Turns a change of the cluster into a retry, since it is not a failure. In a terminating namespace, the work is done.
pub fn settle(outcome: Result<Outcome>) -> Result<Outcome> {
    match outcome {
        Err(error) if error.is_terminating() => Ok(Outcome::Done),
        Err(error) if error.is_stale() || error.is_already_there() => Ok(Outcome::Retry),
        other => other,
    }
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(replicaset) = self.replicasets.get(key) else { return Ok(Outcome::Done) };
        let candidates = self.world.pods.claimable(&key.namespace, replicaset.uid()).into_iter().filter(|pod| !pod::finished(pod));
        let claim = claim::claim(&replicaset, &self.flavour.selector(&replicaset), candidates);
        let own = claim::carry_out(claim, &self.replicasets, &replicaset, &self.world.pods).await?;
        let active: Vec<Object> = own.into_iter().filter(|pod| pod::active(pod)).collect();
        let now = self.world.env.now();
        let failure = match plan::pods(&replicaset, &active, &self.related(&replicaset), now) {
            plan::Pods::Enough => None,
            plan::Pods::Make(count) => self.make(&replicaset, count).await.err().map(|error| ("FailedCreate", error)),
            plan::Pods::Delete(pods) => self.delete(&replicaset, &pods).await.err().map(|error| ("FailedDelete", error)),
        };
        // The pods that were created and deleted are seen by now.
        let active: Vec<Object> = self.world.pods.owned_by(replicaset.uid()).into_iter().filter(|pod| pod::active(pod)).collect();
        let told = failure.as_ref().map(|(reason, error)| (*reason, error.message()));
        let told = told.as_ref().map(|(reason, message)| (*reason, message.as_str()));
        let now = self.world.env.now();
        let status = plan::status(&replicaset, &active, told, now);
        if *replicaset.at("/status") != status {
            self.replicasets.write_status(&replicaset, &status).await?;
        }
        if let Some((_, error)) = failure {
            return Err(error);
        }
        let min_ready = replicaset.int("/spec/minReadySeconds").unwrap_or_default();
        if min_ready > 0 && status["readyReplicas"] != status["availableReplicas"] {
            return Ok(Outcome::After(Duration::from_secs(min_ready.unsigned_abs())));
        }
        Ok(Outcome::Done)
    }

    /// Returns the pods of all ReplicaSets of the same owner.
    fn related(&self, replicaset: &DynamicObject) -> Vec<Object> {
        let Some(owner) = replicaset.controller() else { return self.world.pods.owned_by(replicaset.uid()) };
        let siblings = self.replicasets.owned_by(&owner.uid);
        siblings.iter().flat_map(|sibling| self.world.pods.owned_by(sibling.uid())).collect()
    }

    async fn make(&self, replicaset: &DynamicObject, count: usize) -> Result<()> {
        let body = pod::from_template(replicaset.at("/spec/template"), self.flavour.api_version(), self.flavour.kind(), replicaset);
        make_pods(&self.world, &self.replicasets, self.flavour.component(), replicaset, &body, count).await
    }

    async fn delete(&self, replicaset: &DynamicObject, pods: &[Object]) -> Result<()> {
        for pod in pods {
            delete_pod(&self.world, &self.replicasets, self.flavour.component(), replicaset, pod).await?;
        }
        Ok(())
    }
}

/// Creates pods: first one, then twice as many after each success, so that a refusal is not repeated hundreds of times.
pub async fn make_pods(
    world: &World,
    owners: &Live,
    component: &'static str,
    owner: &DynamicObject,
    body: &Value,
    count: usize,
) -> Result<()> {
    let (mut left, mut batch) = (count, 1);
    while left > 0 {
        let size = batch.min(left);
        let made = futures::future::join_all((0..size).map(|_| world.pods.create(owner.namespace(), body))).await;
        for outcome in made {
            match outcome {
                Ok(pod) => {
                    let message = format!("Created pod: {}", pod.name());
                    world.events.record(component, "Normal", owners.served(), owner, "SuccessfulCreate", message);
                }
                Err(error) => return Err(failed(world, owners, component, owner, ("FailedCreate", "creating"), error)),
            }
        }
        left -= size;
        batch *= 2;
    }
    Ok(())
}

/// Deletes a pod of a controller, and records an event.
pub async fn delete_pod(world: &World, owners: &Live, component: &'static str, owner: &DynamicObject, pod: &Object) -> Result<()> {
    match world.pods.delete(&Key::of(pod), &Delete::uid(pod.uid())).await {
        Ok(true) => {
            let message = format!("Deleted pod: {}", pod.name());
            world.events.record(component, "Normal", owners.served(), owner, "SuccessfulDelete", message);
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(error) => Err(failed(world, owners, component, owner, ("FailedDelete", "deleting"), error)),
    }
}

fn failed(
    world: &World,
    owners: &Live,
    component: &'static str,
    owner: &DynamicObject,
    (reason, verb): (&'static str, &str),
    error: Error,
) -> Error {
    if !error.is_terminating() {
        world.events.record(component, "Warning", owners.served(), owner, reason, format!("Error {verb}: {}", error.message()));
    }
    error
}
