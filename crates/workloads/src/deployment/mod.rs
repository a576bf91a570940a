//! Deployments: one ReplicaSet for each template, rolled out and rolled back (KAPI-WL-01).

pub mod plan;
pub mod status;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::plan::{Action, Facts};
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _};
use crate::replicaset::settle;
use crate::world::{World, label_selector, wake_controller, wake_selecting, wake_self};
use crate::{Result, claim};

const COMPONENT: &str = "deployment-controller";

#[derive(Clone)]
struct Controller {
    world: World,
    deployments: Live,
    replicasets: Live,
}

/// Runs the controller.
pub async fn run(world: World, deployments: Live, replicasets: Live) {
    let queue = Queue::default();
    deployments.ready().await;
    replicasets.ready().await;
    world.pods.ready().await;
    wake_self(&deployments, &queue);
    wake_controller(&replicasets, "Deployment", &queue);
    wake_selecting(&deployments, &replicasets, &queue, label_selector);
    wake_on_last_pod(&world.pods, &replicasets, &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, deployments, replicasets };
    mainstay_runtime::run("deployment", queue, 4, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// Wakes the Deployment of a pod that is gone: `Recreate` waits for old pods to go, and no change of a ReplicaSet shows that.
fn wake_on_last_pod(pods: &Live, replicasets: &Live, queue: &Queue<Key>) {
    let (queue, replicasets) = (queue.clone(), replicasets.clone());
    pods.on_change(move |change| {
        let Some(pod) = change.before.as_ref().filter(|_| change.now.is_none()) else { return };
        let Some(owner) = pod.controller().filter(|owner| owner.kind == "ReplicaSet") else { return };
        let Some(replicaset) = replicasets.get(&Key::new(pod.namespace(), &owner.name)) else { return };
        if let Some(deployment) = replicaset.controller().filter(|owner| owner.kind == "Deployment") {
            queue.add(Key::new(pod.namespace(), &deployment.name));
        }
    });
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Outcome::Done) };
        let candidates = self.replicasets.claimable(&key.namespace, deployment.uid());
        let claim = claim::claim(&deployment, deployment.at("/spec/selector"), candidates);
        let replicasets = claim::carry_out(claim, &self.deployments, &deployment, &self.replicasets).await?;
        let pods: Vec<Object> = replicasets.iter().flat_map(|set| self.world.pods.owned_by(set.uid())).collect();
        let facts = Facts { deployment: &deployment, replicasets: &replicasets, pods: &pods, now: self.world.env.now() };
        let plan = plan::plan(&facts);
        let mut current = DynamicObject::clone(&deployment);
        for action in plan.actions {
            self.act(&mut current, action).await?;
        }
        Ok(plan.again.map_or(Outcome::Done, Outcome::After))
    }

    async fn act(&self, deployment: &mut DynamicObject, action: Action) -> Result<()> {
        match action {
            Action::Annotate(annotations) => {
                // The patch goes through the status, as upstream does: a change of the Deployment's own annotations would be a new generation.
                let patch = Patch::Merge(json!({"metadata": {"uid": deployment.uid(), "annotations": annotations}}));
                *deployment = self.deployments.patch(&Key::of(deployment), "status", &patch).await?;
            }
            Action::Create(body) => self.create(deployment, &body).await?,
            Action::Patch { replicaset, mut patch, scaled } => {
                patch["metadata"]["uid"] = json!(replicaset.uid());
                self.replicasets.patch(&Key::of(&replicaset), "", &Patch::Merge(patch)).await?;
                if let Some(message) = scaled {
                    self.tell(deployment, "Normal", "ScalingReplicaSet", message);
                }
            }
            Action::Delete(replicaset) => {
                self.replicasets.delete(&Key::of(&replicaset), &Delete::uid(replicaset.uid())).await?;
            }
            Action::Status(status) => *deployment = self.deployments.write_status(deployment, &status).await?,
            Action::SelectsEverything => {
                let message = "This deployment is selecting all pods. A non-empty selector is required.";
                self.tell(deployment, "Warning", "SelectingAll", message.to_owned());
                if deployment.int("/status/observedGeneration") < deployment.metadata.generation {
                    let mut status = deployment.at("/status").clone();
                    status["observedGeneration"] = json!(deployment.metadata.generation);
                    *deployment = self.deployments.write_status(deployment, &status).await?;
                }
            }
        }
        Ok(())
    }

    async fn create(&self, deployment: &mut DynamicObject, body: &Value) -> Result<()> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        match self.replicasets.create(deployment.namespace(), body).await {
            Ok(_) => {
                if let Some(replicas) = body["spec"]["replicas"].as_i64().filter(|replicas| *replicas > 0) {
                    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.tell(deployment, "Normal", "ScalingReplicaSet", message);
                }
                Ok(())
            }
            Err(error) if error.is_already_there() => {
                let key = Key::new(deployment.namespace(), name);
                let there = self.replicasets.api().get(self.replicasets.served(), &key).await?;
                let there: Option<DynamicObject> = there.and_then(|there| serde_json::from_value(there).ok());
                if there.is_some_and(|there| !plan::is_ours(deployment, &there)) {
                    // Two templates have the same hash, so the collision count goes into the next hash.
                    let mut status = deployment.at("/status").clone();
                    status["collisionCount"] = json!(deployment.int("/status/collisionCount").unwrap_or_default() + 1);
                    *deployment = self.deployments.write_status(deployment, &status).await?;
                }
                Err(error)
            }
            Err(error) if error.is_terminating() => Err(error),
            Err(error) => {
                let message = error.message();
                self.tell(
                    deployment,
                    "Warning",
                    "ReplicaSetCreateError",
                    format!("Failed to create new replica set \"{name}\": {message}"),
                );
                self.failed(deployment, &message).await?;
                Err(error)
            }
        }
    }

    async fn failed(&self, deployment: &mut DynamicObject, message: &str) -> Result<()> {
        if status::deadline(deployment).is_none() {
            return Ok(());
        }
        let mut status = deployment.at("/status").clone();
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        status::set(&mut conditions, "Progressing", "False", "ReplicaSetCreateError", message, self.world.env.now());
        status["conditions"] = Value::Array(conditions);
        if *deployment.at("/status") != status {
            *deployment = self.deployments.write_status(deployment, &status).await?;
        }
        Ok(())
    }

    fn tell(&self, deployment: &DynamicObject, kind: &'static str, reason: &'static str, message: String) {
        self.world.events.record(COMPONENT, kind, self.deployments.served(), deployment, reason, message);
    }
}
