//! The resources that quotas measure: pods, services and claims as whole objects; for all others only the number of objects.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use mainstay_kinds::quota::{Evaluator, Quota, Source, total};
use mainstay_kinds::resource_list::ResourceList;
use mainstay_runtime::{Change, Key, Queue, Served};
use serde_json::Value;
use tokio::sync::watch;

use crate::Result;
use crate::discovery::Discovery;
use crate::live::Live;
use crate::object::Read as _;
use crate::world::World;

/// The measured use of one resource.
pub(super) enum Measure {
    /// The amounts used.
    Sum(ResourceList),
    /// Its objects are being listed.
    Listing,
    /// The resource is not served, or not yet.
    Unserved,
}

/// The copies of resources, each started when the first quota names it.
pub(super) struct Sources {
    world: World,
    discovery: Discovery,
    quotas: Live,
    queue: Queue<Key>,
    copies: Mutex<HashMap<(String, String), Copy>>,
}

#[derive(Clone)]
enum Copy {
    Objects(Live),
    Names(Tally),
}

impl Sources {
    /// Starts without copies. The quotas of a namespace are added to the queue when something in it uses less.
    pub fn new(world: World, discovery: Discovery, quotas: Live, queue: Queue<Key>) -> Self {
        Self { world, discovery, quotas, queue, copies: Mutex::default() }
    }

    /// Returns true if a resource is followed.
    pub fn has(&self, source: &Source) -> bool {
        self.copies().contains_key(&(source.group.clone(), source.plural.clone()))
    }

    /// Returns the use of a quota by the objects of one resource in a namespace.
    pub async fn sum(&self, quota: &Quota, source: &Source, namespace: &str, now: Timestamp) -> Result<Measure> {
        let Some(copy) = self.copy(source).await? else { return Ok(Measure::Unserved) };
        Ok(match copy {
            Copy::Objects(live) if live.is_ready() => {
                let objects: Vec<Value> = live.in_namespace(namespace).iter().map(|object| live.value(object)).collect();
                Measure::Sum(total(quota, &source.evaluator, objects.iter(), now))
            }
            Copy::Names(tally) if *tally.ready.borrow() => {
                let count = tally.count(namespace);
                Measure::Sum(total(quota, &source.evaluator, std::iter::repeat_n(&Value::Null, count), now))
            }
            Copy::Objects(_) | Copy::Names(_) => Measure::Listing,
        })
    }

    fn copies(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Copy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn copy(&self, source: &Source) -> Result<Option<Copy>> {
        let name = (source.group.clone(), source.plural.clone());
        if let Some(copy) = self.copies().get(&name) {
            return Ok(Some(copy.clone()));
        }
        let served = match source.evaluator {
            Evaluator::Count(_) => match self.discover(source).await? {
                Some(served) => Some(served),
                None => return Ok(None),
            },
            _ => None,
        };
        // Another worker may have started it meanwhile: the holder of the lock decides.
        let mut copies = self.copies();
        let copy = copies.entry(name).or_insert_with(|| match (&source.evaluator, served) {
            (Evaluator::Pods, _) => Copy::Objects(self.measured(self.world.pods.clone(), &source.evaluator)),
            (Evaluator::Services, _) => Copy::Objects(self.measured(self.follow("Service", "services"), &source.evaluator)),
            (Evaluator::Claims, _) => {
                Copy::Objects(self.measured(self.follow("PersistentVolumeClaim", "persistentvolumeclaims"), &source.evaluator))
            }
            (Evaluator::DeviceClaims, _) => {
                let claims = self.world.follow("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", true);
                Copy::Objects(self.measured(claims, &source.evaluator))
            }
            (Evaluator::Count(_), served) => Copy::Names(self.tally(served, source)),
        });
        Ok(Some(copy.clone()))
    }

    fn follow(&self, kind: &str, plural: &str) -> Live {
        self.world.follow("v1", kind, plural, true)
    }

    async fn discover(&self, source: &Source) -> Result<Option<Served>> {
        let find = |kinds: &[crate::discovery::Kind]| {
            let is = |kind: &&crate::discovery::Kind| {
                let resource = &kind.served.resource;
                resource.group == source.group && resource.plural == source.plural && kind.served.namespaced && kind.can("watch")
            };
            kinds.iter().find(is).map(|kind| kind.served.clone())
        };
        if let Some(served) = find(&self.discovery.known()) {
            return Ok(Some(served));
        }
        Ok(find(&self.discovery.refresh().await?))
    }

    /// Wakes the quotas of a namespace when one of its objects uses less, or something else.
    fn measured(&self, live: Live, evaluator: &Evaluator) -> Live {
        let (quotas, queue, evaluator) = (self.quotas.clone(), self.queue.clone(), evaluator.clone());
        let (reader, env) = (live.clone(), self.world.env.clone());
        live.on_change(move |change: &Change| {
            let Some(before) = &change.before else { return };
            let concerned = quotas.in_namespace(before.namespace());
            if concerned.is_empty() {
                return;
            }
            let usage = |object: &Arc<DynamicObject>| evaluator.usage(&reader.value(object), env.now());
            let changed = change.now.as_ref().is_none_or(|now| now.uid() != before.uid() || usage(now) != usage(before));
            if changed {
                wake(&concerned, &evaluator, &queue);
            } else if let Some(now) = &change.now {
                // What it uses is the same, but it may be another quota's now.
                let (was, is) = (reader.value(before), reader.value(now));
                for quota in &concerned {
                    let wanted = Quota::wanted(&quotas.value(quota));
                    if wanted.concerns(&evaluator, &was) != wanted.concerns(&evaluator, &is) {
                        queue.add(Key::of(quota));
                    }
                }
            }
        });
        live
    }

    fn tally(&self, served: Option<Served>, source: &Source) -> Tally {
        let tally = Tally { names: Arc::default(), ready: Arc::new(watch::Sender::new(false)) };
        let Some(served) = served else { return tally };
        let (quotas, queue, evaluator) = (self.quotas.clone(), self.queue.clone(), source.evaluator.clone());
        let changed = move |namespace: &str| wake(&quotas.in_namespace(namespace), &evaluator, &queue);
        let api: kube::Api<PartialObjectMeta<DynamicObject>> = kube::Api::all_with(self.world.api.client().clone(), &served.resource);
        let (copy, stop) = (tally.clone(), self.world.stop.clone());
        tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            let mut listed = HashSet::new();
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(Ok(event)) => copy.take(event, &mut listed, &changed),
                    Some(Err(error)) => {
                        tracing::debug!(%error, resource = served.resource.plural, "the watch of a measured resource failed");
                    }
                    None => return,
                }
            }
        });
        tally
    }
}

fn wake(quotas: &[Arc<DynamicObject>], evaluator: &Evaluator, queue: &Queue<Key>) {
    for quota in quotas {
        let hard = quota.at("/spec/hard").as_object().into_iter().flatten();
        if hard.into_iter().any(|(name, _)| evaluator.measures(name)) {
            queue.add(Key::of(quota));
        }
    }
}

type Names = HashSet<(String, String)>;

/// The names of all objects of a resource.
#[derive(Clone)]
struct Tally {
    names: Arc<Mutex<HashMap<String, HashSet<String>>>>,
    ready: Arc<watch::Sender<bool>>,
}

impl Tally {
    fn count(&self, namespace: &str) -> usize {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).map_or(0, HashSet::len)
    }

    /// Applies an event; `listed` holds the names that an unfinished list has shown so far.
    fn take(&self, event: watcher::Event<PartialObjectMeta<DynamicObject>>, listed: &mut Names, changed: &impl Fn(&str)) {
        let place = |object: PartialObjectMeta<DynamicObject>| {
            (object.metadata.namespace.unwrap_or_default(), object.metadata.name.unwrap_or_default())
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.insert(place(object));
            }
            watcher::Event::InitDone => {
                let mut names: HashMap<String, HashSet<String>> = HashMap::new();
                for (namespace, name) in listed.drain() {
                    names.entry(namespace).or_default().insert(name);
                }
                let before = std::mem::replace(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner), names);
                self.ready.send_replace(true);
                // A list in place of events: any earlier object may be gone.
                for namespace in before.keys() {
                    changed(namespace);
                }
            }
            watcher::Event::Apply(object) => {
                let (namespace, name) = place(object);
                let is_new = {
                    let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                    names.entry(namespace.clone()).or_default().insert(name)
                };
                // Admission has charged it, unless it was there before the quota and is only seen now: a quota that counts quotas was.
                if is_new {
                    changed(&namespace);
                }
            }
            watcher::Event::Delete(object) => {
                let (namespace, name) = place(object);
                {
                    let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(own) = names.get_mut(&namespace) {
                        own.remove(&name);
                        if own.is_empty() {
                            names.remove(&namespace);
                        }
                    }
                }
                changed(&namespace);
            }
        }
    }
}
