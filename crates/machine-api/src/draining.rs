//! The drain controller: it empties the nodes of machines that are being deleted (MACH-DEL-04, MACH-DEL-05, MACH-DEL-07, MACH-DRAIN-03 to
//! MACH-DRAIN-05).
//!
//! One try lasts at most [`TRY`]; within it the pods are looked at again and again, and no worker waits. What only a budget holds up is told
//! at once, and a budget that changes wakes the machines that are being drained.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    tries: Mutex<Tries>,
}

/// The tries of machines that are being drained, by their keys.
#[derive(Default)]
struct Tries(HashMap<Key, Try>);

#[derive(Default)]
struct Try {
    /// UID of the machine: another one of its name starts from the first delay.
    uid: String,
    /// The beginning of the present try.
    begun: Option<Instant>,
    /// Tries in a row that failed.
    failed: u32,
}

impl Tries {
    fn of(&mut self, key: &Key, uid: &str) -> &mut Try {
        let known = self.0.entry(key.clone()).or_default();
        if known.uid != uid {
            *known = Try { uid: uid.to_owned(), ..Try::default() };
        }
        known
    }

    /// Returns the beginning of the present try; `None` if it begins now.
    fn begin(&mut self, key: &Key, uid: &str) -> Option<Instant> {
        let known = self.of(key, uid);
        let begun = known.begun;
        known.begun = begun.or_else(|| Some(Instant::now()));
        begun
    }

    /// Ends a try that failed; returns the wait until the next one.
    fn fail(&mut self, key: &Key, uid: &str, fraction: f64) -> Duration {
        let known = self.of(key, uid);
        (known.begun, known.failed) = (None, known.failed.saturating_add(1));
        BACKOFF.wait(known.failed, fraction)
    }

    /// Ends a try that says nothing about the next one.
    fn pause(&mut self, key: &Key, uid: &str) {
        self.of(key, uid).begun = None;
    }

    fn end(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(MACHINE, key).await? else {
            self.tries().end(key);
            return Ok(Outcome::Done);
        };
        let machine = Machine::of(&live);
        let node = match &machine.node {
            Some(name) if machine.deleting => self.shared.get(NODE, &Key::new("", name)).await?.as_ref().map(Node::of),
            _ => None,
        };
        let nodes = self.shared.known_nodes();
        match verdict(&machine, node.as_ref(), &nodes) {
            Verdict::Nothing => {
                self.tries().end(key);
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
                self.tries().end(key);
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
                self.drain(key, &live, &machine, &drain).await
            }
        }
    }

    async fn drain(&self, key: &Key, live: &Value, machine: &Machine, drain: &Drain) -> Result<Outcome, Error> {
        let begun = self.tries().begin(key, &machine.uid);
        if begun.is_none() {
            self.tell(live, &DrainEvent::Proceeds);
        }
        match cordon(self.shared.writer.client(), drain.node(), true).await {
            Ok(_) => {}
            // It went meanwhile; the next look says so.
            Err(error) if error.is_not_found() => return Ok(Outcome::After(LOOK)),
            Err(error) => {
                tracing::warn!(%error, machine = machine.name, "the node could not be cordoned");
                self.tries().pause(key, &machine.uid);
                self.failed(live, DrainFailure::NotCordoned).await?;
                return Ok(Outcome::After(RETRY));
            }
        }
        let now = self.shared.env.now();
        let remaining = match drain.pass(now).await {
            Ok(Progress::Done) => {
                self.tries().end(key);
                self.tell(live, &DrainEvent::Drained(drain.node().to_owned()));
                self.tell(live, &DrainEvent::Succeeded);
                return self.write(live, drained(false)).await;
            }
            Ok(Progress::Waiting { remaining }) => remaining,
            Err(error) => return self.give_up(key, live, machine, &error).await,
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
            return Ok(self.again(key, machine));
        }
        Ok(Outcome::After(if remaining.iter().any(|one| !is_blocked(one)) { LOOK } else { EVICTION_RETRY }))
    }

    /// Returns when the next try begins. The queue counts no failures of its own: it takes each look within a try for a success.
    fn again(&self, key: &Key, machine: &Machine) -> Outcome {
        Outcome::After(self.tries().fail(key, &machine.uid, self.shared.env.fraction()))
    }

    async fn give_up(&self, key: &Key, live: &Value, machine: &Machine, error: &DrainError) -> Result<Outcome, Error> {
        self.failed(live, DrainFailure::Pods(error.to_string())).await?;
        tracing::warn!(%error, machine = machine.name, "the node could not be drained");
        Ok(self.again(key, machine))
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

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, live: &Value, event: &DrainEvent) {
        self.events.tell(live, event.kind(), event.reason(), "Drain", event);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MACH-DEL-07: tries of a machine that fail wait for 5 s, 10 s and so on up to 1000 s, however often pods are looked at within each; those of
    /// another machine, also of one of the same name that comes later, start from the first delay.
    #[tokio::test(start_paused = true)]
    async fn waits_between_tries() {
        let mut tries = Tries::default();
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        let mut waits = Vec::new();
        for _ in 0..10 {
            let start = Instant::now();
            assert_eq!(tries.begin(&a, "1"), None, "a new try");
            for _ in 0..3 {
                tokio::time::advance(LOOK).await;
                assert_eq!(tries.begin(&a, "1"), Some(start), "the same try");
            }
            waits.push(tries.fail(&a, "1", 0.0).as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(tries.fail(&b, "2", 0.0).as_secs(), 5);
        assert_eq!(tries.fail(&a, "3", 0.0).as_secs(), 5);
        tries.pause(&b, "2");
        assert_eq!(tries.fail(&b, "2", 0.0).as_secs(), 10, "a node that cannot be cordoned is no failed try, and no success");
        tries.end(&b);
        assert_eq!(tries.fail(&b, "2", 0.0).as_secs(), 5);
    }
}
