//! The embedded engine: the suite of every engine, and what is particular to files.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mainstay_store::{Embedded, Error, Expect, Options, Store};
use proptest::prelude::*;

use crate::model::{Engine, Step, play, steps};

/// The embedded engine in a folder, with files so small that it goes on to the next one often.
struct InFolder(PathBuf);

#[async_trait]
impl Engine for InFolder {
    async fn open(&self) -> Arc<dyn Store> {
        let options = Options { segment_bytes: 4 << 10, garbage_bytes: 1 << 10, ..Options::default() };
        Arc::new(Embedded::open(&self.0, &options).unwrap())
    }
}

async fn play_embedded(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    play(&InFolder(dir.path().join("store")), steps).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-STORE-01: one revision counter, history at every retained revision, compare-and-set, compaction.
    #[test]
    fn every_state_and_every_change_is_as_the_model_says(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play_embedded(steps));
    }
}

/// KAPI-STORE-01, KAPI-WATCH-01: a watch that is open while others write sees every change once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_watch_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(Embedded::open(&dir.path().join("s"), &Options::default()).unwrap());
    let mut watch = store.watch("/k/", 1).await.unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for count in 0..50 {
                    store.put(&format!("/k/{writer}"), Bytes::from(vec![count]), Expect::Any).await.unwrap();
                    store.put(&format!("/other/{writer}"), Bytes::new(), Expect::Any).await.unwrap();
                }
            })
        })
        .collect();
    let (mut last, mut count) = (1, 0);
    while count < 400 {
        let batch = tokio::time::timeout(Duration::from_secs(120), watch.next()).await.unwrap().unwrap();
        for event in batch.events {
            assert!(event.key().starts_with("/k/") && event.revision() > last);
            last = event.revision();
            count += 1;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let metrics = store.metrics().await.unwrap();
    assert_eq!((metrics.writes, metrics.keys), (800, 16));
    assert!(metrics.commits < 800, "writers that wait together share a commit");
    store.close().await;
    assert!(matches!(watch_end(&mut watch).await, Error::Closed));
    assert!(matches!(store.put("/k/1", Bytes::new(), Expect::Any).await, Err(Error::Closed)));
}

async fn watch_end(watch: &mut mainstay_store::Watch) -> Error {
    loop {
        if let Err(error) = watch.next().await {
            return error;
        }
    }
}

/// KAPI-STORE-02: a damaged file is reported, never read as if nothing were; a second process is refused.
#[tokio::test]
async fn damage_and_second_holders_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Embedded::open(&path, &Options::default()).unwrap();
    let value = Bytes::from(vec![b'x'; 3_000]);
    store.put("/key", value.clone(), Expect::Absent).await.unwrap();
    assert!(matches!(Embedded::open(&path, &Options::default()), Err(Error::Locked { holder: Some(id), .. }) if id == std::process::id()));
    store.close().await;
    drop(store);
    let segment = path.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(64).position(|window| window == [b'x'; 64]).unwrap();
    bytes[at + 5] = b'y';
    std::fs::write(&segment, &bytes).unwrap();
    let problem = Embedded::open(&path, &Options::default()).err().unwrap();
    assert!(matches!(problem, Error::Corrupt { .. }), "{problem:?}");
    std::fs::write(&segment, b"not a store").unwrap();
    let refused = Embedded::open(&path, &Options::default()).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
    let file = dir.path().join("store.redb");
    std::fs::write(&file, b"of an earlier version").unwrap();
    let refused = Embedded::open(&file, &Options::default()).err().unwrap();
    assert!(matches!(refused, Error::Foreign { .. }), "{refused:?}");
}
