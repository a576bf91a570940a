//! A live copy of all objects of one kind, kept by list and watch.

mod held;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use futures::{Stream, StreamExt, TryStreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta, TypeMeta};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, Resource};
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

use held::Held;

use crate::metrics::{Metrics, Size};

/// The place of an object: namespace (empty if the kind has none) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// Creates a place from namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the place of an object.
    pub fn of(object: &DynamicObject) -> Self {
        Self::new(object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { out.write_str(&self.name) } else { write!(out, "{}/{}", self.namespace, self.name) }
    }
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The former version; `None` for a new object.
    pub before: Option<Arc<DynamicObject>>,
    /// The present version; `None` for a deleted object.
    pub now: Option<Arc<DynamicObject>>,
}

impl Change {
    /// Returns the object, or its last version.
    pub fn object(&self) -> Option<&Arc<DynamicObject>> {
        self.now.as_ref().or(self.before.as_ref())
    }
}

/// The part of each object that a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The whole object.
    #[default]
    Whole,
    /// The metadata alone, which is then all that the API sends. The rest of an object is read when it is needed.
    Metadata,
}

/// The objects of a kind that a cache holds.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The part of each object.
    pub part: Part,
    /// The only namespace, if set.
    pub namespace: Option<String>,
    /// The label selector, if set.
    pub labels: Option<String>,
    /// The field selector, if set.
    pub fields: Option<String>,
    /// Removes parts of each object before it is kept: decisions often need a small part of a large object.
    pub trim: Option<fn(&mut DynamicObject)>,
    /// Holds objects compressed, and unpacks one whenever it is asked for: for objects that are read one at a time. As trees they take ten times
    /// as much.
    pub is_packed: bool,
    /// Names an owner that the owner references of an object do not name, as its labels may; [`Cache::owned_by`] finds what has it.
    pub owner: Option<fn(&DynamicObject) -> Option<String>>,
}

/// A live copy of all objects of one kind. Clones share it. The copy stops with its cancellation token.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

type Handler = Box<dyn Fn(&Change) + Send + Sync>;

struct Inner {
    types: TypeMeta,
    /// `PLURAL.GROUP`, for metrics.
    kind: String,
    objects: RwLock<Objects>,
    trim: Option<fn(&mut DynamicObject)>,
    is_packed: bool,
    owner: Option<fn(&DynamicObject) -> Option<String>>,
    handlers: RwLock<Vec<Handler>>,
    ready: signal::Sender<bool>,
}

#[derive(Default)]
struct Objects {
    by_key: BTreeMap<Key, Held>,
    by_owner: HashMap<String, BTreeSet<Key>>,
    /// The objects without a controller.
    uncontrolled: BTreeSet<Key>,
}

impl Cache {
    /// Starts the cache of a kind.
    pub fn start(client: &Client, resource: &ApiResource, scope: &Scope, stop: &CancellationToken) -> Self {
        let mut config = watcher::Config::default();
        config.label_selector.clone_from(&scope.labels);
        config.field_selector.clone_from(&scope.fields);
        let cache = Self {
            inner: Arc::new(Inner {
                types: TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() },
                kind: kind(resource),
                objects: RwLock::default(),
                trim: scope.trim,
                is_packed: scope.is_packed,
                owner: scope.owner,
                handlers: RwLock::default(),
                ready: signal::channel(false).0,
            }),
        };
        let (copy, stop) = (cache.clone(), stop.clone());
        let (client, resource, scope) = (client.clone(), resource.clone(), scope.clone());
        tokio::spawn(async move {
            let follow = async {
                match scope.part {
                    Part::Whole => {
                        let api: Api<DynamicObject> = api(&client, &resource, &scope);
                        copy.follow(watch(api, config).default_backoff()).await;
                    }
                    Part::Metadata => {
                        let api: Api<PartialObjectMeta<DynamicObject>> = api(&client, &resource, &scope);
                        copy.follow(watch(api, config).default_backoff().map_ok(metadata_alone)).await;
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = follow => {}
            }
        });
        cache
    }

    /// Adds the number of objects to the page of metrics, for as long as the cache lives (MS-OPS-01).
    #[must_use]
    pub fn shown(self, metrics: &Metrics) -> Self {
        self.show(metrics);
        self
    }

    pub(crate) fn show(&self, metrics: &Metrics) {
        let inner = Arc::downgrade(&self.inner);
        metrics.show_size("watch", &self.inner.kind, move || {
            let inner = inner.upgrade()?;
            let objects = inner.objects.read().unwrap_or_else(PoisonError::into_inner);
            Some(Size { objects: objects.by_key.len() as u64, bytes: None })
        });
    }

    /// Calls `handler` for every present object and for every later change.
    pub fn on_change(&self, handler: impl Fn(&Change) + Send + Sync + 'static) {
        // Changes cannot overtake the present objects while the handlers are locked.
        let mut handlers = self.inner.handlers.write().unwrap_or_else(PoisonError::into_inner);
        for now in self.all() {
            handler(&Change { before: None, now: Some(now) });
        }
        handlers.push(Box::new(handler));
    }

    /// Waits until the first list is complete.
    pub async fn ready(&self) {
        // The sender lives as long as the cache that this borrows.
        let _ = self.inner.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Returns true if the first list is complete.
    pub fn is_ready(&self) -> bool {
        *self.inner.ready.borrow()
    }

    /// Returns the object at a place.
    pub fn get(&self, key: &Key) -> Option<Arc<DynamicObject>> {
        self.read(|objects| objects.by_key.get(key).map(Held::object))
    }

    /// Returns all objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| objects.by_key.values().map(Held::object).collect())
    }

    /// Returns all objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| {
            let from = Key::new(namespace, "");
            objects.by_key.range(from..).take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.object()).collect()
        })
    }

    /// Returns the objects of a namespace that satisfy `holds`, by name.
    pub fn matching(&self, namespace: &str, holds: impl Fn(&DynamicObject) -> bool) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| {
            let from = Key::new(namespace, "");
            let all = objects.by_key.range(from..).take_while(|(key, _)| key.namespace == namespace);
            all.map(|(_, object)| object.object()).filter(|object| holds(object)).collect()
        })
    }

    /// Returns the objects that an owner in a namespace has or may adopt, by name: those that name its `uid` among their owners, and those without a
    /// controller. The time does not grow with the objects of other owners.
    pub fn claimable(&self, namespace: &str, uid: &str) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| {
            let own = objects.by_owner.get(uid).into_iter().flatten().filter(|key| key.namespace == namespace);
            let free = objects.uncontrolled.range(Key::new(namespace, "")..).take_while(|key| key.namespace == namespace);
            let keys: BTreeSet<&Key> = own.chain(free).collect();
            keys.into_iter().filter_map(|key| objects.by_key.get(key).map(Held::object)).collect()
        })
    }

    /// Returns all objects that name `owner`, a uid or what [`Scope::owner`] says, among their owners.
    pub fn owned_by(&self, owner: &str) -> Vec<Arc<DynamicObject>> {
        self.read(|objects| {
            let keys = objects.by_owner.get(owner).into_iter().flatten();
            keys.filter_map(|key| objects.by_key.get(key).map(Held::object)).collect()
        })
    }

    /// Returns the namespaces that have objects.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.read(|objects| {
            let mut all = BTreeSet::new();
            for key in objects.by_key.keys() {
                if !all.contains(&key.namespace) {
                    all.insert(key.namespace.clone());
                }
            }
            all
        })
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.read(|objects| objects.by_key.len())
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read<T>(&self, read: impl FnOnce(&Objects) -> T) -> T {
        read(&self.inner.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn follow(&self, events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>) {
        let mut events = std::pin::pin!(events);
        let mut listing: BTreeMap<Key, DynamicObject> = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => {
                    listing.insert(Key::of(&object), self.trimmed(object));
                }
                Ok(Event::InitDone) => {
                    let gone: Vec<Key> =
                        self.read(|objects| objects.by_key.keys().filter(|key| !listing.contains_key(*key)).cloned().collect());
                    for key in gone {
                        self.put(&key, None);
                    }
                    for (key, object) in std::mem::take(&mut listing) {
                        self.put(&key, Some(object));
                    }
                    self.inner.ready.send_replace(true);
                }
                Ok(Event::Apply(object)) => self.put(&Key::of(&object), Some(object)),
                Ok(Event::Delete(object)) => self.put(&Key::of(&object), None),
                Err(error) => tracing::debug!(kind = self.inner.types.kind, %error, "the watch broke and is opened again"),
            }
        }
    }

    fn trimmed(&self, mut object: DynamicObject) -> DynamicObject {
        // No decision uses managed fields, and they are often larger than the rest of the object.
        object.metadata.managed_fields = None;
        if let Some(trim) = self.inner.trim {
            trim(&mut object);
        }
        object
    }

    fn put(&self, key: &Key, object: Option<DynamicObject>) {
        let now = object.map(|object| {
            let mut object = self.trimmed(object);
            // The items of a list lack their kind.
            object.types.get_or_insert_with(|| self.inner.types.clone());
            Arc::new(object)
        });
        let held = now.as_ref().map(|object| Held::new(object, self.inner.is_packed));
        let before = {
            let mut objects = self.inner.objects.write().unwrap_or_else(PoisonError::into_inner);
            let before = match held {
                Some(held) => objects.by_key.insert(key.clone(), held),
                None => objects.by_key.remove(key),
            };
            let before = before.map(|before| before.object());
            for owner in self.owners(before.as_deref()) {
                if let Some(keys) = objects.by_owner.get_mut(&owner) {
                    keys.remove(key);
                    if keys.is_empty() {
                        objects.by_owner.remove(&owner);
                    }
                }
            }
            for owner in self.owners(now.as_deref()) {
                objects.by_owner.entry(owner).or_default().insert(key.clone());
            }
            if now.as_deref().is_some_and(|object| !is_controlled(object)) {
                objects.uncontrolled.insert(key.clone());
            } else {
                objects.uncontrolled.remove(key);
            }
            before
        };
        let same = match (&before, &now) {
            (Some(before), Some(now)) => before.metadata.resource_version == now.metadata.resource_version,
            (None, None) => true,
            _ => false,
        };
        if !same {
            let change = Change { before, now };
            for handler in self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner).iter() {
                handler(&change);
            }
        }
    }

    /// The owners of an object: the uids of its references, and what the scope says besides.
    fn owners(&self, object: Option<&DynamicObject>) -> Vec<String> {
        let Some(object) = object else { return Vec::new() };
        let references = object.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone());
        references.chain(self.inner.owner.and_then(|owner| owner(object))).collect()
    }
}

/// Returns the API of a kind, in its scope.
fn api<K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>>(
    client: &Client,
    resource: &ApiResource,
    scope: &Scope,
) -> Api<K> {
    match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// Returns a kind as `kubectl` accepts it: `PLURAL.GROUP`, or `PLURAL` for the core group.
fn kind(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.plural.clone() } else { format!("{}.{}", resource.plural, resource.group) }
}

/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Converts an event with metadata alone to an event with otherwise empty objects.
fn metadata_alone(event: Event<PartialObjectMeta<DynamicObject>>) -> Event<DynamicObject> {
    let object = |part: PartialObjectMeta<DynamicObject>| {
        let mut metadata = part.metadata;
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(LAST_APPLIED);
        }
        // The type of such an answer is not the type of the object.
        DynamicObject { types: None, metadata, data: serde_json::Value::Object(serde_json::Map::new()) }
    };
    match event {
        Event::Apply(part) => Event::Apply(object(part)),
        Event::Delete(part) => Event::Delete(object(part)),
        Event::InitApply(part) => Event::InitApply(object(part)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

fn is_controlled(object: &DynamicObject) -> bool {
    object.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
}
