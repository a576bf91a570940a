//! Watches of applied objects, so that drift is noticed (OLM1-CTRL-08).
//!
//! ```text
//!   kind ──► one watch, by metadata, of all objects with the owner labels ──► the extension that each belongs to is woken
//!              │ opened as the account of one of the extensions that applied such objects (OLM1-PERM-01);
//!              └ refused, or its token near its end: opened again, as the next one's
//! ```
//!
//! There is one watch for each kind, not for each extension: the load on the API and on this process does not grow with the extensions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use mainstay_api::olm_v1::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_diagnostics::chain;
use mainstay_runtime::metrics::{Metrics, Size};
use mainstay_runtime::{AccountError, Accounts, Key, KindError, Kinds, Queue};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The lifetime of a watch, which is opened again before its token expires.
const LIFE: Duration = Duration::from_secs(45 * 60);
/// The pause after no identity could watch, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// Identities that may fail in a row without a pause; after them each further one waits a moment.
const AT_ONCE: u32 = 8;

/// The identity that watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The controller itself (OLM1-API-07).
    Own,
    /// An installer's account.
    Account(Key),
}

/// The watches of all extensions. Clones share them.
#[derive(Clone)]
pub struct Watches {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Queue<Key>,
    own: Client,
    accounts: Accounts,
    kinds: Kinds,
    held: Mutex<HashMap<GroupVersionKind, KindWatch>>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

struct KindWatch {
    /// The extensions that have objects of the kind, with the identity of each for the watch.
    followers: BTreeMap<String, Identity>,
    /// The number of objects that the watch knows; the watch's task holds a weak reference.
    _objects: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Watches {
    /// Creates watches that wake extensions through the queue, until `stop`.
    pub fn new(queue: Queue<Key>, own: Client, accounts: Accounts, kinds: Kinds, stop: CancellationToken, metrics: Arc<Metrics>) -> Self {
        Self { inner: Arc::new(Inner { queue, own, accounts, kinds, held: Mutex::default(), metrics, stop }) }
    }

    /// Ends an extension's watches.
    pub fn forget(&self, extension: &str) {
        self.keep(extension, &Identity::Own, &HashSet::new());
    }

    /// Watches exactly these kinds for an extension.
    pub fn keep(&self, extension: &str, identity: &Identity, wanted: &HashSet<GroupVersionKind>) {
        let mut held = self.inner.held();
        held.retain(|gvk, watch| {
            if !wanted.contains(gvk) {
                watch.followers.remove(extension);
            }
            !watch.followers.is_empty()
        });
        for gvk in wanted {
            let watch = held.entry(gvk.clone()).or_insert_with(|| {
                let stop = self.inner.stop.child_token();
                let objects: Arc<AtomicUsize> = Arc::default();
                let shown = Arc::downgrade(&objects);
                let count = move || Some(Size { objects: shown.upgrade()?.load(Ordering::Relaxed) as u64, bytes: None });
                self.inner.metrics.show_size("owned", &kind(gvk), count);
                tokio::spawn(follow(self.inner.clone(), gvk.clone(), Known::counted(&objects), stop.clone()));
                KindWatch { followers: BTreeMap::new(), _objects: objects, _stop: stop.drop_guard() }
            });
            if watch.followers.get(extension) != Some(identity) {
                watch.followers.insert(extension.to_owned(), identity.clone());
            }
        }
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, HashMap<GroupVersionKind, KindWatch>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the follower after `last` by name. After the end it begins again, which `true` indicates.
    fn next_follower(&self, gvk: &GroupVersionKind, last: Option<&str>) -> Option<(String, Identity, bool)> {
        let held = self.held();
        let followers = &held.get(gvk)?.followers;
        let after = last.and_then(|last| followers.range::<str, _>((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).next());
        let again = after.is_none();
        after.or_else(|| followers.iter().next()).map(|(name, identity)| (name.clone(), identity.clone(), again))
    }

    fn followers(&self, gvk: &GroupVersionKind) -> HashSet<String> {
        self.held().get(gvk).map(|watch| watch.followers.keys().cloned().collect()).unwrap_or_default()
    }

    async fn client(&self, identity: &Identity) -> Result<Client, Broken> {
        match identity {
            Identity::Own => Ok(self.own.clone()),
            Identity::Account(account) => Ok(self.accounts.client(account).await?),
        }
    }

    /// Returns the kind as served. After a failure it is looked up again, since its CRD may have returned in another form.
    async fn resource(&self, gvk: &GroupVersionKind) -> Result<ApiResource, Broken> {
        Ok(self.kinds.served(gvk).await?.resource)
    }
}

/// Why a watch is not open.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Watch(watcher::Error),
    #[error("the watch ended")]
    Ended,
}

/// Keeps the watch of a kind open until `stop`.
async fn follow(inner: Arc<Inner>, gvk: GroupVersionKind, mut known: Known, stop: CancellationToken) {
    let (mut last, mut pause, mut refused) = (None::<String>, PAUSE.0, 0_u32);
    while let Some((name, identity, around)) = inner.next_follower(&gvk, last.as_deref()) {
        if around && last.is_some() {
            // Every identity was tried.
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(PAUSE.1);
            refused = 0;
        } else if refused >= AT_ONCE && stop.run_until_cancelled(tokio::time::sleep(PAUSE.0)).await.is_none() {
            return;
        }
        let began = Instant::now();
        let opened = async {
            let client = inner.client(&identity).await?;
            Ok::<_, Broken>(Api::all_with(client, &inner.resource(&gvk).await?))
        };
        let Some(opened) = stop.run_until_cancelled(opened).await else { return };
        let outcome = match opened {
            Ok(api) => tokio::select! {
                () = stop.cancelled() => return,
                outcome = tokio::time::timeout(LIFE, watch(api, &inner, &gvk, &mut known)) => outcome,
            },
            Err(problem) => Ok(problem),
        };
        match outcome {
            // The watch reached its lifetime: the same identity continues with a new token.
            Err(_) => (pause, refused) = (PAUSE.0, 0),
            Ok(problem) => {
                tracing::debug!(kind = gvk.kind, follower = name, problem = chain(&problem), "a watch broke and is opened again");
                inner.kinds.forget(&gvk);
                refused = refused.saturating_add(1);
                // An identity that may list but not watch gets only a list each time.
                if std::mem::take(&mut known.fresh) || began.elapsed() >= PAUSE.1 {
                    (pause, refused) = (PAUSE.0, 0);
                }
                last = Some(name);
            }
        }
    }
}

/// Watches until a problem occurs, and returns it.
async fn watch(api: Api<PartialObjectMeta<DynamicObject>>, inner: &Inner, gvk: &GroupVersionKind, known: &mut Known) -> Broken {
    let labels = format!("{OWNER_KIND_LABEL}=ClusterExtension,{OWNER_NAME_LABEL}");
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default().labels(&labels)));
    loop {
        let woken = match events.next().await {
            None => return Broken::Ended,
            Some(Err(error)) => return Broken::Watch(error),
            Some(Ok(Event::Init)) => {
                known.listing = Some(HashMap::new());
                continue;
            }
            Some(Ok(Event::InitApply(object))) => {
                known.listed(&object);
                continue;
            }
            Some(Ok(Event::InitDone)) => {
                let first = known.seen.is_none();
                let woken = known.listed_all();
                // Changes between the apply and the first list are unknown; that list may have been refused for a long time.
                if first { inner.followers(gvk) } else { woken }
            }
            Some(Ok(Event::Apply(object))) => known.changed(&object),
            Some(Ok(Event::Delete(object))) => known.deleted(&object),
        };
        for extension in woken {
            inner.queue.add(Key::new("", extension));
        }
    }
}

/// The owner and the version of each object when the watch last saw it.
#[derive(Default)]
struct Known {
    seen: Option<HashMap<Key, (String, String)>>,
    listing: Option<HashMap<Key, (String, String)>>,
    /// True if a change was seen since this was last read.
    fresh: bool,
    /// The number of objects, for metrics.
    count: Weak<AtomicUsize>,
}

/// Returns `KIND.GROUP` in lower case, or `KIND` for the core group.
fn kind(gvk: &GroupVersionKind) -> String {
    let kind = gvk.kind.to_lowercase();
    if gvk.group.is_empty() { kind } else { format!("{kind}.{}", gvk.group) }
}

impl Known {
    /// Creates an empty state that writes its number of objects to `count`.
    fn counted(count: &Arc<AtomicUsize>) -> Self {
        Self { count: Arc::downgrade(count), ..Self::default() }
    }

    fn tell(&self) {
        if let Some(count) = self.count.upgrade() {
            count.store(self.seen.as_ref().map_or(0, HashMap::len), Ordering::Relaxed);
        }
    }

    fn facts(object: &PartialObjectMeta<DynamicObject>) -> Option<(Key, (String, String))> {
        let meta = &object.metadata;
        let owner = meta.labels.as_ref()?.get(OWNER_NAME_LABEL)?.clone();
        let key = Key::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        Some((key, (owner, meta.resource_version.clone().unwrap_or_default())))
    }

    fn listed(&mut self, object: &PartialObjectMeta<DynamicObject>) {
        if let (Some(listing), Some((key, facts))) = (&mut self.listing, Self::facts(object)) {
            listing.insert(key, facts);
        }
    }

    /// Completes a list. The first list reports no change. A later one, after a break, returns the extensions with added, changed or deleted objects.
    fn listed_all(&mut self) -> HashSet<String> {
        let now = self.listing.take().unwrap_or_default();
        let woken = match &self.seen {
            None => HashSet::new(),
            Some(before) => {
                let changed = now.iter().filter(|(key, facts)| before.get(key) != Some(facts)).map(|(_, (owner, _))| owner.clone());
                let lost = before.iter().filter(|(key, (owner, _))| now.get(key).is_none_or(|(now, _)| now != owner));
                changed.chain(lost.map(|(_, (owner, _))| owner.clone())).collect()
            }
        };
        self.seen = Some(now);
        self.tell();
        woken
    }

    fn changed(&mut self, object: &PartialObjectMeta<DynamicObject>) -> HashSet<String> {
        self.fresh = true;
        let Some((key, facts)) = Self::facts(object) else { return HashSet::new() };
        let before = self.seen.get_or_insert_default().insert(key, facts.clone());
        self.tell();
        before.map(|(owner, _)| owner).into_iter().chain([facts.0]).collect()
    }

    fn deleted(&mut self, object: &PartialObjectMeta<DynamicObject>) -> HashSet<String> {
        self.fresh = true;
        let meta = &object.metadata;
        let key = Key::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let before = self.seen.as_mut().and_then(|seen| seen.remove(&key)).map(|(owner, _)| owner);
        self.tell();
        before.into_iter().chain(Self::facts(object).map(|(_, (owner, _))| owner)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn object(name: &str, owner: &str, version: &str) -> PartialObjectMeta<DynamicObject> {
        let labels = json!({OWNER_KIND_LABEL: "ClusterExtension", OWNER_NAME_LABEL: owner});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "labels": labels, "resourceVersion": version}})).unwrap()
    }

    fn list(known: &mut Known, objects: &[PartialObjectMeta<DynamicObject>]) -> Vec<String> {
        known.listing = Some(HashMap::new());
        for object in objects {
            known.listed(object);
        }
        sorted(known.listed_all())
    }

    fn sorted(woken: HashSet<String>) -> Vec<String> {
        let mut woken: Vec<String> = woken.into_iter().collect();
        woken.sort();
        woken
    }

    /// OLM1-CTRL-08: who is woken by lists and events; a list after a break wakes those only whose objects changed meanwhile.
    #[test]
    fn whom_a_change_wakes() {
        let count = Arc::default();
        let mut known = Known::counted(&count);
        assert_eq!(list(&mut known, &[object("a", "one", "1"), object("b", "two", "2"), object("c", "three", "3")]), [""; 0]);
        assert_eq!(sorted(known.changed(&object("a", "one", "4"))), ["one"]);
        assert_eq!(list(&mut known, &[object("a", "one", "4"), object("b", "two", "5")]), ["three", "two"]);
        assert_eq!(sorted(known.changed(&object("b", "four", "6"))), ["four", "two"], "labelled as somebody else's");
        assert_eq!(sorted(known.deleted(&object("a", "one", "7"))), ["one"]);
        assert_eq!(list(&mut known, &[object("b", "four", "6")]), [""; 0]);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
