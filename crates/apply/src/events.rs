//! Events: what happened to an object, for people. The same event again is counted, not repeated.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mainstay_runtime::Env;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{ObjectRef, Patch, WriteError, Writer};

/// How many different events are remembered.
const REMEMBERED: usize = 1_024;
/// An event that comes again after this long is a new one.
const SERIES: SignedDuration = SignedDuration::from_mins(6);
/// The server's limits, in bytes.
const NOTE: usize = 1_024;
const REASON: usize = 128;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It informs.
    Normal,
    /// It asks for attention.
    Warning,
}

/// Writes events as one controller.
#[derive(Clone)]
pub struct Recorder {
    writer: Writer,
    env: Env,
    controller: String,
    instance: String,
    seen: Arc<Mutex<HashMap<Seen, Series>>>,
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
    /// A recorder that reports as `controller`, running as `instance`.
    pub fn new(writer: Writer, env: Env, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        Self { writer, env, controller: controller.into(), instance: instance.into(), seen: Arc::default() }
    }

    /// Reports that `action` on `about` had this outcome.
    ///
    /// Events of cluster-wide objects go to namespace `default`. Failing to report is no reason to fail the work: callers
    /// log the error.
    pub async fn record(&self, about: &Value, kind: EventKind, reason: &str, action: &str, note: &str) -> Result<(), WriteError> {
        let object = ObjectRef::of(about)?;
        let uid = about.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = Seen {
            object,
            uid,
            kind,
            reason: cut(reason, REASON).to_owned(),
            action: cut(action, REASON).to_owned(),
            note: cut(note, NOTE).to_owned(),
        };
        let now = self.env.now();
        // Held while writing, so that two reports of the same do not both begin a series.
        let mut seen = self.seen.lock().await;
        if let Some(series) = seen.get_mut(&key).filter(|series| now.duration_since(series.last) < SERIES) {
            let count = series.count + 1;
            let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": micro(now)}}));
            match self.writer.patch(&series.event, "", &patch).await {
                Ok(_) => {
                    series.count = count;
                    series.last = now;
                    return Ok(());
                }
                // It expired: a new one begins.
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

/// A time as MicroTime is written.
fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The longest beginning of at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
