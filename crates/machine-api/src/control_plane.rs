//! The ControlPlaneMachineSet controller: machines of the control plane are replaced one by one (MACH-CPMS-01 to MACH-CPMS-05).
//!
//! ```text
//!   no object, or an inactive one ── generator ──► an inactive one that describes the machines
//!   object ── look: machines by index ── health ── plan ──► act: adopt, create, delete ──► status
//!   object, deleted ──► its machines lose their owner, and stay
//! ```

mod act;
mod generator;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::DynamicObject;
use mainstay_machine_core::control_plane::generate::is_control_plane;
use mainstay_machine_core::control_plane::health::{Degradation, check};
use mainstay_machine_core::control_plane::members::{Indexes, Layout, indexes};
use mainstay_machine_core::control_plane::object::{ControlPlane, FINALIZER, NAME, Strategy, selector_of};
use mainstay_machine_core::control_plane::provider_spec::ProviderSpec;
use mainstay_machine_core::control_plane::status::{Counts, Observed, Repeated, status};
use mainstay_machine_core::node::Node;
use mainstay_objects::{LabelSelector, labels_of};
use mainstay_runtime::{Change, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{CONTROL_PLANE, NAMESPACE};
use crate::shared::{Shared, Teller, settled};

/// Labels of nodes of the control plane.
const ROLES: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];

/// Runs the controller.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    let own = Key::new(NAMESPACE, NAME);
    let (woken, key) = (queue.clone(), own.clone());
    shared.control_planes.on_change(move |change| {
        if change.object().is_some_and(|object| Key::of(object) == key) {
            woken.add(key.clone());
        }
    });
    let (woken, key) = (queue.clone(), own.clone());
    shared.machines.on_change(move |change| {
        if change.object().is_some_and(|machine| is_master(machine)) {
            woken.add(key.clone());
        }
    });
    let (woken, key) = (queue.clone(), own.clone());
    shared.nodes.on_change(move |change| {
        if concerns(change) {
            woken.add(key.clone());
        }
    });
    // The object may have gone unseen.
    queue.add(own);
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("control-plane-machine-set-controller");
    let controller = Arc::new(Controller { shared, events, error: Mutex::default() });
    mainstay_runtime::run("controlplanemachineset", queue, 1, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

fn is_master(machine: &DynamicObject) -> bool {
    serde_json::to_value(machine).is_ok_and(|machine| is_control_plane(&machine))
}

/// Returns whether a node of the control plane came, went, or changed its readiness.
fn concerns(change: &Change) -> bool {
    let state = |node: &DynamicObject| {
        let labels = node.metadata.labels.as_ref();
        let is_one = ROLES.iter().any(|role| labels.is_some_and(|labels| labels.contains_key(*role)));
        is_one.then(|| Node::of(&node.data).ready().is_some())
    };
    change.before.as_deref().map(state) != change.now.as_deref().map(state)
}

struct Controller {
    shared: Shared,
    events: Teller,
    /// The error of the last reconciles, while it is the same.
    error: Mutex<Option<Repeated>>,
}

/// A control plane as it is.
struct Looked {
    set: ControlPlane,
    layout: Layout,
    machines: Vec<Value>,
    indexes: Indexes,
    degraded: Option<Degradation>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(CONTROL_PLANE, key).await? else {
            self.note(None);
            return self.generate().await;
        };
        if live["metadata"].get("deletionTimestamp").is_some() {
            return self.release(&live).await;
        }
        if self.shared.writer.add_finalizer(&live, FINALIZER).await?.is_some() {
            // The change wakes the object again.
            return Ok(Outcome::Done);
        }
        let (observed, done) = self.work(&live).await;
        if let Err(error) = &done
            && error.is_conflict()
        {
            return done;
        }
        let now = self.shared.env.now_seconds();
        let repeated = self.note(done.as_ref().err().map(|error| (mainstay_diagnostics::chain(error), now)));
        let status = status(&live, observed.as_ref().map(|(set, observed)| (set, observed)), repeated.as_ref(), now);
        self.shared.writer.update_status(&live, &status).await?;
        let outcome = done?;
        if observed.is_some_and(|(set, _)| !set.is_active) {
            self.regenerate(&live).await?;
        }
        Ok(outcome)
    }

    /// Looks and acts. What was seen is told even if something failed later.
    async fn work(&self, live: &Value) -> (Option<(ControlPlane, Observed)>, Result<Outcome, Error>) {
        let mut looked = match self.look(live).await {
            Ok(looked) => looked,
            Err(error) => return (None, Err(error)),
        };
        let counts = Counts::of(&looked.indexes);
        let done = if looked.degraded.is_some() || !looked.set.is_active { Ok(Outcome::Done) } else { self.act(live, &mut looked).await };
        if let Some(degraded) = &looked.degraded {
            tracing::warn!(reason = degraded.reason(), ?degraded, "the control plane is degraded: no machine is made or deleted");
        }
        (Some((looked.set, Observed { counts, degraded: looked.degraded })), done)
    }

    async fn look(&self, live: &Value) -> Result<Looked, Error> {
        let set = ControlPlane::of(live)?;
        let machines = self.selected(&set.selector).await?;
        let layout = Layout::of(&set, &machines).map_err(mainstay_machine_core::control_plane::members::MemberError::from)?;
        let defaulted = self.defaulted(&set, &layout, &machines).await?;
        let nodes = self.shared.known_nodes();
        let wanted = |index: i32| defaulted.get(&index).cloned().unwrap_or_else(|| layout.provider_spec(&set, index));
        let indexes = indexes(&set, &layout, &machines, wanted, &nodes, self.shared.env.now())?;
        let is_one = |node: &&Node| ROLES.iter().any(|role| node.labels.get(*role).is_some_and(String::is_empty));
        let nodes: Vec<String> = nodes.iter().filter(is_one).map(|node| node.name.clone()).collect();
        let degraded = check(&set, &indexes, &nodes).or_else(|| match &set.strategy {
            Strategy::Unsupported(strategy) if set.is_active => Some(Degradation::InvalidStrategy(strategy.clone())),
            _ => None,
        });
        Ok(Looked { set, layout, machines, indexes, degraded })
    }

    /// Reads the machines that a selector selects, as they are now.
    async fn selected(&self, selector: &LabelSelector) -> Result<Vec<Value>, Error> {
        let machines = self.shared.machines_now(NAMESPACE).await?;
        Ok(machines.into_iter().filter(|machine| !selector.is_empty() && selector.matches(&labels_of(machine))).collect())
    }

    /// Asks the server what it would make of the provider spec of each index: webhooks of the platform may set defaults, and refuse a template
    /// before a machine depends on it. Nothing is kept.
    async fn defaulted(&self, set: &ControlPlane, layout: &Layout, machines: &[Value]) -> Result<BTreeMap<i32, ProviderSpec>, Error> {
        let mut wanted: BTreeMap<i32, ProviderSpec> = (0..set.replicas).map(|index| (index, layout.provider_spec(set, index))).collect();
        for machine in machines {
            let index = layout.index(set, machine)?;
            wanted.entry(index).or_insert_with(|| layout.provider_spec(set, index));
        }
        let writer = self.shared.writer.dry();
        let mut asked: Vec<(ProviderSpec, ProviderSpec)> = Vec::new();
        for spec in wanted.values_mut() {
            if let Some((_, answer)) = asked.iter().find(|(known, _)| known == spec) {
                *spec = answer.clone();
                continue;
            }
            let mut machine = set.machine("", spec);
            if let Some(metadata) = machine["metadata"].as_object_mut() {
                metadata.remove("name");
                metadata.remove("ownerReferences");
                metadata.insert("generateName".to_owned(), json!("tmp-machine-dry-run"));
            }
            let answer = writer.create(&machine).await.map_err(Error::DryRun)?;
            let value = answer.pointer("/spec/providerSpec/value").map(Value::to_string);
            let answer = ProviderSpec::read(value.as_deref()).map_err(Error::Defaulted)?;
            asked.push((spec.clone(), answer.clone()));
            *spec = answer;
        }
        Ok(wanted)
    }

    /// Counts equal errors in a row; none ends the row.
    fn note(&self, error: Option<(String, jiff::Timestamp)>) -> Option<Repeated> {
        let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *known = error.map(|(message, now)| Repeated::after(known.take(), message, now));
        known.clone()
    }

    /// Gives the machines up, which stay, and lets the object go (MACH-CPMS-05).
    async fn release(&self, live: &Value) -> Result<Outcome, Error> {
        for machine in self.selected(&selector_of(live)?).await? {
            self.disown(&machine, live).await?;
        }
        self.shared.writer.remove_finalizer(live, FINALIZER).await?;
        tracing::info!("the control plane is not managed any more; its machines stay");
        Ok(Outcome::Done)
    }
}
