//! Owners of lifecycle hooks: a controller for a program that has something to do before a node is drained or an instance is removed (MACH-HOOK-06,
//! MACH-HOOK-07).
//!
//! ```text
//!   Machine, deleted ── turn (machine-core): its hook, and its stage ──► HookOwner::on_delete ── done ──► the hook goes, by a patch of its own entry
//! ```
//!
//! It needs no more than to read Machines and to patch them, and works beside any Machine API.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use mainstay_apply::Writer;
use mainstay_machine_core::hook_owner::{OwnedHook, Turn};
use mainstay_machine_core::machine::Machine;
use mainstay_objects::Patch;
use mainstay_runtime::{Cache, Cluster, Env, Key, Kinds, Outcome, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::kinds::MACHINE;
use crate::shared::settled;

/// Machines that are worked on concurrently.
const WORKERS: usize = 4;

/// The progress of the work for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Done: the hook goes.
    Done,
    /// It is looked at again after a time; the machine waits.
    After(Duration),
}

/// The failure of an owner. It is tried again with back-off, and the machine waits.
pub type OwnerError = Box<dyn std::error::Error + Send + Sync>;

/// An owner of a hook.
pub trait HookOwner: Send + Sync + 'static {
    /// The hook: its stage, its name and its owner as machines carry them.
    fn hook(&self) -> OwnedHook;

    /// Does what is to be done before the machine's deletion goes on. It may be called any number of times for one machine, also after a restart.
    fn on_delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Progress, OwnerError>>;
}

/// Runs an owner until `stop` is cancelled.
///
/// # Errors
/// No client can be made.
pub async fn run(cluster: Cluster, env: Env, owner: Arc<dyn HookOwner>, stop: CancellationToken) -> Result<(), Error> {
    let client = cluster.client()?;
    let manager = owner.hook().hook.owner;
    let writer = Writer::new(client.clone(), Kinds::new(client.clone()), manager);
    let machines = Cache::start(&client, &MACHINE.resource(), &Scope::default(), &stop);
    let queue: Queue<Key> = Queue::default();
    let woken = queue.clone();
    machines.on_change(move |change| {
        if let Some(machine) = change.now.as_ref().filter(|machine| machine.metadata.deletion_timestamp.is_some()) {
            woken.add(Key::of(machine));
        }
    });
    let controller = Arc::new(Controller { writer, owner });
    mainstay_runtime::run("hook-owner", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
    Ok(())
}

struct Controller {
    writer: Writer,
    owner: Arc<dyn HookOwner>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let place = MACHINE.at(key);
        let Some(live) = self.writer.get(&place).await? else { return Ok(Outcome::Done) };
        let hook = self.owner.hook();
        if hook.turn(&Machine::of(&live)) != Turn::Now {
            return Ok(Outcome::Done);
        }
        match self.owner.on_delete(&live).await {
            Ok(Progress::Done) => {}
            Ok(Progress::After(wait)) => return Ok(Outcome::After(wait)),
            Err(error) => {
                tracing::warn!(error = &*error as &dyn std::error::Error, machine = %key, hook = %hook.hook, "the work before a deletion failed");
                return Ok(Outcome::Retry);
            }
        }
        // The list may have changed during the work.
        let Some(live) = self.writer.get(&place).await? else { return Ok(Outcome::Done) };
        if let Some(patch) = hook.release(&live) {
            self.writer.patch(&place, "", &Patch::Json(patch)).await?;
            tracing::info!(machine = %key, hook = %hook.hook, "the hook is released");
        }
        Ok(Outcome::Done)
    }
}
