//! DaemonSets: a pod on each node that fits (KAPI-WL-01).

pub mod plan;

use std::time::Duration;

use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;

use self::plan::{Facts, plan};
use crate::live::Live;
use crate::object::{Object, Read as _};
use crate::replicaset::{delete_pod, make_pods, settle};
use crate::revision::{self, HASH};
use crate::world::{World, label_selector, wake_controller, wake_selecting, wake_self};
use crate::{Result, claim};

const COMPONENT: &str = "daemonset-controller";

#[derive(Clone)]
struct Controller {
    world: World,
    sets: Live,
    revisions: Live,
}

/// Runs the controller.
pub async fn run(world: World, sets: Live, revisions: Live) {
    let queue = Queue::default();
    for live in [&sets, &revisions, &world.pods, &world.nodes] {
        live.ready().await;
    }
    wake_self(&sets, &queue);
    wake_controller(&world.pods, "DaemonSet", &queue);
    wake_selecting(&sets, &world.pods, &queue, label_selector);
    let (wake, all) = (queue.clone(), sets.clone());
    world.nodes.on_change(move |change| {
        let relevant = |node: Option<&Object>| node.map(|node| (node.labels().clone(), node.at("/spec").clone()));
        if relevant(change.before.as_ref()) != relevant(change.now.as_ref()) {
            all.all().iter().for_each(|set| wake.add(Key::of(set)));
        }
    });
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, sets, revisions };
    mainstay_runtime::run("daemonset", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(set) = self.sets.get(key).filter(|set| !set.deleting()) else { return Ok(Outcome::Done) };
        let claim = claim::claim(&set, set.at("/spec/selector"), self.world.pods.claimable(&key.namespace, set.uid()));
        let pods = claim::carry_out(claim, &self.sets, &set, &self.world.pods).await?;
        let revision = revision::current(&self.revisions, "apps/v1", "DaemonSet", &set).await?;
        let hash = revision.labels().get(HASH).cloned().unwrap_or_default();
        let nodes = self.world.nodes.all();
        let decided = plan(&Facts { set: &set, hash: &hash, pods: &pods, nodes: &nodes, now: self.world.env.now() });
        for pod in &decided.delete {
            delete_pod(&self.world, &self.sets, COMPONENT, &set, pod).await?;
        }
        for node in &decided.make {
            make_pods(&self.world, &self.sets, COMPONENT, &set, &plan::body(&set, &hash, node), 1).await?;
        }
        // The counts include the changes that were just made.
        let pods: Vec<Object> = self.world.pods.owned_by(set.uid());
        let status = plan::status(&Facts { set: &set, hash: &hash, pods: &pods, nodes: &nodes, now: self.world.env.now() });
        let status = set.int("/status/collisionCount").map_or(status.clone(), |count| {
            let mut status = status;
            status["collisionCount"] = json!(count);
            status
        });
        if *set.at("/status") != status {
            self.sets.write_status(&set, &status).await?;
        }
        let mut used: Vec<String> = pods.iter().filter_map(|pod| pod.labels().get(HASH).cloned()).collect();
        used.push(hash);
        revision::trim(&self.revisions, &set, &used).await?;
        let min_ready = set.int("/spec/minReadySeconds").unwrap_or_default();
        if min_ready > 0 && status["numberReady"] != status["numberAvailable"] {
            return Ok(Outcome::After(Duration::from_secs(min_ready.unsigned_abs())));
        }
        Ok(Outcome::Done)
    }
}
