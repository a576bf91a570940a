//! Clients that write and read ConfigMaps at random, and watchers of them, through ends and new beginnings of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Revision;
use super::linear::{self, Ask, Operation, Told};
use super::order::{self, Event, Listed, Type, Watched};
use crate::client::{Connection, JSON, Target};

const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// The object that ends every watch.
const LAST: &str = "h-last";
const PREFIX: &str = "h-";

/// Everything that was done and seen.
pub struct Traffic {
    server: watch::Sender<Option<Target>>,
    clock: AtomicU64,
    value: AtomicU64,
    requests: AtomicUsize,
    operations: Mutex<BTreeMap<String, Vec<Operation>>>,
    acknowledged: Mutex<Vec<Event>>,
    lists: Mutex<Vec<Listed>>,
    ending: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traffic {
    /// None yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            server: watch::Sender::new(None),
            clock: AtomicU64::new(1),
            value: AtomicU64::new(1),
            requests: AtomicUsize::new(0),
            operations: Mutex::default(),
            acknowledged: Mutex::default(),
            lists: Mutex::default(),
            ending: watch::Sender::new(false),
        })
    }

    /// The server is up, or (none) down. What got no answer from the last one happened by now or never will.
    pub fn set_server(&self, target: Option<Target>) {
        let now = self.tick();
        if target.is_some() {
            for operation in lock(&self.operations).values_mut().flatten().filter(|operation| operation.told == Told::Nothing) {
                operation.end = operation.end.min(now);
            }
        }
        self.server.send_replace(target);
    }

    /// How many requests have begun, lists included.
    pub fn count(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The latest revision of which a writer was told.
    pub fn acknowledged(&self) -> Revision {
        lock(&self.acknowledged).iter().map(|event| event.revision).max().unwrap_or_default()
    }

    /// Starts a client of its own; it ends with [`Traffic::finish`].
    pub fn client(self: &Arc<Self>, seed: u64, keys: u64) -> JoinHandle<()> {
        let traffic = self.clone();
        tokio::spawn(async move {
            let (mut chance, mut known) = (StdRng::seed_from_u64(seed), BTreeMap::new());
            while let Some(target) = traffic.wait_for_server().await {
                if let Ok(mut connection) = target.connect().await {
                    while !*traffic.ending.borrow() && traffic.operate(&mut connection, &mut chance, &mut known, keys).await {}
                } else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
    }

    /// The server, once there is one; none at the end.
    async fn wait_for_server(&self) -> Option<Target> {
        let (mut server, mut ending) = (self.server.subscribe(), self.ending.subscribe());
        tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => None,
            found = server.wait_for(Option::is_some) => found.ok().and_then(|server| server.clone()),
        }
    }

    /// One operation; whether there was an answer.
    async fn operate(&self, connection: &mut Connection, chance: &mut StdRng, known: &mut BTreeMap<String, Revision>, keys: u64) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}", chance.random_range(0..keys));
        let path = format!("{PATH}/{name}");
        let value = self.value.fetch_add(1, Ordering::Relaxed);
        let revision = known.get(&name).copied().filter(|_| chance.random_bool(0.7));
        let ask = match chance.random_range(0..20) {
            0..=3 => Ask::Create(value),
            4..=11 => Ask::Update(value, revision),
            12..=14 => Ask::Delete(revision),
            15..=17 => Ask::Get,
            _ => return self.list(connection, keys).await,
        };
        let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": {"value": value.to_string(), "filling": "x".repeat(chance.random_range(0..2_000))}});
        let (method, path, body) = match &ask {
            Ask::Create(_) => ("POST", PATH, body),
            Ask::Update(..) => {
                if let Some(revision) = revision {
                    body["metadata"]["resourceVersion"] = revision.to_string().into();
                }
                ("PUT", path.as_str(), body)
            }
            Ask::Delete(revision) => {
                let preconditions = revision.map(|revision| json!({"resourceVersion": revision.to_string()}));
                ("DELETE", path.as_str(), json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}))
            }
            Ask::Get => ("GET", path.as_str(), Value::Null),
        };
        let body: Bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let begin = self.tick();
        let answer = connection.ask(method, path, JSON, body).await.ok();
        let answer = answer.map(|(status, body)| (status.as_u16(), serde_json::from_slice::<Value>(&body).unwrap_or_default()));
        let told = match &answer {
            None => Told::Nothing,
            Some((code, body)) => told(&ask, *code, body).unwrap_or_else(|| panic!("{method} {name}: {code} {body}")),
        };
        if let Told::Done(Some(revision)) | Told::Found(_, revision) = told {
            known.insert(name.clone(), revision);
        }
        if let (Told::Done(Some(revision)), Ask::Create(value) | Ask::Update(value, _)) = (&told, &ask) {
            lock(&self.acknowledged).push(Event { revision: *revision, name: name.clone(), value: Some(*value) });
        }
        let end = if told == Told::Nothing { u64::MAX } else { self.tick() };
        lock(&self.operations).entry(name).or_default().push(Operation { begin, end, ask, told });
        answer.is_some()
    }

    /// A list of everything, which is a read of each object as well.
    async fn list(&self, connection: &mut Connection, keys: u64) -> bool {
        let begin = self.tick();
        let Ok((status, body)) = connection.ask("GET", PATH, JSON, Bytes::new()).await else { return false };
        let end = self.tick();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert!(status.is_success(), "{body}");
        let listed = listed(&body);
        let mut operations = lock(&self.operations);
        for name in (0..keys).map(|number| format!("{PREFIX}{number}")) {
            let told = listed.items.get(&name).map_or(Told::Absent, |(value, revision)| Told::Found(*value, *revision));
            operations.entry(name).or_default().push(Operation { begin, end, ask: Ask::Get, told });
        }
        lock(&self.lists).push(listed);
        true
    }

    /// Starts a watcher that begins at a revision and goes on from what it saw last whenever its connection ends; `patience` is after
    /// how many events it gives a connection up by itself.
    pub fn watcher(self: &Arc<Self>, after: Revision, patience: usize) -> JoinHandle<Watched> {
        let traffic = self.clone();
        tokio::spawn(async move {
            let mut watched = Watched { after, ..Watched::default() };
            let mut seen = after;
            loop {
                let Some(target) = traffic.server.subscribe().wait_for(Option::is_some).await.ok().and_then(|server| server.clone()) else {
                    return watched;
                };
                let path = format!("{PATH}?watch=true&allowWatchBookmarks=true&resourceVersion={seen}&timeoutSeconds=300");
                let stream = match target.connect().await {
                    Ok(mut connection) => connection.stream(&path).await.map(|stream| (connection, stream)),
                    Err(error) => Err(error),
                };
                // The connection ends with its value.
                let Ok((_connection, mut stream)) = stream else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let (mut rest, mut count) = (Vec::new(), 0);
                while let Some(Ok(frame)) = stream.frame().await {
                    rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = rest.drain(..=end).collect();
                        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                        seen = take(&mut watched, &event);
                        count += 1;
                        if event["object"]["metadata"]["name"] == LAST {
                            return watched;
                        }
                    }
                    if count >= patience {
                        break;
                    }
                }
            }
        })
    }

    /// The revision of an empty beginning, for watches.
    pub async fn begin(target: &Target) -> anyhow::Result<Revision> {
        let answer = target.connect().await?.json("GET", PATH, &Value::Null).await?;
        let listed = listed(&answer);
        anyhow::ensure!(listed.items.is_empty(), "somebody was here before: {:?}", listed.items);
        Ok(listed.revision)
    }

    /// The revision of the server's latest list.
    pub async fn revision(target: &Target) -> anyhow::Result<Revision> {
        Ok(listed(&target.connect().await?.json("GET", PATH, &Value::Null).await?).revision)
    }

    /// Ends clients and watchers, and says what was wrong.
    pub async fn finish(&self, clients: Vec<JoinHandle<()>>, watchers: Vec<JoinHandle<Watched>>) -> anyhow::Result<Vec<String>> {
        self.ending.send_replace(true);
        for client in clients {
            client.await?;
        }
        let target = self.server.borrow().clone().ok_or_else(|| anyhow::anyhow!("the server is down"))?;
        let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LAST}, "data": {"value": "0"}});
        target.connect().await?.json("POST", PATH, &last).await?;
        let mut watches = Vec::new();
        for watcher in watchers {
            watches.push(tokio::time::timeout(Duration::from_secs(60), watcher).await??);
        }
        let mut problems = order::check(&watches, &lock(&self.lists), &lock(&self.acknowledged));
        let happened = watches.first().map(|watched| watched.events.as_slice()).unwrap_or_default();
        for (name, operations) in lock(&self.operations).iter() {
            let operations = settled(operations, happened);
            if let Err(explained) = linear::check(&operations) {
                let rest: Vec<_> = (0..operations.len()).filter(|at| !explained.contains(at)).map(|at| &operations[at]).take(8).collect();
                problems.push(format!("{name}: {} of {} operations can be explained; not {rest:?}", explained.len(), operations.len()));
            }
        }
        Ok(problems)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// Writes without an answer: the history tells which have happened, since values are unique. That leaves deletions open.
fn settled(operations: &[Operation], happened: &[Event]) -> Vec<Operation> {
    let mut settled = Vec::new();
    for operation in operations {
        let mut operation = operation.clone();
        if operation.told == Told::Nothing
            && let Ask::Create(value) | Ask::Update(value, _) = operation.ask
        {
            let Some(event) = happened.iter().find(|event| event.value == Some(value)) else { continue };
            operation.told = Told::Done(Some(event.revision));
        }
        if operation.ask != Ask::Get || operation.told != Told::Nothing {
            settled.push(operation);
        }
    }
    settled
}

/// What an answer says; none for one that there cannot be.
fn told(ask: &Ask, code: u16, body: &Value) -> Option<Told> {
    let (value, revision) = (value_of(body), revision_of(body));
    match (ask, code) {
        (Ask::Create(_), 201) | (Ask::Update(..), 200) => Some(Told::Done(Some(revision?))),
        (Ask::Delete(_), 200) => Some(Told::Done(None)),
        (Ask::Get, 200) => Some(Told::Found(value?, revision?)),
        (Ask::Create(_), 409) => Some(Told::Exists),
        (Ask::Update(_, Some(_)) | Ask::Delete(Some(_)), 409) => Some(Told::Conflict),
        (Ask::Update(..) | Ask::Delete(_) | Ask::Get, 404) => Some(Told::Absent),
        // The server ends, or has too much to do: it says that it did nothing, but that is not relied on.
        (_, 429 | 500..=599) => Some(Told::Nothing),
        _ => None,
    }
}

fn value_of(object: &Value) -> Option<u64> {
    object["data"]["value"].as_str()?.parse().ok()
}

fn revision_of(object: &Value) -> Option<Revision> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn listed(body: &Value) -> Listed {
    let items = body["items"].as_array().into_iter().flatten().filter_map(|item| {
        let name = item["metadata"]["name"].as_str()?;
        name.starts_with(PREFIX).then_some((name.to_owned(), (value_of(item)?, revision_of(item)?)))
    });
    Listed { items: items.collect(), revision: revision_of(body).unwrap_or_default() }
}

/// Notes an event; the revision that has been seen with it.
fn take(watched: &mut Watched, event: &Value) -> Revision {
    let object = &event["object"];
    let revision = revision_of(object).unwrap_or_else(|| panic!("an event without a revision: {event}"));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let shown = match event["type"].as_str() {
        Some("ADDED") => Type::Added,
        Some("MODIFIED") => Type::Modified,
        Some("DELETED") => Type::Deleted,
        Some("BOOKMARK") => {
            watched.bookmarks.push((watched.events.len(), revision));
            return revision;
        }
        _ => panic!("a watch fails: {event}"),
    };
    if name.starts_with(PREFIX) {
        let value = if shown == Type::Deleted { None } else { value_of(object) };
        watched.events.push(Event { revision, name: name.to_owned(), value });
        watched.types.push((revision, shown));
    }
    revision
}
