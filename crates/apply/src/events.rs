//! Events: what happened to an object, for people. The same event again is counted, not repeated.
//!
//! ```text
//!   record ──► queue (bounded) ──► one task that writes ──► events.k8s.io/v1
//! ```
//!
//! Reporting never waits for the server: a slow one must not hold up the work. Events that find no place in the queue are dropped and
//! counted.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jiff::{SignedDuration, Timestamp};
use mainstay_objects::{ObjectError, ObjectRef, Patch};
use mainstay_runtime::Env;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::{WriteError, Writer};

/// Maximum number of events that wait to be written; more are dropped.
const WAITING: usize = 1_000;
/// Number of waiting events from which normal ones are dropped.
const BUSY: usize = WAITING / 2;
/// Number of different events that are remembered.
const REMEMBERED: usize = 1_024;
/// Time after which the same event counts as a new one.
const SERIES: SignedDuration = SignedDuration::from_mins(6);
/// Size limits of the server, in bytes.
const NOTE: usize = 1_024;
const REASON: usize = 128;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The event informs.
    Normal,
    /// The event asks for attention.
    Warning,
}

/// A recorder that reports events as one controller; they are written in the background.
#[derive(Clone)]
pub struct Recorder {
    scribe: Arc<Scribe>,
    /// Created with the first report, since tasks can certainly be started only then.
    queue: Arc<OnceLock<mpsc::Sender<Told>>>,
}

/// The writer of reported events.
struct Scribe {
    writer: Writer,
    env: Env,
    controller: String,
    instance: String,
}

enum Told {
    Event(Box<Seen>),
    /// Asks that everything reported before is written.
    Flush(oneshot::Sender<()>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Seen {
    object: ObjectRef,
    uid: String,
    kind: EventKind,
    reason: String,
    action: String,
    note: String,
}

struct Series {
    event: ObjectRef,
    count: u64,
    last: Timestamp,
}

impl Recorder {
    /// Creates a recorder that reports as `controller`, running as `instance`.
    pub fn new(writer: Writer, env: Env, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        let scribe = Scribe { writer, env, controller: controller.into(), instance: instance.into() };
        Self { scribe: Arc::new(scribe), queue: Arc::default() }
    }

    /// Reports that `action` on `about` had this outcome. A task of the calling runtime writes the event later.
    ///
    /// Events of cluster-wide objects go to namespace `default`. A failed report is no reason to fail the work: an event that cannot be
    /// written is logged, and one that finds no place in the queue is counted (`mainstay_events_dropped_total`). The error is that of an
    /// object that lacks a part of its identity.
    pub fn record(&self, about: &Value, kind: EventKind, reason: &str, action: &str, note: &str) -> Result<(), ObjectError> {
        let object = ObjectRef::of(about)?;
        let uid = about.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let told = Seen {
            object,
            uid,
            kind,
            reason: cut(reason, REASON).to_owned(),
            action: cut(action, REASON).to_owned(),
            note: cut(note, NOTE).to_owned(),
        };
        let queue = self.queue();
        let busy = kind == EventKind::Normal && queue.capacity() < BUSY;
        if busy || queue.try_send(Told::Event(Box::new(told))).is_err() {
            tracing::debug!(reason, "too many events wait: one is dropped");
            self.scribe.env.metrics().event_dropped(&self.scribe.controller);
        }
        Ok(())
    }

    /// Waits until everything reported before is written, or cannot be.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.queue().send(Told::Flush(done)).await.is_ok() {
            // Writing stops when the runtime ends.
            let _ = written.await;
        }
    }

    fn queue(&self) -> &mpsc::Sender<Told> {
        self.queue.get_or_init(|| {
            let (queue, told) = mpsc::channel(WAITING);
            tokio::spawn(self.scribe.clone().write_all(told));
            queue
        })
    }
}

impl Scribe {
    /// Writes reported events, in order, until all recorders are gone.
    async fn write_all(self: Arc<Self>, mut queue: mpsc::Receiver<Told>) {
        let mut seen = HashMap::new();
        while let Some(told) = queue.recv().await {
            match told {
                Told::Flush(done) => {
                    // The caller may be gone.
                    let _ = done.send(());
                }
                Told::Event(event) => {
                    let reason = event.reason.clone();
                    match self.write(&mut seen, *event).await {
                        Ok(()) => {}
                        Err(WriteError::NotLeading { .. }) => tracing::debug!(reason, "an event is not written: the Lease is lost"),
                        Err(error) => {
                            tracing::warn!(error = &error as &dyn std::error::Error, reason, "an event could not be written");
                        }
                    }
                }
            }
        }
    }

    async fn write(&self, seen: &mut HashMap<Seen, Series>, key: Seen) -> Result<(), WriteError> {
        let now = self.env.now();
        if let Some(series) = seen.get_mut(&key).filter(|series| now.duration_since(series.last) < SERIES) {
            let count = series.count + 1;
            let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": micro(now)}}));
            match self.writer.patch(&series.event, "", &patch).await {
                Ok(_) => {
                    series.count = count;
                    series.last = now;
                    return Ok(());
                }
                // The event expired: a new one begins.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(&key, now);
        let place = ObjectRef::of(&event)?;
        self.writer.create(&event).await?;
        if seen.len() >= REMEMBERED {
            seen.retain(|_, series| now.duration_since(series.last) < SERIES);
            if seen.len() >= REMEMBERED
                && let Some(oldest) = seen.iter().min_by_key(|(_, series)| series.last).map(|(key, _)| key.clone())
            {
                seen.remove(&oldest);
            }
        }
        seen.insert(key, Series { event: place, count: 1, last: now });
        Ok(())
    }

    fn event(&self, key: &Seen, now: Timestamp) -> Value {
        let namespace = if key.object.namespace.is_empty() { "default" } else { &key.object.namespace };
        let mut regarding = json!({"apiVersion": key.object.api_version, "kind": key.object.kind, "name": key.object.name, "uid": key.uid});
        if !key.object.namespace.is_empty() {
            regarding["namespace"] = Value::String(key.object.namespace.clone());
        }
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{:016x}", cut(&key.object.name, 230), self.env.random()), "namespace": namespace},
            "eventTime": micro(now),
            "reportingController": self.controller,
            "reportingInstance": cut(&self.instance, REASON),
            "action": key.action,
            "reason": key.reason,
            "regarding": regarding,
            "note": key.note,
            "type": match key.kind { EventKind::Normal => "Normal", EventKind::Warning => "Warning" },
        })
    }
}

/// Formats a time as MicroTime.
fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Returns the longest beginning of at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
