//! The watch cache: what every resource holds now and what changed lately, fed by one watch of the store (KAPI-WATCH-01, -02).
//!
//! ```text
//!   store watch ──► dispatcher ──► per resource: entries (now), ring (lately), watchers (bounded queues)
//! ```
//!
//! An event's bytes are made once, when the first watcher needs them, and shared by all. A watcher that does not keep up
//! is dropped: its stream ends and its client starts again, so it never holds memory without bound.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_store::{Event, KeyValue, Range, Revision, Store};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::object;
use crate::selector::{Labels, labels_of};

/// Below this every key of the API lies.
pub const ROOT: &str = "/registry/";
/// How many changes a resource remembers beyond the initial amount only while they are young.
const RING: usize = 1_024;
/// How many changes may wait for one watcher.
const QUEUE: usize = 1_024;
/// How long a read waits for the cache to catch up with the store.
const PATIENCE: Duration = Duration::from_secs(3);

/// An object as it is stored, with what selectors ask for most.
#[derive(Debug)]
pub struct Entry {
    /// `NAMESPACE/NAME`, or `NAME`.
    pub key: String,
    /// Its revision.
    pub revision: Revision,
    /// The stored bytes.
    pub stored: Bytes,
    /// Where the content of its metadata begins.
    pub offset: usize,
    /// Its labels.
    pub labels: Labels,
}

impl Entry {
    fn new(resource: &str, item: &KeyValue) -> Option<Arc<Self>> {
        let key = item.key.get(ROOT.len() + resource.len() + 1..)?.to_owned();
        Some(Arc::new(Self::of(key, item.value.clone(), item.modified)?))
    }

    /// An entry from its parts; `None` where the bytes are no stored object.
    pub fn of(key: String, stored: Bytes, revision: Revision) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Labelled {
            #[serde(default)]
            labels: Option<Labels>,
        }
        #[derive(serde::Deserialize)]
        struct Head {
            metadata: Labelled,
        }
        let offset = object::metadata_offset(&stored)?;
        let labels = match serde_json::from_slice::<Head>(&stored) {
            Ok(head) => head.metadata.labels.unwrap_or_default(),
            Err(_) => labels_of(&serde_json::from_slice(&stored).ok()?),
        };
        Some(Self { key, revision, stored, offset, labels })
    }

    /// The namespace, empty for what has none.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The object with its resourceVersion.
    pub fn value(&self) -> Value {
        // The bytes were written by this program and are guarded by the store's checksums.
        object::decode(&self.stored, self.revision).unwrap_or_default()
    }
}

/// A change of one object.
#[derive(Debug)]
pub struct Change {
    /// Its revision.
    pub revision: Revision,
    /// The object now; `None` when it was deleted.
    pub now: Option<Arc<Entry>>,
    /// The object before; `None` when it was created.
    pub before: Option<Arc<Entry>>,
    /// The event as it is sent in the storage version, made when first asked for.
    pub frame: OnceLock<Bytes>,
    /// The same in protobuf.
    pub protobuf_frame: OnceLock<Bytes>,
}

impl Change {
    /// The object that the event shows: the one now, or the last state.
    pub fn shown(&self) -> Option<&Arc<Entry>> {
        self.now.as_ref().or(self.before.as_ref())
    }
}

/// What a resource holds.
#[derive(Default)]
pub struct ResourceCache {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Arc<Entry>>,
    ring: VecDeque<(Instant, Arc<Change>)>,
    /// Changes at or before this revision are no longer in the ring.
    floor: Revision,
    watchers: Vec<Slot>,
}

struct Slot {
    /// `NAMESPACE/`, `NAMESPACE/NAME` or empty.
    scope: Scope,
    sender: mpsc::Sender<Arc<Change>>,
}

/// What part of a resource is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace, or empty.
    pub namespace: String,
    /// The name, or empty.
    pub name: String,
}

impl Scope {
    /// Whether an object's key lies in it.
    pub fn holds(&self, key: &str) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        (self.namespace.is_empty() || self.namespace == namespace) && (self.name.is_empty() || self.name == name)
    }
}

/// An open watch: what the cache had to say at once, and what follows.
pub struct Subscription {
    /// Changes between the asked revision and the subscription.
    pub past: Vec<Arc<Change>>,
    /// The objects at the subscription, where these were asked for.
    pub entries: Vec<Arc<Entry>>,
    /// The revision of the subscription.
    pub revision: Revision,
    /// What follows; closed when the watcher is too slow or the server ends.
    pub changes: mpsc::Receiver<Arc<Change>>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the objects there are.
    Now,
    /// With the changes after this revision.
    After(Revision),
}

/// The ring does not reach back so far; the store's history must be read up to `floor` first.
pub struct TooOld {
    /// The ring holds everything after this revision.
    pub floor: Revision,
}

/// The caches of all resources.
pub struct Cache {
    resources: RwLock<HashMap<String, Arc<ResourceCache>>>,
    progress: watch::Sender<Revision>,
    store: Arc<dyn Store>,
    /// Where the cache began: no ring reaches back further.
    origin: Revision,
    /// Told of every change, in order, before the cache says that it shows it.
    observers: RwLock<Vec<Observer>>,
}

/// Takes in a change of a resource (`GROUP/RESOURCE`).
pub type Observer = Box<dyn Fn(&str, &Change) + Send + Sync>;

impl Cache {
    /// Reads everything there is.
    pub async fn fill(store: Arc<dyn Store>) -> Result<Arc<Self>, mainstay_store::Error> {
        let (mut after, mut revision) = (None, None);
        let resources: RwLock<HashMap<String, Arc<ResourceCache>>> = RwLock::default();
        loop {
            let range = Range { prefix: ROOT.into(), after: after.take(), limit: 5_000, revision };
            let listing = store.list(range).await?;
            revision = Some(listing.revision);
            for item in &listing.items {
                let Some(resource) = resource_of(&item.key) else { continue };
                let cache = resource_in(&resources, resource, listing.revision);
                if let Some(entry) = Entry::new(resource, item) {
                    cache.inner.write().unwrap_or_else(PoisonError::into_inner).entries.insert(entry.key.clone(), entry);
                }
            }
            match listing.items.last() {
                Some(last) if listing.remaining > 0 => after = Some(last.key.clone()),
                _ => break,
            }
        }
        let origin = revision.unwrap_or_default();
        let (progress, _) = watch::channel(origin);
        Ok(Arc::new(Self { resources, progress, store, origin, observers: RwLock::default() }))
    }

    /// Follows the store until it closes.
    pub async fn run(self: Arc<Self>) -> Result<(), mainstay_store::Error> {
        let mut changes = self.store.watch(ROOT, self.origin).await?;
        loop {
            let batch = match changes.next().await {
                Ok(batch) => batch,
                Err(mainstay_store::Error::Closed) => break,
                Err(error) => return Err(error),
            };
            for event in &batch.events {
                self.take(event);
            }
            self.progress.send_replace(batch.revision);
        }
        for cache in self.resources.read().unwrap_or_else(PoisonError::into_inner).values() {
            cache.inner.write().unwrap_or_else(PoisonError::into_inner).watchers.clear();
        }
        Ok(())
    }

    /// Ends every watch.
    pub fn close(&self) {
        for cache in self.resources.read().unwrap_or_else(PoisonError::into_inner).values() {
            cache.inner.write().unwrap_or_else(PoisonError::into_inner).watchers.clear();
        }
    }

    fn take(&self, event: &Event) {
        let Some(resource) = resource_of(event.key()) else { return };
        let cache = self.resource(resource);
        if let Some(change) = cache.apply(resource, event) {
            for observer in self.observers.read().unwrap_or_else(PoisonError::into_inner).iter() {
                observer(resource, &change);
            }
        }
    }

    /// Adds an observer; it must be quick, since all changes wait for it.
    pub fn observe(&self, observer: Observer) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    /// The cache of a resource (`GROUP/RESOURCE`).
    pub fn resource(&self, resource: &str) -> Arc<ResourceCache> {
        resource_in(&self.resources, resource, self.origin)
    }

    /// How many objects each resource holds.
    pub fn counts(&self) -> Vec<(String, usize, usize)> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> = resources
            .iter()
            .map(|(name, cache)| {
                let inner = cache.inner.read().unwrap_or_else(PoisonError::into_inner);
                (name.clone(), inner.entries.len(), inner.watchers.iter().filter(|slot| !slot.sender.is_closed()).count())
            })
            .collect();
        counts.sort();
        counts
    }

    /// The latest revision that the cache shows.
    pub fn revision(&self) -> Revision {
        *self.progress.borrow()
    }

    /// Waits until the cache shows everything that the store has acknowledged; returns the revision it shows.
    pub async fn catch_up(&self) -> Option<Revision> {
        let target = *self.store.revision().borrow();
        self.reach(target).await
    }

    /// Waits until the cache shows a revision; `None` when that takes too long.
    pub async fn reach(&self, target: Revision) -> Option<Revision> {
        let mut progress = self.progress.subscribe();
        let reached = tokio::time::timeout(PATIENCE, progress.wait_for(|revision| *revision >= target)).await;
        match reached {
            Ok(Ok(revision)) => Some(*revision),
            _ => None,
        }
    }
}

fn resource_in(resources: &RwLock<HashMap<String, Arc<ResourceCache>>>, resource: &str, floor: Revision) -> Arc<ResourceCache> {
    if let Some(cache) = resources.read().unwrap_or_else(PoisonError::into_inner).get(resource) {
        return cache.clone();
    }
    let mut resources = resources.write().unwrap_or_else(PoisonError::into_inner);
    let fresh = || Arc::new(ResourceCache { inner: RwLock::new(Inner { floor, ..Inner::default() }) });
    resources.entry(resource.to_owned()).or_insert_with(fresh).clone()
}

/// `GROUP/RESOURCE` of a key.
fn resource_of(key: &str) -> Option<&str> {
    let rest = key.strip_prefix(ROOT)?;
    let group = rest.find('/')?;
    let resource = rest[group + 1..].find('/')?;
    Some(&rest[..group + 1 + resource])
}

impl ResourceCache {
    fn apply(&self, resource: &str, event: &Event) -> Option<Arc<Change>> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let (change, key) = match event {
            Event::Put { now, .. } => {
                let entry = Entry::new(resource, now)?;
                let key = entry.key.clone();
                let before = inner.entries.insert(key.clone(), entry.clone());
                (Change { revision: now.modified, now: Some(entry), before, frame: OnceLock::new(), protobuf_frame: OnceLock::new() }, key)
            }
            Event::Delete { revision, before } => {
                let key = before.key.get(ROOT.len() + resource.len() + 1..).map(str::to_owned)?;
                let gone = inner.entries.remove(&key).or_else(|| Entry::new(resource, before))?;
                (
                    Change { revision: *revision, now: None, before: Some(gone), frame: OnceLock::new(), protobuf_frame: OnceLock::new() },
                    key,
                )
            }
        };
        let change = Arc::new(change);
        inner.ring.push_back((Instant::now(), change.clone()));
        while inner.ring.len() > RING {
            if let Some((_, old)) = inner.ring.pop_front() {
                inner.floor = old.revision;
            }
        }
        // A full queue means a watcher that does not read: dropping its sender ends its stream.
        inner
            .watchers
            .retain(|slot| if slot.scope.holds(&key) { slot.sender.try_send(change.clone()).is_ok() } else { !slot.sender.is_closed() });
        Some(change)
    }

    /// The objects of a part of the resource, in key order.
    pub fn list(&self, scope: &Scope) -> Vec<Arc<Entry>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.list(scope)
    }

    /// One object as the cache shows it.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).entries.get(key).cloned()
    }

    /// Opens a watch. `current` is the revision that the cache shows.
    pub fn subscribe(&self, scope: Scope, begin: Begin, cache: &Cache) -> Result<Subscription, TooOld> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let revision = cache.revision().max(inner.ring.back().map_or(0, |(_, change)| change.revision));
        let (mut past, mut entries) = (Vec::new(), Vec::new());
        match begin {
            Begin::Now => entries = inner.list(&scope),
            Begin::After(after) if after < inner.floor => return Err(TooOld { floor: inner.floor }),
            Begin::After(after) => {
                let late = inner.ring.iter().map(|(_, change)| change).filter(|change| change.revision > after);
                past.extend(late.filter(|change| change.shown().is_some_and(|entry| scope.holds(&entry.key))).cloned());
            }
        }
        let (sender, changes) = mpsc::channel(QUEUE);
        inner.watchers.push(Slot { scope, sender });
        Ok(Subscription { past, entries, revision, changes })
    }

    /// Turns an event of the store's history into a change.
    pub fn history(resource: &str, event: &Event) -> Option<Arc<Change>> {
        let (revision, now, before) = match event {
            Event::Put { now, before } => {
                (now.modified, Some(Entry::new(resource, now)?), before.as_ref().and_then(|before| Entry::new(resource, before)))
            }
            Event::Delete { revision, before } => (*revision, None, Some(Entry::new(resource, before)?)),
        };
        Some(Arc::new(Change { revision, now, before, frame: OnceLock::new(), protobuf_frame: OnceLock::new() }))
    }
}

impl Inner {
    fn list(&self, scope: &Scope) -> Vec<Arc<Entry>> {
        if scope.namespace.is_empty() {
            return self.entries.values().filter(|entry| scope.holds(&entry.key)).cloned().collect();
        }
        if !scope.name.is_empty() {
            return self.entries.get(&format!("{}/{}", scope.namespace, scope.name)).cloned().into_iter().collect();
        }
        let from = format!("{}/", scope.namespace);
        self.entries.range(from.clone()..).take_while(|(key, _)| key.starts_with(&from)).map(|(_, entry)| entry.clone()).collect()
    }
}
