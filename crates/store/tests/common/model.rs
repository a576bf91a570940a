//! One suite for every engine: random steps against a slow, obvious model (every state that ever was, kept whole), and writers and
//! watchers at the same time.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mainstay_store::{Error, Event, Expect, Range, Revision, Store, Watch};
use proptest::prelude::*;

/// An engine under test.
#[async_trait]
pub trait Engine {
    /// Opens the same data again each time.
    async fn open(&self) -> Arc<dyn Store>;
}

#[derive(Clone, Debug)]
pub enum Step {
    Put(u8, u8),
    PutIfCurrent(u8, u8),
    PutIfAbsent(u8, u8),
    Delete(u8),
    Compact(u8),
    Reopen,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
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

/// Every state since the engine was opened first; the first one is that at `base`.
struct Model {
    base: Revision,
    states: Vec<State>,
    compacted: Revision,
}

impl Model {
    fn latest(&self) -> Revision {
        self.base + self.states.len() as u64 - 1
    }

    fn at(&self, revision: Revision) -> &State {
        &self.states[usize::try_from(revision - self.base).unwrap()]
    }

    fn now(&self) -> State {
        self.states.last().unwrap().clone()
    }
}

fn key(number: u8) -> String {
    format!("/{}/{number}", if number < 3 { "a" } else { "b" })
}

fn state(listing: &mainstay_store::Listing) -> State {
    listing.items.iter().map(|kv| (kv.key.clone(), (kv.value.clone(), kv.modified))).collect()
}

fn below(state: &State, prefix: &str) -> State {
    state.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Plays steps on an engine that holds nothing, and compares all that can be seen with the model.
pub async fn play(engine: &impl Engine, steps: Vec<Step>) {
    let mut store = engine.open().await;
    let mut model = Model { base: store.latest().await.unwrap(), states: vec![State::new()], compacted: 0 };
    for step in steps {
        let mut now = model.now();
        let next = model.latest() + 1;
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
                    model.states.push(now);
                }
                continue;
            }
            Step::Compact(back) => {
                let upto = model.latest().saturating_sub(back.into()).max(model.base);
                store.compact(upto).await.unwrap();
                model.compacted = model.compacted.max(upto);
                continue;
            }
            Step::Reopen => {
                store.close().await;
                drop(store);
                store = engine.open().await;
                continue;
            }
        };
        match (result, wanted) {
            (Ok(kv), Some(value)) => {
                assert_eq!(kv.modified, next);
                now.insert(key(number), (Bytes::from(vec![value]), next));
                model.states.push(now);
            }
            (Err(Error::Conflict { found, .. }), None) => assert_eq!(found.map(|kv| kv.modified), now.get(&key(number)).map(|(_, at)| *at)),
            (result, wanted) => panic!("{result:?} where {wanted:?} was expected"),
        }
    }
    check_reads(&*store, &model).await;
    check_watches(&*store, &model).await;
    store.close().await;
}

async fn check_reads(store: &dyn Store, model: &Model) {
    for revision in model.base..=model.latest() {
        for prefix in ["/", "/a/", "/b/"] {
            let range = Range { prefix: prefix.into(), revision: Some(revision), ..Range::default() };
            match store.list(range).await {
                Ok(listing) => assert_eq!(state(&listing), below(model.at(revision), prefix), "revision {revision}"),
                Err(Error::Compacted { .. }) => assert!(revision < model.compacted),
                Err(other) => panic!("{other}"),
            }
        }
    }
    let future = Range { prefix: "/".into(), revision: Some(model.latest() + 1), ..Range::default() };
    assert!(matches!(store.list(future).await, Err(Error::Future { .. })));
    for number in 0..6 {
        let (found, revision) = store.get(&key(number)).await.unwrap();
        assert_eq!(found.map(|kv| (kv.value, kv.modified)), model.now().get(&key(number)).cloned());
        assert_eq!(revision, model.latest());
    }
    // Pages of two make the same list.
    let (mut pages, mut after) = (State::new(), None);
    loop {
        let range = Range { prefix: "/".into(), after, limit: 2, revision: Some(model.latest()) };
        let page = store.list(range).await.unwrap();
        pages.extend(state(&page));
        after = page.items.last().map(|kv| kv.key.clone());
        if page.remaining == 0 {
            break;
        }
    }
    assert_eq!(pages, model.now());
}

async fn check_watches(store: &dyn Store, model: &Model) {
    assert!(matches!(store.watch("/a/", model.latest() + 1).await.err(), Some(Error::Future { .. })));
    // The last change that a watch of this prefix tells; an engine need not tell of revisions that hold nothing of it.
    let last = (model.base + 1..=model.latest()).rev().find(|at| below(model.at(*at), "/a/") != below(model.at(at - 1), "/a/"));
    for from in model.base.max(1)..model.latest() {
        let mut watch = match store.watch("/a/", from).await {
            Ok(watch) => watch,
            Err(Error::Compacted { .. }) => {
                assert!(from < model.compacted);
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let (mut seen, mut now) = (from, below(model.at(from), "/a/"));
        while last.is_some_and(|last| seen < last) {
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
                assert_eq!(now, below(model.at(seen), "/a/"));
            }
            seen = batch.revision;
        }
    }
}

/// Writers of two stores (or of one, twice) and watches of both: every change comes once, in the same order everywhere.
pub async fn watch_while_others_write(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let begin = one.latest().await.unwrap();
    let watches = [one.watch("/k/", begin).await.unwrap(), other.watch("/k/", begin).await.unwrap()];
    let watches: Vec<_> = watches.into_iter().map(|watch| tokio::spawn(collect(watch, begin, 400))).collect();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = if writer % 2 == 0 { one.clone() } else { other.clone() };
            tokio::spawn(async move {
                for count in 0..50 {
                    store.put(&format!("/k/{writer}"), Bytes::from(vec![count]), Expect::Any).await.unwrap();
                    store.put(&format!("/other/{writer}"), Bytes::new(), Expect::Any).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut seen = Vec::new();
    for watch in watches {
        seen.push(watch.await.unwrap());
    }
    assert_eq!(seen[0], seen[1], "all watches see the same order");
}

/// The next changes, as key and revision.
pub async fn collect(mut watch: Watch, begin: Revision, count: usize) -> Vec<(String, Revision)> {
    let (mut last, mut seen) = (begin, Vec::new());
    while seen.len() < count {
        let batch = tokio::time::timeout(Duration::from_secs(120), watch.next()).await.expect("changes come").unwrap();
        for event in batch.events {
            assert!(event.revision() > last, "events come in order and once");
            last = event.revision();
            seen.push((event.key().to_owned(), last));
        }
    }
    seen
}
