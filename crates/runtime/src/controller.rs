//! Workers that take keys from a queue and reconcile.

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Env, Queue};

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Done,
    /// To be looked at again after a while, whatever happens.
    After(Duration),
    /// It did not come to its end for a reason that is reported in the object; tried again with back-off (OLM1-CTRL-09).
    Retry,
}

/// Runs `workers` workers until `stop`; what is being reconciled then is finished.
pub async fn run<K, E, F, R>(name: &'static str, queue: Queue<K>, workers: usize, env: Env, stop: CancellationToken, reconcile: F)
where
    K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    E: std::error::Error + Send + 'static,
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, E>> + Send + 'static,
{
    let reconcile = Arc::new(reconcile);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers.max(1) {
        let (queue, env, reconcile) = (queue.clone(), env.clone(), reconcile.clone());
        tasks.spawn(async move {
            while let Some(key) = queue.next().await {
                match reconcile(key.clone()).await {
                    Ok(Outcome::Done) => queue.succeeded(&key),
                    Ok(Outcome::After(wait)) => {
                        queue.succeeded(&key);
                        queue.add_after(key.clone(), wait);
                    }
                    Ok(Outcome::Retry) => {
                        queue.retry(key.clone(), env.fraction());
                    }
                    Err(error) => {
                        let wait = queue.retry(key.clone(), env.fraction());
                        tracing::warn!(controller = name, %key, error = %chain(&error), retry_in = ?wait, "reconcile failed");
                    }
                }
                queue.done(&key);
            }
        });
    }
    stop.cancelled().await;
    queue.close();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(controller = name, %error, "a worker ended abnormally");
        }
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
