//! For tests of this crate: a server over a store that fails, or keeps somebody waiting, when it is told to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use mainstay_rbac::UserInfo;
use mainstay_store::{Embedded, Error, Expect, Fate, KeyValue, Listing, Options, Range, Revision, Store, StoreMetrics, Watch};
use serde_json::Value;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::cache::{Begin, Scope};
use crate::open::{Config, Server, lock};
use crate::rest::ControlPlane;

/// Longer than anything here takes, unless it never happens.
const NEVER: Duration = Duration::from_secs(60);

/// What the store does with a write.
#[derive(Clone, Debug)]
pub enum Then {
    /// It does not do it.
    Refuse,
    /// It does it and says that it does not know.
    DoubtAfter,
    /// It does it, and answers when a permit is there.
    AnswerLater(Arc<Semaphore>),
}

#[derive(Debug)]
struct Fault {
    key: String,
    skip: usize,
    then: Then,
}

/// A store that wraps another one.
pub struct Faulty {
    inner: Embedded,
    shared: bool,
    faults: Mutex<Vec<Fault>>,
    /// How often somebody asked for the latest revision.
    pub asked: AtomicUsize,
    /// How many faults have begun.
    pub met: Semaphore,
}

impl Faulty {
    /// A new store in a folder.
    pub fn open(directory: &std::path::Path, shared: bool) -> Arc<Self> {
        let inner = Embedded::open(&directory.join("store"), &Options::default()).unwrap();
        Arc::new(Self { inner, shared, faults: Mutex::default(), asked: AtomicUsize::new(0), met: Semaphore::new(0) })
    }

    /// What becomes, once, of a write of a key that begins so, after as many others.
    pub fn arrange(&self, key: &str, skip: usize, then: Then) {
        self.faults.lock().unwrap().push(Fault { key: key.to_owned(), skip, then });
    }

    fn fault(&self, key: &str) -> Option<Then> {
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|fault| key.starts_with(&fault.key))?;
        if faults[at].skip > 0 {
            faults[at].skip -= 1;
            return None;
        }
        self.met.add_permits(1);
        Some(faults.remove(at).then)
    }

    async fn run<T>(&self, key: &str, step: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let failed = |fate| Err(Error::Remote { problem: "the test says so".to_owned(), fate });
        match self.fault(key) {
            None => step.await,
            Some(Then::Refuse) => failed(Fate::Unavailable),
            Some(Then::DoubtAfter) => {
                step.await?;
                failed(Fate::Unknown)
            }
            Some(Then::AnswerLater(gate)) => {
                let outcome = step.await;
                gate.acquire().await.unwrap().forget();
                outcome
            }
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn revision(&self) -> tokio::sync::watch::Receiver<Revision> {
        self.inner.revision()
    }

    fn shared(&self) -> bool {
        self.shared
    }

    async fn writable(&self) -> Result<(), Error> {
        self.run("whether it takes writes", self.inner.writable()).await
    }

    async fn latest(&self) -> Result<Revision, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.latest().await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.inner.get(key).await
    }

    async fn list(&self, range: Range) -> Result<Listing, Error> {
        self.inner.list(range).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect) -> Result<KeyValue, Error> {
        self.run(key, self.inner.put(key, value, expect)).await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        self.run(key, self.inner.delete(key, expect)).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.inner.watch(prefix, after).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn metrics(&self) -> Result<StoreMetrics, Error> {
        self.inner.metrics().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// A server over such a store.
pub struct World {
    /// The store.
    pub store: Arc<Faulty>,
    /// The server.
    pub server: Server,
    /// For the administrator.
    pub admin: Router,
    _directory: tempfile::TempDir,
}

impl World {
    /// A server; `shared` says that there may be others.
    pub async fn new(shared: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Faulty::open(directory.path(), shared);
        let control_plane = ControlPlane { controllers: true, scheduler: false };
        let config = Config { control_plane, ..Config::local(directory.path(), 6443) };
        let server = Server::over(store.clone(), config, lock(directory.path()).unwrap()).await.unwrap();
        let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
        Self { store, server, admin, _directory: directory }
    }

    /// Sends a request and reads its answer.
    pub async fn send(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        let response = self.admin.clone().oneshot(request).await.unwrap();
        let (status, body) = (response.status(), response.into_body().collect().await.unwrap().to_bytes());
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Sends a request whose client goes away when it has met a fault.
    pub async fn send_and_leave(&self, method: &str, path: &str, body: Value) {
        tokio::select! {
            (status, answer) = self.send(method, path, body) => panic!("answered: {status} {answer}"),
            permit = self.store.met.acquire() => permit.unwrap().forget(),
        }
    }

    /// Waits until an object is so.
    pub async fn until(&self, resource: &str, key: &str, so: impl Fn(Option<&Value>) -> bool) {
        let cache = &self.server.api().objects.cache;
        let waiting = async {
            let mut events = cache.resource(resource).subscribe(Scope::default(), Begin::Now, cache).ok().unwrap();
            while !so(cache.resource(resource).get(key).map(|entry| entry.value()).as_ref()) {
                events.changes.recv().await.expect("the watch lasts");
            }
        };
        tokio::time::timeout(NEVER, waiting).await.expect("it becomes so");
    }
}
