//! The store against a slow, obvious model: every state that ever was, kept whole.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mainstay_store::{Embedded, Error, Event, Expect, Options, Range, Store};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    PutIfCurrent(u8, u8),
    PutIfAbsent(u8, u8),
    Delete(u8),
    Compact(u8),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::PutIfCurrent(key, value)),
        2 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::PutIfAbsent(key, value)),
        3 => (0..6u8).prop_map(Step::Delete),
        1 => (0..20u8).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

type State = BTreeMap<String, (Bytes, u64)>;

fn key(number: u8) -> String {
    format!("/{}/{number}", if number < 3 { "a" } else { "b" })
}

fn state(listing: &mainstay_store::Listing) -> State {
    listing.items.iter().map(|kv| (kv.key.clone(), (kv.value.clone(), kv.modified))).collect()
}

fn below(state: &State, prefix: &str) -> State {
    state.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

async fn play(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let options = Options { cache_bytes: 1 << 20, ..Options::default() };
    let mut store = Embedded::open(&path, &options).unwrap();
    let mut states = vec![State::new(), State::new()];
    let mut compacted = 0;
    for step in steps {
        let mut now = states.last().unwrap().clone();
        let next = states.len() as u64;
        let (number, result, wanted) = match step {
            Step::Put(number, value) => (number, store.put(&key(number), Bytes::from(vec![value]), Expect::Any).await, Some(value)),
            Step::PutIfAbsent(number, value) => (
                number,
                store.put(&key(number), Bytes::from(vec![value]), Expect::Absent).await,
                (!now.contains_key(&key(number))).then_some(value),
            ),
            Step::PutIfCurrent(number, value) => {
                let revision = now.get(&key(number)).map_or(1, |(_, revision)| *revision);
                let result = store.put(&key(number), Bytes::from(vec![value]), Expect::Revision(revision)).await;
                (number, result, now.contains_key(&key(number)).then_some(value))
            }
            Step::Delete(number) => {
                let result = store.delete(&key(number), Expect::Any).await;
                assert_eq!(result.is_ok(), now.remove(&key(number)).is_some());
                if let Ok((_, revision)) = result {
                    assert_eq!(revision, next);
                    states.push(now);
                }
                continue;
            }
            Step::Compact(back) => {
                let upto = (next - 1).saturating_sub(back.into());
                store.compact(upto).await.unwrap();
                compacted = compacted.max(upto);
                continue;
            }
            Step::Reopen => {
                store.close().await;
                drop(store);
                store = Embedded::open(&path, &options).unwrap();
                continue;
            }
        };
        match (result, wanted) {
            (Ok(kv), Some(value)) => {
                assert_eq!(kv.modified, next);
                now.insert(key(number), (Bytes::from(vec![value]), next));
                states.push(now);
            }
            (Err(Error::Conflict { found, .. }), None) => assert_eq!(found.map(|kv| kv.modified), now.get(&key(number)).map(|(_, at)| *at)),
            (result, wanted) => panic!("{result:?} where {wanted:?} was expected"),
        }
    }
    check_lists(&store, &states, compacted).await;
    check_watches(&store, &states, compacted).await;
}

async fn check_lists(store: &Embedded, states: &[State], compacted: u64) {
    for revision in 1..states.len() as u64 {
        for prefix in ["/", "/a/", "/b/"] {
            let range = Range { prefix: prefix.into(), revision: Some(revision), ..Range::default() };
            match store.list(range).await {
                Ok(listing) => assert_eq!(state(&listing), below(&states[revision as usize], prefix), "revision {revision}"),
                Err(Error::Compacted { .. }) => assert!(revision < compacted),
                Err(other) => panic!("{other}"),
            }
        }
    }
    // Pages of two make the same list.
    let (mut pages, mut after, latest) = (State::new(), None, states.len() as u64 - 1);
    loop {
        let range = Range { prefix: "/".into(), after, limit: 2, revision: Some(latest) };
        let page = store.list(range).await.unwrap();
        pages.extend(state(&page));
        after = page.items.last().map(|kv| kv.key.clone());
        if page.remaining == 0 {
            break;
        }
    }
    assert_eq!(&pages, states.last().unwrap());
}

async fn check_watches(store: &Embedded, states: &[State], compacted: u64) {
    let latest = states.len() as u64 - 1;
    for from in 1..latest {
        let mut watch = match store.watch("/a/", from).await {
            Ok(watch) => watch,
            Err(Error::Compacted { .. }) => {
                assert!(from < compacted);
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let (mut seen, mut now) = (from, below(&states[from as usize], "/a/"));
        while seen < latest {
            let batch = watch.next().await.unwrap();
            for event in &batch.events {
                assert!(event.revision() > seen, "events come in order and once");
                seen = event.revision();
                match &**event {
                    Event::Put { now: kv, before } => {
                        let old = now.insert(kv.key.clone(), (kv.value.clone(), kv.modified));
                        assert_eq!(before.as_ref().map(|kv| kv.modified), old.map(|(_, at)| at));
                    }
                    Event::Delete { before, .. } => assert_eq!(now.remove(&before.key).unwrap().1, before.modified),
                }
                assert_eq!(now, below(&states[seen as usize], "/a/"));
            }
            seen = batch.revision;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-STORE-01: one revision counter, history at every retained revision, compare-and-set, compaction.
    #[test]
    fn every_state_and_every_change_is_as_the_model_says(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(steps));
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
        let batch = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap().unwrap();
        for event in batch.events {
            assert!(event.key().starts_with("/k/") && event.revision() > last);
            last = event.revision();
            count += 1;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let figures = store.figures().await.unwrap();
    assert_eq!((figures.writes, figures.keys), (800, 16));
    assert!(figures.commits < 800, "writers that wait together share a commit");
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
    let path = dir.path().join("store.redb");
    let store = Embedded::open(&path, &Options::default()).unwrap();
    let value = Bytes::from(vec![b'x'; 3_000]);
    store.put("/key", value.clone(), Expect::Absent).await.unwrap();
    assert!(matches!(Embedded::open(&path, &Options::default()), Err(Error::Locked { .. })));
    store.close().await;
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(64).position(|window| window == [b'x'; 64]).unwrap();
    bytes[at + 5] = b'y';
    std::fs::write(&path, &bytes).unwrap();
    let problem = match Embedded::open(&path, &Options::default()) {
        Ok(store) => store.get("/key").await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(problem, Error::Corrupt { .. }), "{problem:?}");
    std::fs::write(&path, b"not a store").unwrap();
    let refused = Embedded::open(&path, &Options::default()).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
}
