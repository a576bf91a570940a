//! The cache over a store that fails.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use bytes::Bytes;
use mainstay_store::{Embedded, Error, Expect, Fate, KeyValue, Listing, Options, StoreMetrics, Watch};

use super::*;

/// A store whose next watches cannot be opened.
struct Failing {
    store: Embedded,
    count: AtomicU32,
    error: fn() -> Error,
}

#[async_trait]
impl Store for Failing {
    fn revision(&self) -> watch::Receiver<Revision> {
        self.store.revision()
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.store.get(key).await
    }

    async fn list(&self, range: Range) -> Result<Listing, Error> {
        self.store.list(range).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect) -> Result<KeyValue, Error> {
        self.store.put(key, value, expect).await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<(KeyValue, Revision), Error> {
        self.store.delete(key, expect).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        let failing = self.count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok();
        if failing { Err((self.error)()) } else { self.store.watch(prefix, after).await }
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.store.compact(revision).await
    }

    async fn metrics(&self) -> Result<StoreMetrics, Error> {
        self.store.metrics().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

async fn over(path: &std::path::Path, count: u32, error: fn() -> Error) -> (Arc<Failing>, Arc<Cache>) {
    let store = Embedded::open(&path.join("store"), &Options::default()).unwrap();
    let store = Arc::new(Failing { store, count: AtomicU32::new(count), error });
    let cache = Cache::fill(store.clone()).await.unwrap();
    (store, cache)
}

fn object() -> Bytes {
    crate::object::encode("v1", "ConfigMap", &serde_json::json!({"metadata": {"name": "x", "uid": "1"}}))
}

/// KAPI-STORE-03, KAPI-WATCH-01: a storage cluster that is away when the cache begins to follow it costs open watches nothing.
#[tokio::test]
async fn a_store_that_is_away_is_followed_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let away = || Error::Remote { problem: "connection refused".into(), fate: Fate::Unavailable };
    let (store, cache) = over(dir.path(), 2, away).await;
    let mut open = cache.resource("core/configmaps").subscribe(Scope::default(), Begin::Now, &cache).ok().unwrap();
    let feeding = tokio::spawn(cache.clone().run());
    let written = store.put("/registry/core/configmaps/ns/x", object(), Expect::Absent).await.unwrap();
    let change = open.changes.recv().await.unwrap();
    assert_eq!(change.revision, written.modified);
    assert!(!cache.ended());
    store.close().await;
    feeding.await.unwrap().unwrap();
    assert!(open.changes.recv().await.is_none());
}

/// KAPI-WATCH-01: where the store cannot be followed any more watches end, those that are open and those that come, and it shows.
#[tokio::test]
async fn a_cache_that_ends_ends_its_watches() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = || Error::Corrupt { path: "store".into(), problem: "a bit has changed".into() };
    let (_store, cache) = over(dir.path(), 1, damaged).await;
    let resource = cache.resource("core/configmaps");
    let mut open = resource.subscribe(Scope::default(), Begin::Now, &cache).ok().unwrap();
    assert!(matches!(cache.clone().run().await, Err(Error::Corrupt { .. })));
    assert!(cache.ended());
    assert!(open.changes.recv().await.is_none());
    let mut late = resource.subscribe(Scope::default(), Begin::Now, &cache).ok().unwrap();
    assert!(late.changes.recv().await.is_none());
}
