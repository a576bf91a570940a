//! The node link: it joins nodes and machines (MACH-RUN-03).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::DynamicObject;
use mainstay_machine_core::event::EventKind;
use mainstay_machine_core::machine::Address;
use mainstay_machine_core::node::Node;
use mainstay_machine_core::node_link::{machine_of, node_patch, reference};
use mainstay_objects::Patch;
use mainstay_runtime::{Cache, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{MACHINE, NODE};
use crate::shared::{Shared, Teller, settled};

const WORKERS: usize = 2;

/// Runs the controller. Its keys are nodes.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    Shared::wake(&shared.nodes, &queue);
    let (woken, nodes) = (queue.clone(), shared.nodes.clone());
    shared.machines.on_change(move |change| {
        if let Some(machine) = change.now.as_ref().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
            wake_node_of(machine, &nodes, &woken);
        }
    });
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("nodelink-controller");
    let controller = Arc::new(Controller { shared, events, ready: Mutex::default() });
    mainstay_runtime::run("nodelink-controller", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

fn wake_node_of(machine: &DynamicObject, nodes: &Cache, queue: &Queue<Key>) {
    let Ok(value) = serde_json::to_value(machine) else { return };
    let (id, addresses) = (value.pointer("/spec/providerID").cloned(), Address::all_of(&value));
    let fits = |node: &DynamicObject| {
        let same_id = id.is_some() && node.data.pointer("/spec/providerID") == id.as_ref();
        same_id || Address::all_of(&node.data).iter().any(|address| address.kind == "InternalIP" && addresses.contains(address))
    };
    nodes.all().iter().filter(|node| fits(node)).for_each(|node| queue.add(Key::of(node)));
}

struct Controller {
    shared: Shared,
    events: Teller,
    /// The readiness of each linked node when its machine was written last.
    ready: Mutex<HashMap<String, bool>>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(node) = self.shared.get(NODE, key).await? else {
            self.ready(|ready| ready.remove(&key.name));
            return Ok(Outcome::Done);
        };
        let machines = self.shared.known_machines();
        let machine = match machine_of(&node, &machines) {
            Ok(None) => return Ok(Outcome::Done),
            Ok(Some(machine)) => machine,
            Err(error) => {
                self.events.tell(&node, EventKind::Warning, "AmbiguousMachine", "Link", &error);
                return Err(error.into());
            }
        };
        if node["metadata"].get("deletionTimestamp").is_some() {
            self.ready(|ready| ready.remove(&key.name));
            return Ok(Outcome::Done);
        }
        let place = Key::new(&machine.namespace, &machine.name);
        let Some(live) = self.shared.get(MACHINE, &place).await? else { return Ok(Outcome::Done) };
        self.refer(&live, &node, key).await?;
        if let Some(patch) = node_patch(&node, &live) {
            self.shared.writer.patch(&NODE.at(key), "", &Patch::Merge(patch)).await?;
        }
        Ok(Outcome::Done)
    }

    /// Names the node in the machine's status; also tells there that the node's readiness changed, so that watchers of machines see it.
    async fn refer(&self, live: &Value, node: &Value, key: &Key) -> Result<(), Error> {
        let is_ready = Node::of(node).ready().is_some();
        let reference = reference(node);
        let known =
            live.pointer("/status/nodeRef").is_some_and(|known| known["name"] == reference["name"] && known["uid"] == reference["uid"]);
        if known && self.ready(|ready| ready.get(&key.name).copied()) == Some(is_ready) {
            return Ok(());
        }
        let mut status = live.get("status").cloned().unwrap_or_else(|| json!({}));
        status["nodeRef"] = reference;
        status["lastUpdated"] = json!(format!("{:.0}", self.shared.env.now_seconds()));
        self.shared.writer.update_status(live, &status).await?;
        self.ready(|ready| ready.insert(key.name.clone(), is_ready));
        Ok(())
    }

    fn ready<T>(&self, what: impl FnOnce(&mut HashMap<String, bool>) -> T) -> T {
        what(&mut self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
