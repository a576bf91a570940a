//! ResourceQuota: what a write uses is charged to the quotas of its namespace before it is stored, and given back when it is not.
//!
//! ```text
//!   writes ──► queue of their namespace ──► one turn at a time: all that wait are charged together ──► quotas' status
//! ```
//! Each quota is written with the revision that it was read at, so that a hard limit holds against whoever else charges it, in this
//! process or in another one. What is deleted is given back by the quota controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use mainstay_kinds::quota::{self, Charge, Evaluator, Quota, Write};
use serde_json::Value;
use tokio::sync::oneshot;

use super::lookup::Lookup;
use super::step::{AdmissionStep, Operation, Request};
use crate::error::{ApiError, Result};
use crate::fields;
use crate::served::Served;
use crate::stored::Loaded;

/// The most attempts of a charge, if another writer changes the quota each time.
const ATTEMPTS: usize = 10;

/// The step.
#[derive(Default)]
pub struct ResourceQuota {
    queues: Arc<Mutex<Queues>>,
}

/// By namespace.
type Queues = HashMap<String, Arc<Queue>>;

/// The writes of one namespace that wait to be charged.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Vec<Waiting>>,
    /// Held by the turn that charges.
    turn: tokio::sync::Mutex<()>,
}

struct Waiting {
    evaluator: Evaluator,
    operation: quota::Operation,
    subresource: String,
    object: Value,
    old: Option<Value>,
    dry_run: bool,
    now: Timestamp,
    answer: oneshot::Sender<Result<Vec<Charge>, Refusal>>,
    /// Charges that are made already, while other quotas have to be tried again.
    charged: Vec<Charge>,
}

enum Refusal {
    /// It does not fit: the words after `is forbidden: `.
    Forbidden(quota::Refusal),
    /// It cannot be known whether it fits.
    Failed(ApiError),
}

#[async_trait]
impl AdmissionStep for ResourceQuota {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let facts = &request.served.facts;
        let operation = match request.operation {
            Operation::Create => quota::Operation::Create,
            Operation::Update => quota::Operation::Update,
            Operation::Delete => return Ok(()),
        };
        let Some(object) = object.filter(|_| !request.namespace.is_empty() && facts.namespaced) else { return Ok(()) };
        let Some(evaluator) = Evaluator::of(&facts.group, &facts.plural) else { return Ok(()) };
        let now = Timestamp::now();
        let write = Write { operation, subresource: request.subresource, object, old: request.old, now };
        if !evaluator.handles(&write) || !Self::measured(request, &evaluator)? {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            evaluator,
            operation,
            subresource: request.subresource.to_owned(),
            object: object.clone(),
            old: request.old.cloned(),
            dry_run: request.dry_run,
            now,
            answer,
            charged: Vec::new(),
        };
        self.enqueue(request.lookup.clone(), &request.namespace, waiting);
        match answered.await {
            Ok(Ok(charges)) => {
                request.charges.keep(charges);
                Ok(())
            }
            Ok(Err(Refusal::Forbidden(why))) => Err(request.forbidden(why.to_string())),
            Ok(Err(Refusal::Failed(error))) => Err(error),
            Err(_) => Err(ApiError::internal("resource quota evaluation ended abnormally")),
        }
    }

    async fn abandon(&self, request: &Request<'_>) {
        let charges = request.charges.take();
        if !charges.is_empty() {
            let queue = self.queue(&request.namespace);
            {
                let _turn = queue.turn.lock().await;
                release(&**request.lookup, &request.namespace, &charges).await;
            }
            leave(&self.queues, &request.namespace, &queue);
        }
    }
}

impl ResourceQuota {
    /// Returns whether any quota of the namespace measures such objects.
    fn measured(request: &Request<'_>, evaluator: &Evaluator) -> Result<bool> {
        let quotas = request.list("", "resourcequotas", &request.namespace)?;
        Ok(quotas.iter().map(Quota::enforced).any(|quota| quota.hard.names().any(|name| evaluator.measures(name))))
    }

    fn queue(&self, namespace: &str) -> Arc<Queue> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).entry(namespace.to_owned()).or_default().clone()
    }

    /// Lets a write wait, and sees to it that its turn comes. Processor are tasks of their own: a client that goes away ends no turn
    /// half-way.
    fn enqueue(&self, lookup: Arc<dyn Lookup>, namespace: &str, waiting: Waiting) {
        let queue = self.queue(namespace);
        queue.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        let (queues, namespace) = (self.queues.clone(), namespace.to_owned());
        tokio::spawn(async move {
            {
                let _turn = queue.turn.lock().await;
                let batch = std::mem::take(&mut *queue.waiting.lock().unwrap_or_else(PoisonError::into_inner));
                if !batch.is_empty() {
                    charge(&*lookup, &namespace, batch).await;
                }
            }
            leave(&queues, &namespace, &queue);
        });
    }
}

/// Forgets a queue that nobody else uses: two hold it then, the map and the caller.
fn leave(queues: &Mutex<Queues>, namespace: &str, queue: &Arc<Queue>) {
    let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
    if Arc::strong_count(queue) == 2 {
        queues.remove(namespace);
    }
}

/// The quotas of a namespace as the store has them, so that only others than this process can come in between.
async fn load(lookup: &dyn Lookup, served: &Arc<Served>, namespace: &str, only: Option<&[String]>) -> Result<Vec<(Loaded, Quota)>> {
    let mut quotas = Vec::new();
    for entry in lookup.list(&served.storage, namespace) {
        if only.is_some_and(|only| !only.iter().any(|name| name == entry.name())) {
            continue;
        }
        if let Some(loaded) = lookup.load(served, namespace, entry.name()).await? {
            let quota = Quota::enforced(&loaded.value);
            quotas.push((loaded, quota));
        }
    }
    Ok(quotas)
}

/// Charges all that wait, and answers each.
async fn charge(lookup: &dyn Lookup, namespace: &str, batch: Vec<Waiting>) {
    let mut batch = batch;
    let mut only: Option<Vec<String>> = None;
    for attempt in 1..=ATTEMPTS {
        match round(lookup, namespace, batch, only.as_deref()).await {
            Ok(Round::Done) => return,
            Ok(Round::Again { batch: rest, failed, error }) if attempt == ATTEMPTS => {
                tracing::warn!(namespace, quotas = ?failed, "quotas are written by others all the time");
                return refuse(lookup, namespace, rest, &error).await;
            }
            Ok(Round::Again { batch: rest, failed, .. }) => {
                batch = rest;
                only = Some(failed);
            }
            Err((rest, error)) => return refuse(lookup, namespace, rest, &error).await,
        }
    }
}

async fn refuse(lookup: &dyn Lookup, namespace: &str, batch: Vec<Waiting>, error: &ApiError) {
    for mut waiting in batch {
        release(lookup, namespace, &std::mem::take(&mut waiting.charged)).await;
        // Whoever has gone away needs no answer.
        let _ = waiting.answer.send(Err(Refusal::Failed(error.clone())));
    }
}

enum Round {
    /// Everybody has their answer.
    Done,
    /// Somebody else wrote these quotas meanwhile.
    Again { batch: Vec<Waiting>, failed: Vec<String>, error: Box<ApiError> },
}

/// One look at the quotas: everybody who does not fit is refused, the others are charged together, one write a quota.
async fn round(
    lookup: &dyn Lookup,
    namespace: &str,
    batch: Vec<Waiting>,
    only: Option<&[String]>,
) -> Result<Round, (Vec<Waiting>, ApiError)> {
    let loaded = match lookup.built_in("", "resourcequotas") {
        Ok(served) => load(lookup, &served, namespace, only).await.map(|quotas| (served, quotas)),
        Err(error) => Err(error),
    };
    let (served, quotas) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Err((batch, error)),
    };
    let (stored, mut running): (Vec<Loaded>, Vec<Quota>) = quotas.into_iter().unzip();
    let before = running.clone();
    let mut pending: Vec<(Waiting, Vec<Charge>)> = Vec::new();
    for mut waiting in batch {
        let write = Write {
            operation: waiting.operation,
            subresource: &waiting.subresource,
            object: &waiting.object,
            old: waiting.old.as_ref(),
            now: waiting.now,
        };
        let mut trial = running.clone();
        match quota::charge(&mut trial, &waiting.evaluator, &write) {
            Err(why) => {
                release(lookup, namespace, &std::mem::take(&mut waiting.charged)).await;
                let _ = waiting.answer.send(Err(Refusal::Forbidden(why)));
            }
            Ok(charges) if waiting.dry_run || charges.is_empty() => answer(lookup, namespace, waiting).await,
            Ok(charges) => {
                running = trial;
                pending.push((waiting, charges));
            }
        }
    }
    let (mut failed, mut last) = (Vec::new(), None);
    for ((loaded, quota), before) in stored.iter().zip(&running).zip(&before) {
        if quota.used == before.used {
            continue;
        }
        if let Err(error) = write(lookup, &served, loaded, quota).await {
            failed.push(quota.name.clone());
            last = Some(error);
        }
    }
    let mut rest = Vec::new();
    for (mut waiting, charges) in pending {
        let (missed, taken): (Vec<Charge>, Vec<Charge>) = charges.into_iter().partition(|charge| failed.contains(&charge.quota));
        waiting.charged.extend(taken);
        if missed.is_empty() {
            answer(lookup, namespace, waiting).await;
        } else {
            rest.push(waiting);
        }
    }
    match last {
        Some(error) if error.reason == "Conflict" || error.reason == "NotFound" => {
            Ok(Round::Again { batch: rest, failed, error: Box::new(error) })
        }
        Some(error) => Err((rest, error)),
        None => Ok(Round::Done),
    }
}

/// Lets a write in. Where nobody waits for that any more, nothing is kept.
async fn answer(lookup: &dyn Lookup, namespace: &str, waiting: Waiting) {
    let Waiting { answer, charged, .. } = waiting;
    if let Err(Ok(charges)) = answer.send(Ok(charged)) {
        release(lookup, namespace, &charges).await;
    }
}

async fn write(lookup: &dyn Lookup, served: &Arc<Served>, stored: &Loaded, quota: &Quota) -> Result<()> {
    let mut new = stored.value.clone();
    new["status"]["used"] = quota.used.to_value();
    fields::by_server(served, &stored.value, &mut new, Some("status"));
    lookup.save_status(served, &mut new, stored.revision).await
}

/// Gives back what was charged. What cannot be given back now is found by the quota controller.
async fn release(lookup: &dyn Lookup, namespace: &str, charges: &[Charge]) {
    for charge in charges {
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = release_one(lookup, namespace, charge).await;
            if !outcome.as_ref().is_err_and(|error| error.reason == "Conflict") {
                break;
            }
        }
        if let Err(error) = outcome {
            tracing::warn!(namespace, quota = charge.quota, %error, "what was charged is not given back yet");
        }
    }
}

async fn release_one(lookup: &dyn Lookup, namespace: &str, charge: &Charge) -> Result<()> {
    let served = lookup.built_in("", "resourcequotas")?;
    let Some(stored) = lookup.load(&served, namespace, &charge.quota).await? else { return Ok(()) };
    let mut quota = Quota::enforced(&stored.value);
    let used = &quota.used;
    // A name that the quota has no more is not given back to it.
    let given_back = charge.amounts.only(|name| used.get(name).is_some());
    quota.used.subtract(&given_back);
    write(lookup, &served, &stored, &quota).await
}
