//! MachineAutoscalers: their bounds and their mark go to the set that they name, and are taken away when they go or name another (COP-CAS-02,
//! MACH-SET-06).

use std::sync::Arc;

use mainstay_apply::EventKind;
use mainstay_autoscaler_core::target::{FINALIZER, MachineAutoscaler, TargetRef};
use mainstay_objects::Patch;
use mainstay_runtime::{Key, Optional, Outcome, Queue};
use serde_json::Value;

use crate::Error;
use crate::kinds::{MACHINE_AUTOSCALER, MACHINE_SET};
use crate::shared::{Shared, Teller, settled};

const CONTROLLER: &str = "machine_autoscaler_controller";
const WORKERS: usize = 1;

/// Runs the controller.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    // One kind may be served before the other: any change leads to a look at all.
    let all = Key::new("", "");
    let (woken, key) = (queue.clone(), all.clone());
    let wake = move || woken.add(key.clone());
    let metrics = shared.env.metrics().clone();
    let client = shared.writer.client();
    let autoscalers = Optional::start(client, MACHINE_AUTOSCALER.resource(), &shared.stop, wake.clone()).shown(&metrics);
    let sets = Optional::start(client, MACHINE_SET.resource(), &shared.stop, wake).shown(&metrics);
    queue.add(all);
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder(CONTROLLER);
    let controller = Arc::new(Controller { shared, events, queue: queue.clone(), autoscalers, sets });
    mainstay_runtime::run("machine-autoscaler", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

struct Controller {
    shared: Shared,
    events: Teller,
    queue: Queue<Key>,
    autoscalers: Optional,
    sets: Optional,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        if key.name.is_empty() {
            // The copy of sets wakes these, and is started by being asked for.
            let _sets = self.sets.objects();
            if let Some(autoscalers) = self.autoscalers.objects() {
                autoscalers.in_namespace(&self.shared.namespace).iter().for_each(|one| self.queue.add(Key::of(one)));
            }
            return Ok(Outcome::Done);
        }
        let Some(live) = self.shared.writer.get(&MACHINE_AUTOSCALER.at(key)).await? else { return Ok(Outcome::Done) };
        let autoscaler = MachineAutoscaler::of(&live);
        let outcome = self.sync(&live, &autoscaler).await;
        match &outcome {
            Err(Error::Target(error)) => {
                self.events.tell(&live, EventKind::Warning, error.reason(), "Scale", error);
                tracing::warn!(%error, autoscaler = %autoscaler, "the target cannot be scaled");
                // A change of either object wakes it.
                Ok(Outcome::Blocked)
            }
            Err(error) if !error.is_conflict() => {
                let note = format!("Error updating target: {}", mainstay_diagnostics::chain(error));
                self.events.tell(&live, EventKind::Warning, "FailedUpdateTarget", "Scale", note);
                outcome
            }
            _ => outcome,
        }
    }

    async fn sync(&self, live: &Value, autoscaler: &MachineAutoscaler) -> Result<Outcome, Error> {
        let writer = &self.shared.writer;
        if autoscaler.is_deleting {
            self.release(autoscaler, &autoscaler.target).await?;
            if let Some(last) = &autoscaler.last {
                self.release(autoscaler, last).await?;
            }
            writer.remove_finalizer(live, FINALIZER).await?;
            return Ok(Outcome::Done);
        }
        // First of all: a former target must not be scaled any more, even if the new one cannot be.
        if let Some(former) = autoscaler.former() {
            self.release(autoscaler, former).await?;
        }
        autoscaler.check()?;
        let target = self.target(autoscaler, &autoscaler.target).await?;
        let patch = autoscaler.claim(target.as_ref())?;
        // What will have to be cleaned is written down before it is made.
        let live = writer.add_finalizer(live, FINALIZER).await?.unwrap_or_else(|| live.clone());
        writer.update_status(&live, &autoscaler.status()).await?;
        let (Some(target), Some(patch)) = (target, patch) else { return Ok(Outcome::Done) };
        self.patch(&target, patch).await?;
        let name = format!("{}/{}", autoscaler.namespace, autoscaler.target.name);
        self.events.tell(&live, EventKind::Normal, "SuccessfulUpdate", "Scale", format!("Updated MachineAutoscaler target: {name}"));
        Ok(Outcome::Done)
    }

    async fn target(&self, autoscaler: &MachineAutoscaler, target: &TargetRef) -> Result<Option<Value>, Error> {
        if !target.is_supported() || self.sets.objects().is_none() {
            return Ok(None);
        }
        Ok(self.shared.writer.get(&MACHINE_SET.at(&Key::new(&autoscaler.namespace, &target.name))).await?)
    }

    async fn release(&self, autoscaler: &MachineAutoscaler, target: &TargetRef) -> Result<(), Error> {
        let Some(live) = self.target(autoscaler, target).await? else { return Ok(()) };
        match autoscaler.release(&live) {
            Some(patch) => self.patch(&live, patch).await,
            None => Ok(()),
        }
    }

    /// Patches a target that must not have changed, so that no two owners overwrite each other.
    async fn patch(&self, live: &Value, mut patch: Value) -> Result<(), Error> {
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        self.shared.writer.patch(&mainstay_objects::ObjectRef::of(live)?, "", &Patch::Merge(patch)).await?;
        Ok(())
    }
}
