//! The watch cache: what every resource holds now and what changed lately, fed by one watch of the store (KAPI-WATCH-01, -02).
//!
//! ```text
//!   store watch ──► dispatcher ──► per resource: entries (now), ring (lately), watchers (bounded queues)
//! ```
//!
//! An event's bytes are made once, when the first watcher needs them, and shared by all. A watcher that does not keep up
//! is dropped: its stream ends and its client starts again, so it never holds memory without bound.

mod change;
mod frames;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use mainstay_store::{Event, Range, Revision, Store};
use tokio::sync::watch;

pub use change::{Change, Delivery};
pub use frames::Form;
pub use queue::Receiver;
use queue::{Sender, queue};

use crate::entry::{Entry, ROOT};

/// The most changes that a resource remembers.
const RING: usize = 1_024;
/// The most bytes of objects that a resource's ring holds; what falls out is read from the store's history.
const RING_BYTES: usize = 4 << 20;
/// The most bytes of objects that watchers may hold after the cache has let go of them; beyond, those watchers are let go of.
const LOOSE_BYTES: usize = 64 << 20;
/// The objects that are read at once to fill the cache.
const PAGE: usize = 5_000;
/// The time that a read waits before it asks a shared store for a position.
const QUIET: Duration = Duration::from_millis(20);
/// Between attempts to read or to follow a store that does not answer.
const PAUSE: Duration = Duration::from_millis(500);
/// The time that a read waits for the cache to catch up with the store.
const PATIENCE: Duration = Duration::from_secs(3);

/// The objects of one resource, and its latest changes.
#[derive(Default)]
pub struct ResourceCache {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Arc<Entry>>,
    ring: VecDeque<Arc<Change>>,
    ring_bytes: usize,
    /// Changes at or before this revision are no longer in the ring.
    floor: Revision,
    watchers: Vec<Slot>,
    /// Bytes of objects that no resource remembers any more and somebody still holds: watchers that do not read, mostly.
    loose: Arc<AtomicUsize>,
}

struct Slot {
    /// `NAMESPACE/`, `NAMESPACE/NAME` or empty.
    scope: Scope,
    sender: Sender,
}

/// A part of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace, or empty.
    pub namespace: String,
    /// The name, or empty.
    pub name: String,
}

impl Scope {
    /// Returns whether an object's key lies in it.
    pub fn holds(&self, key: &str) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        (self.namespace.is_empty() || self.namespace == namespace) && (self.name.is_empty() || self.name == name)
    }
}

/// An open watch: what the cache had to say at once, and what follows.
pub struct Subscription {
    /// Changes between the asked revision and the subscription.
    pub past: Vec<Delivery>,
    /// The objects at the subscription, where these were asked for.
    pub entries: Vec<Arc<Entry>>,
    /// The revision of the subscription.
    pub revision: Revision,
    /// The changes that follow; closed when the watcher is too slow or the server ends.
    pub changes: Receiver,
}

/// The begin of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the objects there are.
    Now,
    /// With the changes after this revision.
    After(Revision),
}

/// The ring does not reach back so far; the store's history must be read up to `floor` first.
pub struct TooOld {
    /// The revision that was asked for.
    pub after: Revision,
    /// The ring holds everything after this revision.
    pub floor: Revision,
}

/// The caches of all resources.
pub struct Cache {
    resources: RwLock<HashMap<String, Arc<ResourceCache>>>,
    progress: watch::Sender<Revision>,
    store: Arc<dyn Store>,
    /// The revision at which the cache began: no ring reaches back further.
    origin: Revision,
    /// Told of every change, in order, before the cache says that it shows it.
    observers: RwLock<Vec<Observer>>,
    /// Set when it no longer follows the store.
    ended: AtomicBool,
    /// See [`Inner::loose`].
    loose: Arc<AtomicUsize>,
}

/// Takes in a change of a resource (`GROUP/RESOURCE`).
pub type Observer = Box<dyn Fn(&str, &Change) + Send + Sync>;

impl Cache {
    /// Reads everything there is.
    pub async fn fill(store: Arc<dyn Store>) -> Result<Arc<Self>, mainstay_store::Error> {
        let (found, origin) = read_all(&*store).await?;
        let loose = Arc::<AtomicUsize>::default();
        let resources = found
            .into_iter()
            .map(|(name, entries)| {
                let inner = Inner { entries, floor: origin, loose: loose.clone(), ..Inner::default() };
                (name, Arc::new(ResourceCache { inner: RwLock::new(inner) }))
            })
            .collect();
        let (progress, _) = watch::channel(origin);
        let resources = RwLock::new(resources);
        Ok(Arc::new(Self { resources, progress, store, origin, observers: RwLock::default(), ended: AtomicBool::new(false), loose }))
    }

    /// Follows the store until it closes. A cluster that is away for a while is waited for. Where the store cannot be followed any
    /// more every watch ends, rather than to stay open and be silent.
    pub async fn run(self: Arc<Self>) -> Result<(), mainstay_store::Error> {
        let outcome = self.feed().await;
        self.ended.store(true, Ordering::SeqCst);
        self.close();
        outcome
    }

    async fn feed(&self) -> Result<(), mainstay_store::Error> {
        loop {
            let done = match self.follow(self.revision()).await {
                error @ mainstay_store::Error::Compacted { .. } => {
                    tracing::warn!(%error, "the watch cache fell behind; reading everything anew");
                    self.refill().await
                }
                error @ mainstay_store::Error::Remote { .. } => {
                    tracing::warn!(%error, "the store cannot be followed; trying again");
                    tokio::time::sleep(PAUSE).await;
                    Ok(())
                }
                error => Err(error),
            };
            match done {
                Ok(()) => {}
                Err(mainstay_store::Error::Closed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns whether it no longer follows the store, and never will again.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    async fn follow(&self, from: Revision) -> mainstay_store::Error {
        let mut changes = match self.store.watch(ROOT, from).await {
            Ok(changes) => changes,
            Err(error) => return error,
        };
        loop {
            match changes.next().await {
                Ok(batch) => {
                    for event in &batch.events {
                        self.take(event);
                    }
                    self.progress.send_if_modified(|shown| {
                        let news = batch.revision > *shown;
                        *shown = batch.revision.max(*shown);
                        news
                    });
                }
                Err(error) => return error,
            }
        }
    }

    /// Reads everything again. Watchers are let go of, since what happened meanwhile cannot be told to them; observers are told the
    /// difference.
    async fn refill(&self) -> Result<(), mainstay_store::Error> {
        let (mut found, revision) = loop {
            match read_all(&*self.store).await {
                Err(error @ mainstay_store::Error::Remote { .. }) => {
                    tracing::warn!(%error, "the store cannot be read; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                other => break other?,
            }
        };
        for name in self.resources.read().unwrap_or_else(PoisonError::into_inner).keys() {
            found.entry(name.clone()).or_default();
        }
        for (name, entries) in found {
            let changes = resource_in(&self.resources, &name, revision, &self.loose).replace(entries, revision);
            for change in changes {
                self.tell(&name, &change);
            }
        }
        self.progress.send_replace(revision);
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
        self.resource(resource).apply(resource, event, |change| self.tell(resource, change));
    }

    fn tell(&self, resource: &str, change: &Change) {
        for observer in self.observers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            observer(resource, change);
        }
    }

    /// Adds an observer. It hears of a change before any watcher does, so that whoever sees a change finds it in force. All changes
    /// wait for it: it must be quick, and it must not read the cache.
    pub fn observe(&self, observer: Observer) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    /// The cache of a resource (`GROUP/RESOURCE`).
    pub fn resource(&self, resource: &str) -> Arc<ResourceCache> {
        resource_in(&self.resources, resource, self.origin, &self.loose)
    }

    /// Numbers of objects and watchers of each resource.
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

    /// Waits until the cache shows everything that the store has acknowledged to anybody; returns the revision it shows. `None` when
    /// that takes too long.
    pub async fn catch_up(&self) -> Option<Revision> {
        match self.store.latest().await {
            Ok(target) => self.reach(target).await,
            Err(error) => {
                tracing::warn!(%error, "the store does not tell its revision");
                None
            }
        }
    }

    /// Waits until the cache shows a revision; `None` when that takes too long.
    pub async fn reach(&self, target: Revision) -> Option<Revision> {
        let shown = self.revision();
        if shown >= target {
            return Some(shown);
        }
        let mut progress = self.progress.subscribe();
        let mut reached = async |patience| match tokio::time::timeout(patience, progress.wait_for(|revision| *revision >= target)).await {
            Ok(Ok(revision)) => Some(*revision),
            _ => None,
        };
        if self.store.shared() {
            if let Some(revision) = reached(QUIET).await {
                return Some(revision);
            }
            // Others may have written outside of what the cache watches: no change will tell.
            if let Err(error) = self.store.tell_position().await {
                tracing::warn!(%error, "the store does not tell its position");
            }
        }
        reached(PATIENCE).await
    }
}

/// Everything below the root at one revision, by resource.
async fn read_all(store: &dyn Store) -> Result<(HashMap<String, BTreeMap<String, Arc<Entry>>>, Revision), mainstay_store::Error> {
    let (mut after, mut revision) = (None, None);
    let mut found: HashMap<String, BTreeMap<String, Arc<Entry>>> = HashMap::new();
    loop {
        let range = Range { prefix: ROOT.into(), after: after.take(), limit: PAGE, revision };
        let listing = store.list(range).await?;
        revision = Some(listing.revision);
        for item in &listing.items {
            let Some(resource) = resource_of(&item.key) else { continue };
            if let Some(entry) = Entry::new(resource, item) {
                if let Some(entries) = found.get_mut(resource) {
                    entries.insert(entry.key.clone(), entry);
                } else {
                    found.insert(resource.to_owned(), BTreeMap::from([(entry.key.clone(), entry)]));
                }
            }
        }
        match listing.items.last() {
            Some(last) if listing.remaining > 0 => after = Some(last.key.clone()),
            _ => return Ok((found, listing.revision)),
        }
    }
}

fn resource_in(
    resources: &RwLock<HashMap<String, Arc<ResourceCache>>>,
    resource: &str,
    floor: Revision,
    loose: &Arc<AtomicUsize>,
) -> Arc<ResourceCache> {
    if let Some(cache) = resources.read().unwrap_or_else(PoisonError::into_inner).get(resource) {
        return cache.clone();
    }
    let mut resources = resources.write().unwrap_or_else(PoisonError::into_inner);
    let fresh = || Arc::new(ResourceCache { inner: RwLock::new(Inner { floor, loose: loose.clone(), ..Inner::default() }) });
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
    fn apply(&self, resource: &str, event: &Event, tell: impl FnOnce(&Change)) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let Some((key, change)) = inner.change(resource, event) else { return };
        tell(&change);
        let change = Arc::new(change);
        inner.remember(change.clone());
        let delivery = Delivery::from(change);
        // A full queue means a watcher that does not read: dropping its sender ends its stream.
        if inner.loose.load(Ordering::Relaxed) > LOOSE_BYTES {
            let floor = inner.floor;
            inner.watchers.retain(|slot| !slot.sender.let_go_before(floor));
        }
        inner.watchers.retain(|slot| if slot.scope.holds(&key) { slot.sender.offer(&delivery) } else { !slot.sender.is_closed() });
    }

    /// Takes other entries in place of what there is, and says what that changed.
    fn replace(&self, entries: BTreeMap<String, Arc<Entry>>, revision: Revision) -> Vec<Change> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let (entries_before, loose) = (std::mem::take(&mut inner.entries), inner.loose.clone());
        *inner = Inner { floor: revision, entries: entries_before, loose, ..Inner::default() };
        let mut old = std::mem::replace(&mut inner.entries, entries);
        let mut changes = Vec::new();
        for (key, entry) in &inner.entries {
            let before = old.remove(key);
            if before.as_ref().is_none_or(|before| before.revision != entry.revision) {
                changes.push(Change::new(entry.revision, Some(entry.clone()), before));
            }
        }
        changes.extend(old.into_values().map(|gone| Change::new(revision, None, Some(gone))));
        changes
    }

    /// The objects of a part of the resource, in key order.
    pub fn list(&self, scope: &Scope) -> Vec<Arc<Entry>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.list(scope)
    }

    /// The same with the revision that it is of: neither older nor newer than any of the objects, even in the middle of a commit.
    pub fn list_at(&self, scope: &Scope, cache: &Cache) -> (Vec<Arc<Entry>>, Revision) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let shown = inner.ring.back().map_or(inner.floor, |change| change.revision);
        (inner.list(scope), cache.revision().max(shown))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).entries.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One object as the cache shows it.
    pub fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).entries.get(key).cloned()
    }

    /// Opens a watch. `current` is the revision that the cache shows.
    pub fn subscribe(&self, scope: Scope, begin: Begin, cache: &Cache) -> Result<Subscription, TooOld> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let revision = cache.revision().max(inner.ring.back().map_or(0, |change| change.revision));
        let (mut past, mut entries) = (Vec::new(), Vec::new());
        match begin {
            Begin::Now => entries = inner.list(&scope),
            Begin::After(after) if after < inner.floor => return Err(TooOld { after, floor: inner.floor }),
            Begin::After(after) => {
                let late = inner.ring.iter().filter(|change| change.revision > after);
                let own = late.filter(|change| change.shown().is_some_and(|entry| scope.holds(&entry.key)));
                past.extend(own.cloned().map(Delivery::from));
            }
        }
        let (sender, changes) = queue();
        // Nothing will follow where the cache has ended: without its sender the watch says so. It was marked before it went through the
        // watchers, so one of the two sees the other.
        if !cache.ended() {
            inner.watchers.push(Slot { scope, sender });
        }
        Ok(Subscription { past, entries, revision, changes })
    }

    /// An event of the store's history as a change.
    pub fn history(resource: &str, event: &Event) -> Option<Delivery> {
        let (revision, now, before) = match event {
            Event::Put { now, before } => {
                (now.modified, Some(Entry::new(resource, now)?), before.as_ref().and_then(|before| Entry::new(resource, before)))
            }
            Event::Delete { revision, before } => (*revision, None, Some(Entry::new(resource, before)?)),
        };
        Some(Arc::new(Change::new(revision, now, before)).into())
    }
}

impl Inner {
    /// Makes the entries what they are after an event; the key that it is about, and what it changed. `None` for what is not an object.
    fn change(&mut self, resource: &str, event: &Event) -> Option<(String, Change)> {
        match event {
            Event::Put { now, .. } => {
                let entry = Entry::new(resource, now)?;
                let before = self.entries.insert(entry.key.clone(), entry.clone());
                Some((entry.key.clone(), Change::new(now.modified, Some(entry), before)))
            }
            Event::Delete { revision, before } => {
                let key = before.key.get(ROOT.len() + resource.len() + 1..)?;
                let gone = self.entries.remove(key).or_else(|| Entry::new(resource, before))?;
                Some((key.to_owned(), Change::new(*revision, None, Some(gone))))
            }
        }
    }

    fn remember(&mut self, change: Arc<Change>) {
        self.ring_bytes += change.bytes();
        self.ring.push_back(change);
        while self.ring.len() > RING || self.ring_bytes > RING_BYTES {
            let Some(old) = self.ring.pop_front() else { break };
            self.ring_bytes -= old.bytes();
            self.floor = old.revision;
            // A later change or nothing has taken its place: only who has not read on still needs it.
            if let Some(before) = &old.before {
                before.loose.let_go(&self.loose, before.stored.len());
            }
        }
    }

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
