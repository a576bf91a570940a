//! Events in the form of core/v1, as kube-controller-manager and kube-scheduler write them: with source, count and times.

use std::collections::HashMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_runtime::{Env, Key, Served};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Patch, builtin};
use crate::object::{Read as _, time};

/// The capacity of the queue of events; further ones are dropped.
const WAITING: usize = 1_000;
/// Distinct events that are remembered, so that a repetition is counted.
const REMEMBERED: usize = 512;

/// An event that a pure decision reports about an object, for [`Events::tell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The message, for people.
    pub message: String,
}

impl Event {
    /// Returns an event of type `Normal`.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: "Normal", reason, message: message.into() }
    }

    /// Returns an event of type `Warning`.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: "Warning", reason, message: message.into() }
    }
}

/// Writes events in the background.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Told>,
}

struct Told {
    component: &'static str,
    namespace: String,
    involved: Value,
    kind: &'static str,
    reason: &'static str,
    message: String,
}

impl Events {
    /// Starts the writer of events.
    pub fn start(api: Api, env: Env, stop: CancellationToken) -> Self {
        let (queue, told) = mpsc::channel(WAITING);
        tokio::spawn(write(api, env, told, stop));
        Self { queue }
    }

    /// Records an event of a decision.
    pub fn tell(&self, component: &'static str, served: &Served, about: &DynamicObject, event: Event) {
        self.record(component, event.kind, served, about, event.reason, event.message);
    }

    /// Records an event about an object. A failure never fails the work: it is logged.
    pub fn record(
        &self,
        component: &'static str,
        kind: &'static str,
        served: &Served,
        about: &DynamicObject,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let mut involved = json!({
            "apiVersion": served.resource.api_version,
            "kind": served.resource.kind,
            "name": about.name(),
            "uid": about.uid(),
            "resourceVersion": about.metadata.resource_version,
        });
        let namespace = if about.namespace().is_empty() { "default" } else { about.namespace() };
        if !about.namespace().is_empty() {
            involved["namespace"] = json!(namespace);
        }
        let told = Told { component, namespace: namespace.to_owned(), involved, kind, reason, message: message.into() };
        // While many events wait, normal ones are dropped.
        let busy = kind == "Normal" && self.queue.capacity() < WAITING / 2;
        if busy || self.queue.try_send(told).is_err() {
            tracing::debug!(component, reason, "too many events wait: one is dropped");
        }
    }
}

struct Written {
    key: Key,
    count: u64,
    last: Timestamp,
}

async fn write(api: Api, env: Env, mut queue: mpsc::Receiver<Told>, stop: CancellationToken) {
    let events = builtin("v1", "Event", "events", true);
    let mut seen: HashMap<(String, &'static str, String), Written> = HashMap::new();
    let mut previous = 0_i64;
    loop {
        let told = tokio::select! {
            () = stop.cancelled() => return,
            told = queue.recv() => told,
        };
        let Some(told) = told else { return };
        let now = env.now();
        let uid = told.involved["uid"].as_str().unwrap_or_default().to_owned();
        let same = (uid, told.reason, told.message.clone());
        if let Some(written) = seen.get_mut(&same) {
            let patch = Patch::Merge(json!({"count": written.count + 1, "lastTimestamp": time(now)}));
            match api.patch(&events, &written.key, "", &patch).await {
                Ok(_) => {
                    written.count += 1;
                    written.last = now;
                    continue;
                }
                // The event has expired, so a new one begins.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::debug!(%error, "an event could not be counted");
                    continue;
                }
            }
        }
        let about = told.involved["name"].as_str().unwrap_or_default().to_owned();
        // Clients show events of one second in the order of their names, so a name holds the time, as Kubernetes' own do.
        let nanos = i64::try_from(now.as_nanosecond()).unwrap_or_default().max(previous.saturating_add(1));
        previous = nanos;
        let name = format!("{}.{nanos:016x}", about.get(..230).unwrap_or(&about));
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": told.namespace},
            "involvedObject": told.involved,
            "reason": told.reason,
            "message": told.message,
            "source": {"component": told.component},
            "reportingComponent": told.component,
            "reportingInstance": "",
            "firstTimestamp": time(now),
            "lastTimestamp": time(now),
            "count": 1,
            "type": told.kind,
        });
        match api.create(&events, &told.namespace, &event).await {
            Ok(_) => {
                if seen.len() >= REMEMBERED
                    && let Some(oldest) = seen.iter().min_by_key(|(_, written)| written.last).map(|(same, _)| same.clone())
                {
                    seen.remove(&oldest);
                }
                seen.insert(same, Written { key: Key::new(told.namespace, name), count: 1, last: now });
            }
            Err(error) if error.is_stale() => {}
            Err(error) => tracing::debug!(%error, reason = told.reason, "an event could not be written"),
        }
    }
}
