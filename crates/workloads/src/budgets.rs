//! PodDisruptionBudgets: the pods that may be evicted now.

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Map, Value, json};

use crate::Result;
use crate::live::Live;
use crate::object::{Object, Read as _, condition, parse_time, selects, time};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

/// Seconds after which an eviction that has not become a deletion is forgotten.
const EVICTION_SECONDS: i64 = 120;

#[derive(Clone)]
struct Controller {
    world: World,
    budgets: Live,
    owners: Vec<Live>,
}

/// Runs the controller. `owners` are the kinds that have `spec.replicas` and own pods.
pub async fn run(world: World, budgets: Live, owners: Vec<Live>) {
    let queue: Queue<Key> = Queue::default();
    budgets.ready().await;
    world.pods.ready().await;
    wake_self(&budgets, &queue);
    let (wake, all) = (queue.clone(), budgets.clone());
    world.pods.on_change(move |change| {
        for pod in change.before.iter().chain(&change.now) {
            for budget in all.matching(pod.namespace(), |budget| covers(budget, pod)) {
                wake.add(Key::of(&budget));
            }
        }
    });
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, budgets, owners };
    mainstay_runtime::run("disruption", queue, 1, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// Returns true if a budget covers a pod. An empty selector covers every pod of the namespace, an absent one none.
fn covers(budget: &DynamicObject, pod: &DynamicObject) -> bool {
    let selector = budget.at("/spec/selector");
    selector.as_object().is_some_and(Map::is_empty) || selects(selector, pod.labels())
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(budget) = self.budgets.get(key).filter(|budget| !budget.deleting()) else { return Ok(Outcome::Done) };
        let pods = self.world.pods.matching(&key.namespace, |pod| covers(&budget, pod));
        let expected = if budget.at("/spec/minAvailable").is_i64() || budget.at("/spec/minAvailable").is_u64() {
            i64::try_from(pods.iter().filter(|pod| !pod::finished(pod)).count()).unwrap_or_default()
        } else {
            self.scale(&pods)
        };
        let status = status(&budget, &pods, expected, self.world.env.now());
        if *budget.at("/status") != status {
            self.budgets.write_status(&budget, &status).await?;
        }
        Ok(Outcome::Done)
    }

    /// Returns the sum of the desired replicas of the pods' controllers; pods without a controller count as zero.
    fn scale(&self, pods: &[Object]) -> i64 {
        let mut seen = std::collections::BTreeMap::new();
        for pod in pods {
            let Some(owner) = pod.controller() else { continue };
            let own = self.owners.iter().find(|live| live.served().resource.kind == owner.kind);
            let found = own.and_then(|live| live.get(&Key::new(pod.namespace(), &owner.name))).filter(|found| found.uid() == owner.uid);
            let Some(found) = found else { continue };
            // A ReplicaSet that a Deployment controls counts with the Deployment's number.
            let above = found.controller().and_then(|above| {
                let live = self.owners.iter().find(|live| live.served().resource.kind == above.kind)?;
                live.get(&Key::new(pod.namespace(), &above.name))
            });
            let scaled = above.unwrap_or(found);
            seen.insert(scaled.uid().to_owned(), scaled.int("/spec/replicas").unwrap_or(1));
        }
        seen.values().sum()
    }
}

fn status(budget: &DynamicObject, pods: &[Object], expected: i64, now: Timestamp) -> Value {
    let disrupted: Map<String, Value> = budget
        .at("/status/disruptedPods")
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, since)| {
            let fresh = parse_time(since).is_some_and(|since| now.duration_since(since).as_secs() < EVICTION_SECONDS);
            fresh && pods.iter().any(|pod| pod.name() == name.as_str() && !pod.deleting())
        })
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect();
    let healthy = pods.iter().filter(|pod| !pod.deleting() && pod::ready(pod) && !disrupted.contains_key(pod.name())).count();
    let healthy = i64::try_from(healthy).unwrap_or_default();
    let desired = match (budget.at("/spec/maxUnavailable"), budget.at("/spec/minAvailable")) {
        (Value::Null, Value::Null) => 0,
        (Value::Null, least) => pod::scaled(least, expected, true),
        (most, _) => (expected - pod::scaled(most, expected, true)).max(0),
    };
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let (state, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let before = condition(budget.at("/status/conditions"), "DisruptionAllowed");
    let since = before.filter(|before| before["status"] == state).map_or_else(|| time(now), |before| before["lastTransitionTime"].clone());
    let generation = budget.metadata.generation.unwrap_or_default();
    let mut status = json!({
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [{
            "type": "DisruptionAllowed", "status": state, "observedGeneration": generation,
            "lastTransitionTime": since, "reason": reason, "message": "",
        }],
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = Value::Object(disrupted);
    }
    status
}
