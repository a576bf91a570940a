//! Garbage collection: dependents are deleted after their owners (KAPI-WL-01).
//!
//! ```text
//!   shared copies ──┐
//!                   ├─► Graph (metadata only) ──uid──► Queue ──► decide ──► ask, unlink, delete, orphan, release
//!   metadata watches┘
//! ```
//! Kinds that the controllers follow anyway are not watched twice. The watched kinds follow discovery, so that custom resources are
//! collected too.

pub mod graph;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use mainstay_runtime::{Key, Outcome, Queue, Served};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::graph::{Decision, FOREGROUND, Graph, Node, ORPHAN, Owner};
use crate::Result;
use crate::api::{Api, Delete, Patch};
use crate::discovery::{Discovery, Kind};
use crate::events::Events;
use crate::live::Live;
use crate::object::Read as _;
use crate::world::World;

const COMPONENT: &str = "garbage-collector-controller";
/// The interval at which discovery is repeated although no CRD has changed.
const REFRESH: Duration = Duration::from_secs(60);
/// The time after a change of a CRD during which discovery may lack its kind.
const SETTLE: Duration = Duration::from_millis(200);
/// The most uids that are remembered as gone.
const GONE: usize = 10_000;

/// A uid as a key of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Uid(Box<str>);

impl fmt::Display for Uid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[derive(Default)]
struct State {
    graph: Graph,
    kinds: Vec<Kind>,
    gone: HashSet<Box<str>>,
}

#[derive(Clone)]
struct Collector {
    api: Api,
    events: Events,
    discovery: Discovery,
    state: Arc<Mutex<State>>,
    queue: Queue<Uid>,
}

/// Runs the collector. `shared` are the existing live copies.
pub async fn run(world: World, discovery: Discovery, shared: Vec<Live>) {
    let collector =
        Collector { api: world.api.clone(), events: world.events.clone(), discovery, state: Arc::default(), queue: Queue::default() };
    let watching = tokio::spawn(collector.clone().follow_kinds(world.clone(), shared));
    let worker = collector.clone();
    mainstay_runtime::run("garbage-collector", collector.queue.clone(), 4, world.env.clone(), world.stop.clone(), move |uid| {
        let collector = worker.clone();
        async move {
            match collector.collect(&uid.0).await {
                Err(error) if error.is_stale() => Ok(Outcome::Retry),
                other => other,
            }
        }
    })
    .await;
    if let Err(error) = watching.await {
        tracing::error!(%error, "the watches of the garbage collector ended abnormally");
    }
}

/// The interval at which an owner that is not watched yet is asked for again.
const UNSEEN: Duration = Duration::from_secs(1);

impl Collector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches every kind that can be listed, and starts and stops watches as kinds come and go.
    async fn follow_kinds(self, world: World, shared: Vec<Live>) {
        let crds = world.follow("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false);
        let changed = Arc::new(tokio::sync::Notify::new());
        let tell = changed.clone();
        crds.on_change(move |change| {
            let established = |crd: Option<&Arc<DynamicObject>>| crd.map(|crd| crd.at("/status/conditions").clone());
            let same = established(change.before.as_ref()) == established(change.now.as_ref())
                && change.before.as_ref().map(|crd| crd.at("/spec/versions").clone())
                    == change.now.as_ref().map(|crd| crd.at("/spec/versions").clone());
            if !same {
                tell.notify_one();
            }
        });
        let mut shared = shared;
        shared.push(crds);
        let mut watched: HashMap<(String, String), (u32, Option<CancellationToken>)> = HashMap::new();
        loop {
            match self.discovery.refresh().await {
                Ok(kinds) => self.watch(&kinds, &shared, &mut watched, &world.stop),
                Err(error) => tracing::warn!(%error, "the kinds to collect cannot be discovered"),
            }
            tokio::select! {
                () = world.stop.cancelled() => return,
                () = changed.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(REFRESH) => {}
            }
        }
    }

    fn watch(
        &self,
        kinds: &[Kind],
        shared: &[Live],
        watched: &mut HashMap<(String, String), (u32, Option<CancellationToken>)>,
        stop: &CancellationToken,
    ) {
        let name = |served: &Served| (served.resource.group.clone(), served.resource.plural.clone());
        let wanted: Vec<&Kind> = kinds.iter().filter(|kind| collectable(kind)).collect();
        watched.retain(|known, (number, end)| {
            let stays = wanted.iter().any(|kind| name(&kind.served) == *known);
            if !stays {
                if let Some(end) = end {
                    end.cancel();
                }
                self.forget(*number);
            }
            stays
        });
        for kind in wanted {
            if watched.contains_key(&name(&kind.served)) {
                continue;
            }
            let number = {
                let mut state = self.state();
                state.kinds.push(kind.clone());
                u32::try_from(state.kinds.len() - 1).unwrap_or(u32::MAX)
            };
            let copy = shared.iter().find(|live| name(live.served()) == name(&kind.served));
            let end = if let Some(live) = copy {
                let collector = self.clone();
                live.on_change(move |change| match (&change.now, &change.before) {
                    (Some(now), before) => {
                        if let Some(before) = before.as_ref().filter(|before| before.uid() != now.uid()) {
                            collector.removed(before.uid());
                        }
                        collector.applied(now.uid(), Node::of(number, &now.metadata));
                    }
                    (None, Some(before)) => collector.removed(before.uid()),
                    (None, None) => {}
                });
                None
            } else {
                let end = stop.child_token();
                tokio::spawn(self.clone().follow(number, kind.served.clone(), end.clone()));
                Some(end)
            };
            watched.insert(name(&kind.served), (number, end));
        }
    }

    /// Removes the objects of a kind that is no longer served.
    fn forget(&self, number: u32) {
        let uids = self.state().graph.of_kind(number);
        for uid in uids {
            self.removed(&uid);
        }
    }

    async fn follow(self, number: u32, served: Served, end: CancellationToken) {
        let api: kube::Api<PartialObjectMeta<DynamicObject>> = kube::Api::all_with(self.api.client().clone(), &served.resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listed: HashSet<Box<str>> = HashSet::new();
        loop {
            let event = tokio::select! {
                () = end.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(watcher::Event::Init)) => listed.clear(),
                Some(Ok(watcher::Event::InitApply(object))) => {
                    let uid = object.metadata.uid.as_deref().unwrap_or_default();
                    listed.insert(uid.into());
                    self.applied(uid, Node::of(number, &object.metadata));
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    let known = self.state().graph.of_kind(number);
                    for uid in known.difference(&listed) {
                        self.removed(uid);
                    }
                    listed = HashSet::new();
                }
                Some(Ok(watcher::Event::Apply(object))) => {
                    self.applied(object.metadata.uid.as_deref().unwrap_or_default(), Node::of(number, &object.metadata));
                }
                Some(Ok(watcher::Event::Delete(object))) => self.removed(object.metadata.uid.as_deref().unwrap_or_default()),
                Some(Err(error)) => tracing::debug!(kind = served.resource.kind, %error, "the watch broke and is opened again"),
                None => return,
            }
        }
    }

    fn applied(&self, uid: &str, node: Node) {
        let look = self.state().graph.apply(uid, node);
        for uid in look {
            self.queue.add(Uid(uid));
        }
    }

    fn removed(&self, uid: &str) {
        let look = {
            let mut state = self.state();
            let look = state.graph.remove(uid);
            // A deletion that was seen needs no request, and matters only if the object has dependents.
            if !look.is_empty() {
                remember(&mut state.gone, uid.into());
            }
            look
        };
        for uid in look {
            self.queue.add(Uid(uid));
        }
    }

    /// Warns about owners of other namespaces, which do not count: the user may not know that.
    fn warn_of_foreign(&self, uid: &str) {
        // Separate statements, because each locks the state.
        let foreign = self.state().graph.foreign(uid);
        let Some((served, key)) = self.place(uid) else { return };
        for owner in foreign {
            let Owner { api_version, kind, name, uid: of, .. } = &owner;
            let message = format!(
                "ownerRef [{api_version}/{kind}, namespace: {}, name: {name}, uid: {of}] does not exist in namespace {:?}",
                key.namespace, key.namespace
            );
            let metadata = kube::api::ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(uid.to_owned()),
                ..kube::api::ObjectMeta::default()
            };
            let about = DynamicObject { types: None, metadata, data: Value::Null };
            self.events.record(COMPONENT, "Warning", &served, &about, "OwnerRefInvalidNamespace", message);
        }
    }

    async fn collect(&self, uid: &str) -> Result<Outcome> {
        self.warn_of_foreign(uid);
        let mut there = HashSet::new();
        loop {
            let decision = {
                let state = self.state();
                state.graph.decide(uid, &state.gone, &there)
            };
            match decision {
                Decision::Keep => {
                    // The owner exists but is not watched yet, so its deletion before the watch starts would not be seen.
                    let unseen = there.iter().any(|owner| self.state().graph.get(owner).is_none());
                    return Ok(if unseen { Outcome::After(UNSEEN) } else { Outcome::Done });
                }
                Decision::Ask(owners) => {
                    for owner in owners {
                        match self.ask(uid, &owner).await? {
                            Presence::There => {
                                there.insert(owner.uid);
                            }
                            Presence::Gone => remember(&mut self.state().gone, owner.uid),
                            // The owner's kind is not served now, so the owner is not known to be gone.
                            Presence::Unknown => return Ok(Outcome::Retry),
                        }
                    }
                }
                Decision::Unlink(gone) => {
                    self.unlink(uid, &gone).await?;
                    return Ok(Outcome::Done);
                }
                Decision::Delete { propagation, unblock } => {
                    if unblock {
                        self.unblock(uid).await?;
                    }
                    return self.delete(uid, propagation).await;
                }
                Decision::Orphan(dependents) => {
                    for dependent in dependents {
                        match self.unlink(&dependent, &[uid.into()]).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => outcome?,
                        }
                    }
                    self.drop_finalizer(uid, ORPHAN).await?;
                    return Ok(Outcome::Done);
                }
                Decision::DeleteFirst(dependents) => {
                    for dependent in dependents {
                        self.queue.add(Uid(dependent));
                    }
                    return Ok(Outcome::Done);
                }
                Decision::Release => {
                    self.drop_finalizer(uid, FOREGROUND).await?;
                    return Ok(Outcome::Done);
                }
            }
        }
    }

    fn place(&self, uid: &str) -> Option<(Served, Key)> {
        let state = self.state();
        let node = state.graph.get(uid)?;
        let kind = state.kinds.get(node.kind as usize)?;
        Some((kind.served.clone(), Key::new(&*node.namespace, &*node.name)))
    }

    async fn ask(&self, dependent: &str, owner: &Owner) -> Result<Presence> {
        let Some((_, key)) = self.place(dependent) else { return Ok(Presence::Unknown) };
        let mut kind = self.discovery.find(&owner.api_version, &owner.kind);
        if kind.is_none() {
            // The kind may be new.
            self.discovery.refresh().await?;
            kind = self.discovery.find(&owner.api_version, &owner.kind);
        }
        let Some(kind) = kind else { return Ok(Presence::Unknown) };
        if kind.served.namespaced && key.namespace.is_empty() {
            // A cluster-scoped object cannot be owned by a namespaced one, because the reference does not name a namespace.
            return Ok(Presence::Unknown);
        }
        let namespace = if kind.served.namespaced { key.namespace } else { String::new() };
        let live = self.api.get_metadata(&kind.served, &Key::new(namespace, &*owner.name)).await?;
        let same = live.is_some_and(|live| live["metadata"]["uid"] == *owner.uid);
        Ok(if same { Presence::There } else { Presence::Gone })
    }

    /// Returns the object from the server; `None` if it is not found, or another object has its name by now.
    async fn live(&self, uid: &str) -> Result<Option<(Served, Key, Value)>> {
        let Some((served, key)) = self.place(uid) else { return Ok(None) };
        let live = self.api.get_metadata(&served, &key).await?;
        Ok(live.filter(|live| live["metadata"]["uid"] == *uid).map(|live| (served, key, live)))
    }

    async fn unlink(&self, uid: &str, gone: &[Box<str>]) -> Result<()> {
        self.change_owners(uid, |owners| owners.retain(|owner| !gone.iter().any(|gone| owner["uid"] == **gone))).await
    }

    async fn unblock(&self, uid: &str) -> Result<()> {
        self.change_owners(uid, |owners| {
            for owner in owners {
                owner["blockOwnerDeletion"] = json!(false);
            }
        })
        .await
    }

    async fn change_owners(&self, uid: &str, change: impl FnOnce(&mut Vec<Value>)) -> Result<()> {
        let Some((served, key, live)) = self.live(uid).await? else { return Ok(()) };
        let before = live.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut owners = before.clone();
        change(&mut owners);
        if owners == before {
            return Ok(());
        }
        let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
        let version = &live["metadata"]["resourceVersion"];
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "resourceVersion": version, "ownerReferences": owners}}));
        self.api.patch(&served, &key, "", &patch).await?;
        Ok(())
    }

    async fn drop_finalizer(&self, uid: &str, finalizer: &str) -> Result<()> {
        let Some((served, key, live)) = self.live(uid).await? else { return Ok(()) };
        let mut finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|own| own != finalizer);
        if finalizers.len() == before {
            return Ok(());
        }
        let finalizers = if finalizers.is_empty() { Value::Null } else { Value::Array(finalizers) };
        let version = &live["metadata"]["resourceVersion"];
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": finalizers}}));
        self.api.patch(&served, &key, "", &patch).await?;
        Ok(())
    }

    async fn delete(&self, uid: &str, propagation: &'static str) -> Result<Outcome> {
        let known = {
            let state = self.state();
            state.graph.get(uid).map(|node| node.owners.iter().map(|owner| owner.uid.clone()).collect::<HashSet<_>>())
        };
        let Some((served, key, live)) = self.live(uid).await? else { return Ok(Outcome::Done) };
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(Outcome::Done);
        }
        let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let owners: HashSet<Box<str>> = owners.filter_map(|owner| owner["uid"].as_str()).map(Box::from).collect();
        if Some(owners) != known {
            // Its owners changed since the decision.
            return Ok(Outcome::Retry);
        }
        let version = live["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let options = Delete { uid: Some(uid.to_owned()), resource_version: version, grace_seconds: None, propagation: Some(propagation) };
        self.api.delete(&served, &key, &options).await?;
        Ok(Outcome::Done)
    }
}

enum Presence {
    There,
    Gone,
    Unknown,
}

fn remember(gone: &mut HashSet<Box<str>>, uid: Box<str>) {
    if gone.len() >= GONE {
        // Uids that are forgotten are asked for again.
        gone.clear();
    }
    gone.insert(uid);
}

/// Returns true for kinds that are collected. Events are not: they are many, and expire by themselves.
fn collectable(kind: &Kind) -> bool {
    let resource = &kind.served.resource;
    let event = resource.plural == "events" && (resource.group.is_empty() || resource.group == "events.k8s.io");
    !event && ["list", "watch", "delete"].iter().all(|verb| kind.can(verb))
}
