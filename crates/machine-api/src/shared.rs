//! The state that the controllers share: one live copy of each kind, one writer, clock and randomness.

use std::fmt::Display;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use mainstay_apply::{EventKind, Recorder, WriteError, Writer};
use mainstay_machine_core::event;
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use mainstay_runtime::{Cache, Env, Key, Kinds, Outcome, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kinds::{BUDGET, CONTROL_PLANE, HEALTH_CHECK, KnownKind, MACHINE, MACHINE_SET, NODE};
use crate::{ACCOUNT, Error};

/// Most machines of a namespace.
const MOST: usize = 10_000;
/// Objects of one answer.
const PAGE: u32 = 500;

/// The shared state. Clones share it.
#[derive(Clone)]
pub(crate) struct Shared {
    pub writer: Writer,
    /// A client that takes every answer as it comes, for evictions.
    pub once: Client,
    pub env: Env,
    pub stop: CancellationToken,
    pub machines: Cache,
    pub sets: Cache,
    pub checks: Cache,
    pub control_planes: Cache,
    pub nodes: Cache,
    pub budgets: Cache,
}

impl Shared {
    pub fn start(client: &Client, once: Client, env: &Env, stop: &CancellationToken) -> Self {
        let cache = |kind: KnownKind| Cache::start(client, &kind.resource(), &Scope::default(), stop).shown(env.metrics());
        Self {
            writer: Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT),
            once,
            env: env.clone(),
            stop: stop.clone(),
            machines: cache(MACHINE),
            sets: cache(MACHINE_SET),
            checks: cache(HEALTH_CHECK),
            control_planes: cache(CONTROL_PLANE),
            nodes: cache(NODE),
            budgets: cache(BUDGET),
        }
    }

    /// Waits until every copy is complete.
    pub async fn ready(&self) {
        for cache in [&self.machines, &self.sets, &self.checks, &self.control_planes, &self.nodes, &self.budgets] {
            if self.stop.run_until_cancelled(cache.ready()).await.is_none() {
                return;
            }
        }
    }

    /// Reads an object as it is now.
    pub async fn get(&self, kind: KnownKind, key: &Key) -> Result<Option<Value>, WriteError> {
        self.writer.get(&kind.at(key)).await
    }

    /// Reads the machines of a namespace as they are now.
    pub async fn machines_now(&self, namespace: &str) -> Result<Vec<Value>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client().clone(), namespace, &MACHINE.resource());
        let mut params = ListParams::default().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = api.list(&params).await.map_err(|source| Error::List { what: "machines", source: Box::new(source) })?;
            for object in &page.items {
                found.push(named(object, MACHINE)?);
            }
            if found.len() > MOST {
                return Err(Error::TooMany { what: "machines", namespace: namespace.to_owned(), most: MOST });
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Returns the known machines.
    pub fn known_machines(&self) -> Vec<Machine> {
        self.machines.all().iter().filter_map(|object| serde_json::to_value(&**object).ok()).map(|value| Machine::of(&value)).collect()
    }

    /// Returns the known nodes.
    pub fn known_nodes(&self) -> Vec<Node> {
        self.nodes.all().iter().filter_map(|object| serde_json::to_value(&**object).ok()).map(|value| Node::of(&value)).collect()
    }

    /// Returns a recorder of events by a controller.
    pub fn recorder(&self, controller: &'static str) -> Teller {
        Teller(Recorder::new(self.writer.clone(), self.env.clone(), controller, "mainstay"))
    }

    /// Wakes the keys of a kind that changed.
    pub fn wake(cache: &Cache, queue: &Queue<Key>) {
        let queue = queue.clone();
        cache.on_change(move |change| {
            if let Some(object) = change.object() {
                queue.add(Key::of(object));
            }
        });
    }
}

/// Returns an object of a list as JSON, with its kind.
pub(crate) fn named(object: &DynamicObject, kind: KnownKind) -> Result<Value, Error> {
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = kind.api_version.into();
    value["kind"] = kind.kind.into();
    Ok(value)
}

/// A recorder of events.
#[derive(Clone)]
pub(crate) struct Teller(Recorder);

impl Teller {
    /// Reports an event; failing to report never fails the work.
    pub fn tell(&self, about: &Value, kind: event::EventKind, reason: &str, action: &str, note: impl Display) {
        let kind = match kind {
            event::EventKind::Normal => EventKind::Normal,
            event::EventKind::Warning => EventKind::Warning,
        };
        if let Err(error) = self.0.record(about, kind, reason, action, &note.to_string()) {
            tracing::warn!(%error, reason, "an event could not be reported");
        }
    }
}

/// Makes an object that changed meanwhile no error: it is looked at again at once.
pub(crate) fn settled(outcome: Result<Outcome, Error>) -> Result<Outcome, Error> {
    match outcome {
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "the object changed since it was read");
            Ok(Outcome::Retry)
        }
        outcome => outcome,
    }
}
