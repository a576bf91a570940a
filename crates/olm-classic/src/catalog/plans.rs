//! The controller of InstallPlans (OLM0-IP-03 to OLM0-IP-13).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::WriteError;
use mainstay_objects::{ObjectRef, meta};
use mainstay_olm_classic_core::install_plan::{self, Plan, executed, plan};
use mainstay_runtime::{Cache, Key, Outcome, Queue};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::execute::{Executed, Execution};
use super::namespaces::Controller as Namespaces;
use super::parts::Parts;
use super::unfinished::{Unfinished, images};
use super::versions::Versions;

/// InstallPlans that are executed at a time.
const WORKERS: usize = 4;
/// The interval at which a failing plan is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The time after which a copy that lags is looked at again.
const LAG: Duration = Duration::from_millis(20);
/// The tries to write a status while others write labels.
const TRIES: usize = 10;
/// The interval at which a plan looks for the APIs that it made.
const WAIT: Duration = Duration::from_millis(100);

/// A failure of a reconcile that no status can show.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be read.
    #[error("installplan {0} cannot be read")]
    Form(Key, #[source] serde_json::Error),
}

/// Runs the controller until `stop`.
pub async fn run(parts: Arc<Parts>, namespaces: Arc<Namespaces>, stop: CancellationToken) {
    let queue: Queue<Key> = Queue::default();
    let woken = queue.clone();
    parts.caches.plans.on_change(move |change| {
        if let Some(object) = change.object() {
            woken.add(Key::of(object));
        }
    });
    let unfinished = Unfinished::follow(&parts.caches.plans);
    for cache in [&parts.caches.groups, &parts.caches.roles, &parts.caches.role_bindings] {
        wake_by_group(cache, &unfinished, &queue);
    }
    let (env, worker) = (parts.env.clone(), Worker { parts, namespaces, written: Arc::default(), unfinished });
    let reconcile = move |key: Key| {
        let worker = worker.clone();
        async move { reconcile(&worker, &key).await }
    };
    mainstay_runtime::run("installplan", queue, WORKERS, env, stop, reconcile).await;
}

/// Wakes the plans of a namespace whose OperatorGroup, or whose account's permissions, changed: those that are under way, and those that
/// failed as an account.
fn wake_by_group(cache: &Cache, unfinished: &Unfinished, queue: &Queue<Key>) {
    let (unfinished, queue) = (unfinished.clone(), queue.clone());
    cache.on_change(move |change| {
        let Some(namespace) = change.object().and_then(|object| object.metadata.namespace.clone()) else { return };
        unfinished.waiting(&namespace).into_iter().for_each(|plan| queue.add(plan));
    });
}

/// The parts that a reconcile uses.
#[derive(Clone)]
struct Worker {
    parts: Arc<Parts>,
    namespaces: Arc<Namespaces>,
    written: Arc<Versions>,
    unfinished: Unfinished,
}

async fn reconcile(worker: &Worker, key: &Key) -> Result<Outcome, PlanError> {
    let Worker { parts, namespaces, written, unfinished } = worker;
    let Some(object) = parts.caches.plans.get(key) else {
        namespaces.wake(&key.namespace);
        written.forget(key);
        return Ok(Outcome::Done);
    };
    let object = serde_json::to_value(&*object).map_err(|error| PlanError::Form(key.clone(), error))?;
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Outcome::Done);
    }
    if written.lag(std::slice::from_ref(&object)) {
        // Its steps would be done twice.
        return Ok(Outcome::After(LAG));
    }
    let groups = parts.caches.groups.in_namespace(&key.namespace);
    let groups: Result<Vec<Value>, _> = groups.iter().map(|group| serde_json::to_value(&**group)).collect();
    let groups = groups.map_err(|error| PlanError::Form(key.clone(), error))?;
    let now = parts.env.now_seconds();
    if let Some(status) = retry_as_account(parts, &object, now) {
        write(parts, written, &object, &status).await?;
        return Ok(Outcome::Done);
    }
    match plan(&object, &groups, now) {
        Plan::Wait => Ok(Outcome::Done),
        Plan::Report { status, again } => {
            write(parts, written, &object, &status).await?;
            Ok(if again { Outcome::After(RETRY) } else { Outcome::Done })
        }
        Plan::Execute(status) => {
            // The start is written before anything is done, so that a restart does not begin the time for retries again.
            let live = if object["status"] == status {
                object
            } else {
                match parts.writer.update_status(&object, &status).await {
                    Ok(live) => live.unwrap_or(object),
                    Err(error) if error.is_conflict() || error.is_not_found() => return Ok(Outcome::Done),
                    Err(error) => return Err(error.into()),
                }
            };
            let Executed { status, failure } = Execution::of(parts, &live).run().await;
            let status = executed(status, failure.as_ref(), parts.retry_for, parts.env.now_seconds());
            let done = install_plan::is_done(&serde_json::json!({"status": status}));
            write(parts, written, &live, &status).await?;
            if done {
                release(parts, unfinished, key, &live).await;
            }
            namespaces.wake(&key.namespace);
            Ok(match (&failure, done) {
                (_, true) => Outcome::Done,
                (Some(_), false) => Outcome::After(RETRY),
                (None, false) => Outcome::After(WAIT),
            })
        }
    }
}

/// Forgets the unpacked bundles of a plan that is over, unless another plan that is not uses them.
async fn release(parts: &Parts, unfinished: &Unfinished, key: &Key, plan: &Value) {
    for image in images(&plan["status"]).filter(|image| !unfinished.needs(image, key)) {
        parts.images.forget_bundle(&image).await;
    }
}

/// The status of a failed plan that is tried again, since a role or binding of its namespace is newer than its failure.
fn retry_as_account(parts: &Parts, object: &Value, now: jiff::Timestamp) -> Option<Value> {
    let next = install_plan::retried(object, now)?;
    let failed: u64 = meta(object, "resourceVersion")?.parse().ok()?;
    let namespace = meta(object, "namespace")?;
    let newest = [&parts.caches.roles, &parts.caches.role_bindings]
        .into_iter()
        .flat_map(|cache| cache.in_namespace(&namespace))
        .filter_map(|object| object.metadata.resource_version.as_ref()?.parse::<u64>().ok())
        .max();
    newest.filter(|newest| *newest > failed).map(|_| next)
}

/// Writes a status; a newer status of the plan wakes it again. Labels that change meanwhile are no reason to forget what was done: every step
/// would be done once more.
async fn write(parts: &Parts, written: &Versions, of: &Value, status: &Value) -> Result<(), PlanError> {
    let place = ObjectRef::of(of).map_err(WriteError::from)?;
    let mut live = Cow::Borrowed(of);
    for _ in 0..TRIES {
        match parts.writer.update_status(&live, status).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
            Ok(now) => {
                if let Some(now) = now {
                    written.note(&now);
                }
                return Ok(());
            }
        }
        match parts.writer.get(&place).await? {
            Some(now) if now["metadata"]["uid"] == of["metadata"]["uid"] && now["status"] == of["status"] => live = Cow::Owned(now),
            _ => return Ok(()),
        }
    }
    Ok(())
}
