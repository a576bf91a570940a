//! Watches of what was applied, so that drift is noticed (OLM1-CTRL-08).
//!
//! An extension's objects are watched as the extension's own account (OLM1-PERM-01), by metadata alone: that something changed is
//! enough to look again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::{Api, DynamicObject, GroupVersionKind};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use mainstay_api::olm_v1::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_runtime::{Key, Kinds, Queue};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A watch is opened again before the token that it was opened with ends.
const LIFE: Duration = Duration::from_secs(45 * 60);

/// The watches of all extensions.
#[derive(Clone)]
pub struct Watches {
    queue: Queue<Key>,
    held: Arc<Mutex<HashMap<String, HashMap<GroupVersionKind, Held>>>>,
}

struct Held {
    since: Instant,
    _stop: DropGuard,
}

impl Watches {
    /// Wakes extensions through the queue.
    pub fn new(queue: Queue<Key>) -> Self {
        Self { queue, held: Arc::default() }
    }

    /// Ends an extension's watches.
    pub fn forget(&self, extension: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }

    /// Watches exactly these kinds for an extension.
    pub async fn keep(&self, extension: &str, client: &Client, kinds: &Kinds, wanted: &HashSet<GroupVersionKind>) {
        let missing: Vec<GroupVersionKind> = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let own = held.entry(extension.to_owned()).or_default();
            own.retain(|gvk, watch| wanted.contains(gvk) && watch.since.elapsed() < LIFE);
            wanted.iter().filter(|gvk| !own.contains_key(gvk)).cloned().collect()
        };
        for gvk in missing {
            let served = match kinds.served(&gvk).await {
                Ok(served) => served,
                Err(error) => {
                    tracing::warn!(extension, %error, "a kind cannot be watched; its drift is noticed at the next change of the extension");
                    continue;
                }
            };
            let stop = CancellationToken::new();
            let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &served.resource);
            tokio::spawn(follow(api, extension.to_owned(), self.queue.clone(), stop.clone()));
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let watch = Held { since: Instant::now(), _stop: stop.drop_guard() };
            held.entry(extension.to_owned()).or_default().insert(gvk, watch);
        }
    }
}

/// Wakes the extension for every change after the first list.
async fn follow(api: Api<PartialObjectMeta<DynamicObject>>, extension: String, queue: Queue<Key>, stop: CancellationToken) {
    let labels = format!("{OWNER_KIND_LABEL}=ClusterExtension,{OWNER_NAME_LABEL}={extension}");
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default().labels(&labels)).default_backoff());
    let mut first = true;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Ok(Event::InitDone)) if first => first = false,
            // After a break of the watch anything may have happened.
            Some(Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_))) => queue.add(Key::new("", extension.clone())),
            Some(Ok(Event::Init | Event::InitApply(_))) => {}
            Some(Err(error)) => tracing::debug!(extension, %error, "a watch broke and is opened again"),
        }
    }
}
