//! The MachineSet controller (MACH-SET-01 to MACH-SET-05).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_machine_core::event::EventKind;
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use mainstay_machine_core::set::plan::{self, Plan, Set};
use mainstay_machine_core::set::status;
use mainstay_objects::{Expect, Patch, Propagation, Requirements};
use mainstay_runtime::{Cache, Change, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{MACHINE, MACHINE_SET};
use crate::shared::{Shared, Teller, settled};

const WORKERS: usize = 2;

/// Runs the controller.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    Shared::wake(&shared.sets, &queue);
    let (woken, sets) = (queue.clone(), shared.sets.clone());
    shared.machines.on_change(move |change| wake_sets(change, &sets, &woken));
    let (woken, machines) = (queue.clone(), shared.machines.clone());
    // Readiness of nodes is counted, and counts again after a while (minReadySeconds).
    shared.nodes.on_change(move |change| {
        let Some(node) = change.object().and_then(|node| node.metadata.name.clone()) else { return };
        let is_its = |machine: &&Arc<DynamicObject>| machine.data.pointer("/status/nodeRef/name").is_some_and(|name| *name == *node);
        machines.all().iter().filter(is_its).for_each(|machine| wake_owner(machine, &woken));
    });
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("machineset-controller");
    let controller = Arc::new(Controller { shared, events });
    mainstay_runtime::run("machineset-controller", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

/// Wakes the set that controls a machine, or every set that could adopt it.
fn wake_sets(change: &Change, sets: &Cache, queue: &Queue<Key>) {
    for machine in change.before.iter().chain(&change.now) {
        if machine.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true)) {
            wake_owner(machine, queue);
            continue;
        }
        let labels = machine.metadata.labels.clone().unwrap_or_default();
        let selects = |set: &DynamicObject| {
            let selector = set.data.pointer("/spec/selector").map(Requirements::of_selector);
            selector.is_some_and(|selector| !selector.is_empty() && selector.matches(&labels))
        };
        for set in sets.matching(machine.metadata.namespace.as_deref().unwrap_or_default(), selects) {
            queue.add(Key::of(&set));
        }
    }
}

fn wake_owner(machine: &DynamicObject, queue: &Queue<Key>) {
    let owners = machine.metadata.owner_references.iter().flatten();
    for owner in owners.filter(|owner| owner.controller == Some(true) && owner.kind == MACHINE_SET.kind) {
        queue.add(Key::new(machine.metadata.namespace.clone().unwrap_or_default(), &owner.name));
    }
}

struct Controller {
    shared: Shared,
    events: Teller,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(MACHINE_SET, key).await? else { return Ok(Outcome::Done) };
        if live["metadata"].get("deletionTimestamp").is_some() {
            return Ok(Outcome::Done);
        }
        let outcome = self.sync(&live, key).await;
        if let Err(error) = outcome.as_ref().map_err(|error| mainstay_diagnostics::chain(error))
            && !matches!(&outcome, Err(error) if error.is_conflict())
        {
            self.events.tell(&live, EventKind::Warning, "ReconcileError", "Reconcile", error);
        }
        match outcome {
            // A spec that cannot be worked on is not mended by trying again.
            Err(Error::Set(error)) => {
                tracing::warn!(%error, set = %key, "the set cannot be worked on");
                Ok(Outcome::Blocked)
            }
            outcome => outcome,
        }
    }

    async fn sync(&self, live: &Value, key: &Key) -> Result<Outcome, Error> {
        let set = Set::of(live)?;
        let objects = self.shared.machines_now(&key.namespace).await?;
        let now = self.shared.env.now();
        let plan = plan::plan(&set, objects.iter().map(Machine::of).collect(), now);
        let by_name: HashMap<&str, &Value> =
            objects.iter().filter_map(|object| Some((object["metadata"]["name"].as_str()?, object))).collect();
        for machine in &plan.adopt {
            if let Some(object) = by_name.get(&*machine.name) {
                self.adopt(live, object).await?;
            }
        }
        let scaled = self.scale(live, &plan, &by_name).await;
        let nodes: HashMap<String, Node> = self.shared.known_nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        let counts = status::status(&plan.members, &set.template_labels, set.min_ready_seconds, now, |name| nodes.get(name));
        self.shared.writer.update_status(live, &plan::status(live, counts)).await?;
        scaled?;
        // A node that is ready for long enough changes nothing itself.
        let waits = set.min_ready_seconds > 0 && counts.ready == set.replicas && counts.available != set.replicas;
        Ok(if waits { Outcome::After(Duration::from_secs(set.min_ready_seconds.unsigned_abs().into())) } else { Outcome::Done })
    }

    async fn scale(&self, live: &Value, plan: &Plan, by_name: &HashMap<&str, &Value>) -> Result<(), Error> {
        for _ in 0..plan.create {
            let made = self.shared.writer.create(&plan::machine(live)).await?;
            tracing::info!(set = %live["metadata"]["name"], machine = %made["metadata"]["name"], "a machine is made");
        }
        for machine in &plan.delete {
            let Some(object) = by_name.get(&*machine.name) else { continue };
            tracing::info!(set = %live["metadata"]["name"], machine = machine.name, "a machine too many is deleted");
            let place = MACHINE.at(&Key::new(&machine.namespace, &machine.name));
            self.shared.writer.delete(&place, &Expect::uid_of(object), Propagation::Background).await?;
        }
        Ok(())
    }

    async fn adopt(&self, live: &Value, machine: &Value) -> Result<(), Error> {
        let mut owners = machine["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.push(plan::owner(live));
        let version = machine["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        let place = mainstay_objects::ObjectRef::of(machine)?;
        self.shared.writer.patch(&place, "", &Patch::Merge(patch)).await?;
        Ok(())
    }
}
