//! The drain controller: it empties the nodes of machines that are being deleted (MACH-DEL-04, MACH-DEL-05, MACH-DEL-07, MACH-DRAIN-03 to
//! MACH-DRAIN-05).
//!
//! One try lasts at most [`TRY`]; within it the pods are looked at again and again, and no worker waits. What only a budget holds up is told
//! at once, and a budget that changes wakes the machines that are being drained.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_drain::{Drain, DrainError, EVICTION_RETRY, Options, PodRef, Progress, Why, cordon, told};
use mainstay_machine_core::condition::{self, Condition};
use mainstay_machine_core::drain::verdict::{DrainEvent, DrainFailure, RETRY, Verdict, drained, verdict};
use mainstay_machine_core::machine::{Machine, phase};
use mainstay_machine_core::node::Node;
use mainstay_runtime::{Backoff, Key, Outcome, Queue};
use serde_json::Value;
use tokio::time::Instant;

use crate::Error;
use crate::kinds::{MACHINE, NODE};
use crate::shared::{Shared, Teller, settled};

/// Machines that are drained concurrently.
const WORKERS: usize = 10;
/// The length of one try.
const TRY: Duration = Duration::from_secs(20);
/// The interval between two looks while pods end.
const LOOK: Duration = Duration::from_secs(1);
/// The waits after tries that failed.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), most: Duration::from_secs(1000) };

/// Runs the controller.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::new(BACKOFF);
    Shared::wake(&shared.machines, &queue);
    let (woken, machines) = (queue.clone(), shared.machines.clone());
    shared.budgets.on_change(move |_| {
        let drains = |machine: &&Arc<kube::api::DynamicObject>| {
            machine.metadata.deletion_timestamp.is_some() && machine.data.pointer("/status/phase").is_some_and(|now| now == phase::DELETING)
        };
        machines.all().iter().filter(drains).for_each(|machine| woken.add(Key::of(machine)));
    });
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("machine-drain-controller");
    let controller = Arc::new(Controller { shared, events, tries: Mutex::default() });
    mainstay_runtime::run("machine-drain-controller", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

struct Controller {
    shared: Shared,
    events: Teller,
    /// The beginning of the try of each machine that is being drained, by UID.
    tries: Mutex<HashMap<String, Instant>>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(MACHINE, key).await? else { return Ok(Outcome::Done) };
        let machine = Machine::of(&live);
        let node = match &machine.node {
            Some(name) if machine.deleting => self.shared.get(NODE, &Key::new("", name)).await?.as_ref().map(Node::of),
            _ => None,
        };
        let nodes = self.shared.known_nodes();
        match verdict(&machine, node.as_ref(), &nodes) {
            Verdict::Nothing => {
                self.end_try(&machine);
                Ok(Outcome::Done)
            }
            Verdict::Blocked => {
                self.tell(&live, &DrainEvent::Blocked);
                Ok(Outcome::Done)
            }
            Verdict::Skipped => {
                self.tell(&live, &DrainEvent::Skipped);
                self.write(&live, drained(true)).await
            }
            Verdict::NodeGone => {
                self.tell(&live, &DrainEvent::Succeeded);
                self.end_try(&machine);
                self.write(&live, drained(false)).await
            }
            Verdict::NotPermitted { other } => {
                tracing::info!(
                    machine = machine.name,
                    other = other.name,
                    "the drain waits: another node of the control plane is cordoned"
                );
                self.failed(&live, DrainFailure::NotPermitted).await?;
                Ok(Outcome::After(RETRY))
            }
            Verdict::Drain { settings, grace_period } => {
                let options = Options { settings, grace_period, ..Options::default() };
                let name = node.as_ref().map(|node| node.name.clone()).unwrap_or_default();
                let drain = Drain::new(self.shared.once.clone(), name, options);
                self.drain(&live, &machine, &drain).await
            }
        }
    }

    async fn drain(&self, live: &Value, machine: &Machine, drain: &Drain) -> Result<Outcome, Error> {
        let begun = self.begin_try(machine);
        if begun.is_none() {
            self.tell(live, &DrainEvent::Proceeds);
        }
        match cordon(self.shared.writer.client(), drain.node(), true).await {
            Ok(_) => {}
            // It went meanwhile; the next look says so.
            Err(error) if error.is_not_found() => return Ok(Outcome::After(LOOK)),
            Err(error) => {
                tracing::warn!(%error, machine = machine.name, "the node could not be cordoned");
                self.end_try(machine);
                self.failed(live, DrainFailure::NotCordoned).await?;
                return Ok(Outcome::After(RETRY));
            }
        }
        let now = self.shared.env.now();
        let remaining = match drain.pass(now).await {
            Ok(Progress::Done) => {
                self.end_try(machine);
                self.tell(live, &DrainEvent::Drained(drain.node().to_owned()));
                self.tell(live, &DrainEvent::Succeeded);
                return self.write(live, drained(false)).await;
            }
            Ok(Progress::Waiting { remaining }) => remaining,
            Err(error) => return self.give_up(live, machine, &error).await,
        };
        let is_over = begun.is_some_and(|begun| begun.elapsed() >= TRY);
        let is_blocked = |(_, why): &(PodRef, Why)| !matches!(why, Why::Ending { .. });
        if is_over || remaining.iter().all(is_blocked) {
            // Pods that end in time need no word.
            if let Some(cause) = told(&remaining, now, TRY) {
                self.failed_once(live, machine, DrainFailure::Pods(cause), is_over).await?;
            }
        }
        if is_over {
            self.end_try(machine);
            return Ok(Outcome::Retry);
        }
        Ok(Outcome::After(if remaining.iter().any(|one| !is_blocked(one)) { LOOK } else { EVICTION_RETRY }))
    }

    async fn give_up(&self, live: &Value, machine: &Machine, error: &DrainError) -> Result<Outcome, Error> {
        self.end_try(machine);
        self.failed(live, DrainFailure::Pods(error.to_string())).await?;
        tracing::warn!(%error, machine = machine.name, "the node could not be drained");
        Ok(Outcome::Retry)
    }

    /// Says that a drain is tried again: in the condition, and in an event when a try ends or another cause is found.
    async fn failed_once(&self, live: &Value, machine: &Machine, failure: DrainFailure, is_over: bool) -> Result<(), Error> {
        let condition = failure.condition();
        let is_new = !machine.conditions.iter().any(|known| known.kind == condition.kind && known.message == condition.message);
        if is_over || is_new {
            self.tell(live, &DrainEvent::Requeued(failure));
        }
        self.write(live, condition).await.map(drop)
    }

    async fn failed(&self, live: &Value, failure: DrainFailure) -> Result<(), Error> {
        let condition = failure.condition();
        self.tell(live, &DrainEvent::Requeued(failure));
        self.write(live, condition).await.map(drop)
    }

    /// Sets a condition of the machine; the rest of its status stays.
    async fn write(&self, live: &Value, condition: Condition) -> Result<Outcome, Error> {
        let now = self.shared.env.now_seconds();
        let mut conditions = Condition::all_of(live);
        condition::set(&mut conditions, condition, now);
        let mut status = live.get("status").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        status["conditions"] = conditions.iter().map(Condition::to_value).collect();
        self.shared.writer.update_status(live, &status).await?;
        Ok(Outcome::Done)
    }

    /// Returns the beginning of the present try; `None` if it begins now.
    fn begin_try(&self, machine: &Machine) -> Option<Instant> {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tries.get(&machine.uid).copied();
        tries.entry(machine.uid.clone()).or_insert_with(Instant::now);
        known
    }

    fn end_try(&self, machine: &Machine) {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner).remove(&machine.uid);
    }

    fn tell(&self, live: &Value, event: &DrainEvent) {
        self.events.tell(live, event.kind(), event.reason(), "Drain", event);
    }
}
