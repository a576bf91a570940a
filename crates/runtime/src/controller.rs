//! Workers that take keys from a queue and reconcile them.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mainstay_diagnostics::chain;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{Env, Queue};

/// The result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Complete until something changes.
    Done,
    /// A permanent error, which the object reports. The key waits until something changes.
    Blocked,
    /// Complete, but due again after this time.
    After(Duration),
    /// An incomplete reconcile for a reason that the object reports; tried again with back-off (OLM1-CTRL-09).
    Retry,
}

impl Outcome {
    /// Returns the name that controller-runtime's metrics use.
    fn name(&self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Blocked => "error",
            Self::After(_) => "requeue_after",
            Self::Retry => "requeue",
        }
    }
}

/// The target of [`span`]. Logs show it at every level, since lines of any level refer to it (MS-OPS-01).
pub const RECONCILE: &str = "reconcile";

/// Returns the span of a reconcile's log lines: the controller, the object, and an ID unique to the reconcile.
fn span(controller: &'static str, key: &impl Display) -> tracing::Span {
    // The ID does not come from `Env`, whose randomness serves decisions and is repeated in tests.
    let id = format!("{:016x}", rand::random::<u64>());
    tracing::error_span!(target: RECONCILE, "reconcile", controller, object = %key, reconcile_id = id)
}

/// The longest time that a reconcile holds its worker. A longer one continues and gives its place to another key, so that slow answers for some
/// objects hold up no others.
const HELD: Duration = Duration::from_secs(5);
/// Reconciles that may continue beside the workers; further ones keep their places until they end.
const BESIDE: usize = 64;

/// Runs `workers` workers until `stop`. Reconciles in progress are finished.
pub async fn run<K, E, F, R>(name: &'static str, queue: Queue<K>, workers: usize, env: Env, stop: CancellationToken, reconcile: F)
where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    E: std::error::Error + Send + 'static,
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, E>> + Send + 'static,
{
    let counted = queue.clone();
    let _shown = env.metrics().show_queue(name, move || counted.measured());
    env.metrics().show_controller(name, workers.max(1));
    let reconcile = Arc::new(move |key: K| reconcile(key).boxed());
    let places = Arc::new(Semaphore::new(workers.max(1)));
    let beside = Arc::new(Semaphore::new(BESIDE));
    let (keys, started) = (queue.clone(), env.clone());
    // Dropping this future also aborts every task in the set.
    let mut dispatching = JoinSet::new();
    dispatching.spawn(async move {
        let mut tasks = JoinSet::new();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { break };
            let Some(key) = keys.next().await else { break };
            let (queue, env, reconcile, beside) = (keys.clone(), started.clone(), reconcile.clone(), beside.clone());
            tasks.spawn(async move {
                let work = one(name, &queue, &env, &key, async { reconcile(key.clone()).await });
                let mut work = std::pin::pin!(work);
                if tokio::time::timeout(HELD, &mut work).await.is_err() {
                    let Ok(_beside) = beside.try_acquire_owned() else { return work.await };
                    tracing::debug!(controller = name, object = %key, "a reconcile takes long and gives its place to others");
                    drop(place);
                    work.await;
                }
            });
            while let Some(ended) = tasks.try_join_next() {
                told(name, ended);
            }
        }
        while let Some(ended) = tasks.join_next().await {
            told(name, ended);
        }
    });
    stop.cancelled().await;
    queue.close();
    while let Some(ended) = dispatching.join_next().await {
        told(name, ended);
    }
}

fn told(controller: &'static str, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(controller, %error, "a worker ended abnormally");
    }
}

/// Reconciles a key, and puts it back into the queue as its outcome requires.
async fn one<K, E>(name: &'static str, queue: &Queue<K>, env: &Env, key: &K, work: impl Future<Output = Result<Outcome, E>>)
where
    K: Clone + Eq + Hash + Display + Send + 'static,
    E: std::error::Error,
{
    let measured = env.metrics().reconcile(name);
    let span = span(name, key);
    // A reconcile that panics must not lose its key.
    let Ok(outcome) = AssertUnwindSafe(work).catch_unwind().instrument(span.clone()).await else {
        measured.panicked();
        let wait = queue.retry(key.clone(), env.fraction());
        span.in_scope(|| tracing::error!(retry_in = ?wait, "reconcile panicked"));
        queue.done(key);
        return;
    };
    span.in_scope(|| tracing::debug!(outcome = outcome.as_ref().map_or("error", Outcome::name), "reconciled"));
    match &outcome {
        Ok(Outcome::Blocked) => measured.failed_for_good(),
        outcome => measured.ended(outcome.as_ref().map_or("error", Outcome::name)),
    }
    match outcome {
        Ok(Outcome::Done | Outcome::Blocked) => queue.succeeded(key),
        Ok(Outcome::After(wait)) => {
            queue.succeeded(key);
            queue.add_after(key.clone(), wait);
        }
        Ok(Outcome::Retry) => {
            queue.retry(key.clone(), env.fraction());
        }
        Err(error) => {
            let wait = queue.retry(key.clone(), env.fraction());
            span.in_scope(|| tracing::warn!(error = %chain(&error), retry_in = ?wait, "reconcile failed"));
        }
    }
    queue.done(key);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_and_panics_are_tried_again_and_stop_waits_for_what_runs() {
        let (queue, stop, env) = (Queue::default(), CancellationToken::new(), Env::system());
        let tries: Arc<Mutex<Vec<&str>>> = Arc::default();
        for key in ["fails", "panics", "works"] {
            queue.add(key);
        }
        let (seen, ended, handle) = (tries.clone(), stop.clone(), queue.clone());
        let reconcile = move |key: &'static str| {
            let (seen, ended) = (seen.clone(), ended.clone());
            async move {
                let before = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(key);
                    seen.iter().filter(|other| **other == key).count()
                };
                match (key, before) {
                    ("fails", 1) => Err(std::fmt::Error),
                    ("panics", 1) => panic!("as the test wants it"),
                    ("panics", _) => {
                        ended.cancel();
                        tokio::time::sleep(Duration::from_secs(3)).await;
                        seen.lock().unwrap().push("finished");
                        Ok(Outcome::Done)
                    }
                    _ => Ok(Outcome::Done),
                }
            }
        };
        run("test", handle, 2, env, stop, reconcile).await;
        let mut tries = tries.lock().unwrap().clone();
        assert_eq!(tries.last(), Some(&"finished"));
        tries.sort_unstable();
        assert_eq!(tries.iter().filter(|key| **key == "panics").count(), 2);
        assert!(queue.counts().retried >= 2);
    }
}
