//! The engine over a disk whose power is cut, that is full, whose syncs fail, and whose bytes change.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::simulated::{Handle, Simulated};
use super::*;

fn small() -> Options {
    Options { segment_bytes: 4 << 10, garbage_bytes: 2 << 10, keep_revisions: 10, ..Options::default() }
}

fn open(disk: &Arc<Simulated>) -> Result<Embedded, Error> {
    Embedded::on(Arc::new(Handle(disk.clone())), &small())
}

/// What a key may be: the last acknowledged state, and what was tried after it without an answer.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Option<Bytes>,
    open: Vec<Option<Bytes>>,
    revision: Revision,
    /// Acknowledged states before that, since the start.
    passed: Vec<Option<Bytes>>,
}

impl Known {
    fn acknowledge(&mut self, state: Option<Bytes>, revision: Revision) {
        self.passed.push(std::mem::replace(&mut self.acknowledged, state));
        self.open.clear();
        self.revision = revision;
    }
}

type Everything = BTreeMap<String, Known>;

/// One writer of keys of its own: puts and deletes, noting what it tries before and what it knows after.
async fn write(store: Arc<Embedded>, known: Arc<Mutex<Everything>>, writer: usize, generation: u64, done: Arc<AtomicUsize>) {
    for number in 0_usize.. {
        let key = format!("/{writer}/{}", number % 5);
        let size = (number * 37 + writer * 101) % 900;
        let value = Bytes::from(format!("{generation}-{number}-{}", "v".repeat(size)));
        let next = (number % 7 != 6).then_some(value);
        known.lock().unwrap().entry(key.clone()).or_default().open.push(next.clone());
        let outcome = match next.clone() {
            Some(value) => store.put(&key, value, Expect::Any).await.map(|kv| kv.modified),
            None => store.delete(&key, Expect::Any).await.map(|(_, revision)| revision),
        };
        let mut known = known.lock().unwrap();
        let entry = known.entry(key).or_default();
        match outcome {
            Ok(revision) => entry.acknowledge(next, revision),
            Err(Error::Conflict { found: None, .. }) if next.is_none() => entry.acknowledge(None, entry.revision),
            Err(Error::Closed) => return,
            // The disk failed: it may or may not be there after the power was cut.
            Err(Error::Io { .. } | Error::Full { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
}

async fn check(store: &Embedded, known: &mut Everything, seed: u64) {
    let listing = store.list(Range { prefix: "/".into(), ..Range::default() }).await.unwrap();
    let found: BTreeMap<_, _> = listing.items.into_iter().map(|kv| (kv.key, kv.value)).collect();
    for (key, entry) in known.iter_mut() {
        let now = found.get(key).cloned();
        let allowed = now == entry.acknowledged || entry.open.contains(&now);
        assert!(allowed, "seed {seed}: {key} is {now:?}, and may be {entry:?}");
        assert!(listing.revision >= entry.revision, "seed {seed}: revision {} after {}", listing.revision, entry.revision);
        *entry = Known { acknowledged: now, revision: listing.revision, ..Known::default() };
    }
    assert!(found.keys().all(|key| known.contains_key(key)), "seed {seed}: keys that nobody wrote");
}

/// KAPI-STORE-02, KAPI-SRV-04: whatever instant the power is cut at, every acknowledged write is there, no other is half there,
/// revisions do not go back; also after syncs that failed, on a disk that was full, and while compaction runs.
#[test]
fn no_power_cut_loses_an_acknowledged_write() {
    let rounds = if std::env::var_os("MAINSTAY_SOAK").is_some() { 1_000 } else { 15 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in 1..=rounds {
        let mut disk = Simulated::new(seed);
        let mut known = Everything::new();
        for generation in 0..4 {
            let store = Arc::new(open(&disk).unwrap_or_else(|error| panic!("seed {seed}, generation {generation}: {error}")));
            known = runtime.block_on(async {
                check(&store, &mut known, seed).await;
                let (shared, done) = (Arc::new(Mutex::new(known)), Arc::new(AtomicUsize::new(0)));
                let tasks: Vec<_> =
                    (0..4).map(|writer| tokio::spawn(write(store.clone(), shared.clone(), writer, generation, done.clone()))).collect();
                let until = 20 + (seed as usize * 31 + generation as usize * 17) % 90;
                let mut events = 0;
                while done.load(Ordering::SeqCst) < until {
                    tokio::task::yield_now().await;
                    let at = done.load(Ordering::SeqCst);
                    if at / 16 > events {
                        events = at / 16;
                        match (seed + events as u64) % 5 {
                            0 => disk.fail_syncs(1),
                            1 => disk.set_full(!events.is_multiple_of(3)),
                            2 => disk.set_full(false),
                            3 => disk.fail_folder_syncs(1),
                            _ => {
                                let latest = *store.revision().borrow();
                                store.compact(latest.saturating_sub(3)).await.unwrap();
                            }
                        }
                    }
                }
                // What is known is looked at before the power is cut, so nothing counts that was acknowledged later; but what was
                // tried before the cut and acknowledged after it is among what may be there.
                let before = shared.lock().unwrap().clone();
                let cut = disk.cut(seed + generation);
                let after = shared.lock().unwrap().clone();
                disk.set_full(false);
                store.close().await;
                for task in tasks {
                    task.await.unwrap();
                }
                disk = cut;
                merge(&before, after)
            });
        }
    }
}

/// What may be there after an instant between the two: what was known before, or anything that was tried until after.
fn merge(before: &Everything, after: Everything) -> Everything {
    let mut merged = after;
    for (key, entry) in &mut merged {
        let old = before.get(key).cloned().unwrap_or_default();
        let mut open = old.open;
        open.push(entry.acknowledged.clone());
        open.append(&mut entry.open);
        // Between the two more than one state may have been acknowledged, and the cut fell behind any of them.
        open.extend(entry.passed.drain(old.passed.len()..));
        *entry = Known { acknowledged: old.acknowledged, open, revision: old.revision, passed: Vec::new() };
    }
    merged
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn everything(store: &Embedded) -> Vec<KeyValue> {
    store.list(Range { prefix: "/".into(), ..Range::default() }).await.unwrap().items
}

/// KAPI-STORE-02: a full disk fails writes and says so, reads go on, and writes work again when there is space, without a restart.
#[test]
fn a_full_disk_fails_writes_until_there_is_space() {
    run(async {
        let disk = Simulated::new(7);
        let store = open(&disk).unwrap();
        store.put("/a", Bytes::from_static(b"1"), Expect::Absent).await.unwrap();
        disk.set_full(true);
        for _ in 0..3 {
            let refused = store.put("/a", Bytes::from(vec![0; 9_000]), Expect::Any).await.unwrap_err();
            assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
            assert!(refused.to_string().contains("no space is left"), "{refused}");
        }
        assert_eq!(store.get("/a").await.unwrap().0.unwrap().value, "1");
        disk.set_full(false);
        let written = store.put("/a", Bytes::from_static(b"2"), Expect::Revision(2)).await.unwrap();
        assert_eq!(written.modified, 3);
        store.close().await;
        let disk = disk.cut(1);
        assert_eq!(open(&disk).unwrap().get("/a").await.unwrap().0.unwrap(), written);
    });
}

/// KAPI-STORE-02: after a failed sync nothing is acknowledged on pages in doubt, whatever of them got to the disk.
#[test]
fn a_failed_sync_puts_no_later_write_in_doubt() {
    for seed in 0..50 {
        run(async {
            let disk = Simulated::new(seed);
            let store = open(&disk).unwrap();
            store.put("/a", Bytes::from_static(b"1"), Expect::Absent).await.unwrap();
            disk.fail_syncs(1);
            let failed = store.put("/a", Bytes::from(vec![b'x'; 2_000]), Expect::Any).await.unwrap_err();
            assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
            assert_eq!(store.get("/a").await.unwrap().0.unwrap().value, "1", "what failed is not shown");
            let written = store.put("/b", Bytes::from_static(b"2"), Expect::Absent).await.unwrap();
            let cut = disk.cut(seed);
            store.close().await;
            let store = open(&cut).unwrap();
            assert_eq!(store.get("/b").await.unwrap().0.unwrap(), written);
            assert_eq!(store.get("/a").await.unwrap().0.unwrap().value, "1", "what failed does not come back under a later write");
        });
    }
}

/// KAPI-STORE-02: a segment whose name may or may not last, since the folder could not be synced, costs no acknowledged write: neither
/// one that would have fitted into the segment before it, nor one that goes into it after a restart.
#[test]
fn a_failed_sync_of_the_folder_costs_no_later_write() {
    for (seed, restarted) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
        run(async {
            let disk = Simulated::new(seed);
            let mut store = open(&disk).unwrap();
            store.put("/a", Bytes::from_static(b"1"), Expect::Absent).await.unwrap();
            disk.fail_folder_syncs(1);
            let failed = store.put("/a", Bytes::from(vec![b'x'; 5_000]), Expect::Any).await.unwrap_err();
            assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
            if restarted {
                drop(store);
                store = open(&disk).unwrap();
            }
            let written = store.put("/b", Bytes::from_static(b"2"), Expect::Absent).await.unwrap();
            assert_eq!(written.modified, 3, "what failed has no revision");
            let cut = disk.cut(seed);
            drop(store);
            for (disk, ended) in [(disk, "the process ended"), (cut, "the power was cut")] {
                let store = open(&disk).unwrap();
                assert_eq!(store.get("/b").await.unwrap().0.as_ref(), Some(&written), "seed {seed}, restarted: {restarted}, {ended}");
                assert_eq!(store.get("/a").await.unwrap().0.unwrap().value, "1");
            }
        });
    }
}

/// A store with some history, closed in order, on a disk of its own; what it holds.
fn filled() -> (Arc<Simulated>, Vec<KeyValue>) {
    static FILLED: LazyLock<(Arc<Simulated>, Vec<KeyValue>)> = LazyLock::new(|| {
        run(async {
            let disk = Simulated::new(3);
            let store = open(&disk).unwrap();
            for number in 0..60_usize {
                let value = Bytes::from(format!("{number}").repeat(40 + number % 11));
                store.put(&format!("/{}", number % 9), value, Expect::Any).await.unwrap();
                if number == 30 {
                    store.compact(25).await.unwrap();
                }
                if number % 13 == 12 {
                    store.delete(&format!("/{}", number % 9), Expect::Any).await.unwrap();
                }
            }
            let found = everything(&store).await;
            store.close().await;
            (disk, found)
        })
    });
    (FILLED.0.kill(), FILLED.1.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-STORE-02: a changed byte anywhere is reported, or changes nothing; it is never skipped over.
    #[test]
    fn damage_is_reported_and_never_skipped(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let (disk, wanted) = filled();
        let names = Handle(disk.clone()).names().unwrap();
        let name = &names[file.index(names.len())];
        disk.damage(name, |bytes| {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        });
        match open(&disk) {
            Ok(store) => prop_assert_eq!(run(everything(&store)), wanted),
            Err(Error::Corrupt { path, problem }) => {
                prop_assert!(path.ends_with(name), "{path:?} instead of {name}: {problem}");
            }
            Err(Error::Format { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    /// KAPI-STORE-02: a missing file is reported, unless nothing that lasts was in it.
    #[test]
    fn a_missing_file_is_reported(file in any::<prop::sample::Index>()) {
        let (disk, _) = filled();
        let handle = Handle(disk.clone());
        let names = handle.names().unwrap();
        let at = file.index(names.iter().filter(|name| file::numbered(name, ".log").is_some()).count());
        handle.remove(&names[at]).unwrap();
        let refused = open(&disk).err();
        prop_assert!(matches!(&refused, Some(Error::Corrupt { problem, .. }) if problem.contains("missing") || problem.contains("are lost")), "{refused:?}");
    }
}

/// KAPI-STORE-02: damage in the middle names file, offset and revision; a torn end is cut off, and the log goes on after it.
#[test]
fn damage_names_its_place_and_a_torn_end_is_cut() {
    run(async {
        let disk = Simulated::new(9);
        let store = open(&disk).unwrap();
        let mut earlier = Vec::new();
        for number in 0..4_u8 {
            earlier = disk.content(synced::NAME);
            store.put(&format!("/{number}"), Bytes::from(vec![b'a' + number; 300]), Expect::Absent).await.unwrap();
        }
        let name = file::segment_name(0);
        let whole = disk.kill();
        whole.damage(&name, |bytes| {
            let at = bytes.windows(50).position(|window| window == [b'c'; 50]).unwrap();
            bytes[at] ^= 1;
        });
        let text = open(&whole).err().unwrap().to_string();
        for part in ["0000.log is damaged", "revision 4 has a wrong checksum", "at offset", "after revision 3", "mainstay restore"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let tear = |disk: &Simulated| {
            disk.damage(&name, |bytes| {
                let at = bytes.windows(50).position(|window| window == [b'd'; 50]).unwrap();
                bytes[at + 100..].fill(0);
            });
        };
        let acknowledged = disk.kill();
        tear(&acknowledged);
        let text = open(&acknowledged).err().unwrap().to_string();
        for part in ["0000.log is damaged", "ends after revision 4", "up to revision 5 was on the disk", "remove simulated/synced"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let torn = disk.kill();
        tear(&torn);
        torn.damage(synced::NAME, |bytes| *bytes = earlier);
        let store = open(&torn).unwrap();
        assert_eq!(everything(&store).await.len(), 3);
        assert_eq!(store.put("/4", Bytes::new(), Expect::Absent).await.unwrap().modified, 5);
        drop(store);
        assert_eq!(everything(&open(&torn).unwrap()).await.len(), 4);
    });
}

/// What happens to the end of a log behind everybody's back.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// A bit of the last frame changes.
    Bit,
    /// Everything from there on is zeros.
    Zeros,
    /// The file is cut off there.
    Cut,
    /// The last segment is gone.
    Gone,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-STORE-02: the last writes that were acknowledged are not dropped as if nobody had been told of them, whatever becomes of the
    /// end of the log; neither when the process was killed, nor when the power was cut a moment after the last write.
    #[test]
    fn damage_of_what_was_acknowledged_last_is_refused(
        sizes in prop::collection::vec(0..1_500_usize, 1..12), power in any::<bool>(), seed in any::<u64>(),
        harm in prop::sample::select(vec![Harm::Bit, Harm::Zeros, Harm::Cut, Harm::Gone]), at in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        run(async {
            let disk = Simulated::new(seed);
            let store = open(&disk).unwrap();
            for (number, size) in sizes.iter().enumerate() {
                let value = [vec![b'v'; *size], format!("the value of {number}").into_bytes()].concat();
                store.put(&format!("/{}", number % 3), value.into(), Expect::Any).await.unwrap();
            }
            let wanted = everything(&store).await;
            if power {
                while !disk.is_synced(synced::NAME) {
                    std::thread::yield_now();
                }
            }
            let disk = if power { disk.cut(seed) } else { disk.kill() };
            let names = Handle(disk.clone()).names().unwrap();
            let name = names.iter().rfind(|name| file::numbered(name, ".log").is_some()).unwrap();
            let last = format!("the value of {}", sizes.len() - 1);
            let (harmed, begin) = (disk.content(name), sizes[sizes.len() - 1] + last.len() + crate::record::FRAME_HEAD + 30);
            let end = harmed.windows(last.len()).position(|window| window == last.as_bytes()).unwrap() + last.len();
            let at = end - begin + at.index(begin);
            match harm {
                Harm::Bit => disk.damage(name, |bytes| bytes[at] ^= 1 << bit),
                Harm::Zeros => disk.damage(name, |bytes| bytes[at..].fill(0)),
                Harm::Cut => disk.damage(name, |bytes| bytes.truncate(at)),
                Harm::Gone => Handle(disk.clone()).remove(name).unwrap(),
            }
            match open(&disk) {
                Ok(store) => assert_eq!(everything(&store).await, wanted),
                Err(Error::Corrupt { problem, .. }) => assert!(problem.contains("revision"), "{problem}"),
                Err(other) => panic!("{other}"),
            }
        });
    }

    /// KAPI-STORE-02: a note of what was synced that is damaged itself loses nothing and keeps nobody out, unless the log is damaged, too.
    #[test]
    fn a_damaged_note_of_what_was_synced(at in any::<prop::sample::Index>(), bit in 0..8u8, whole in any::<bool>()) {
        run(async {
            let disk = Simulated::new(17);
            let store = open(&disk).unwrap();
            for number in 0..3 {
                store.put(&format!("/{number}"), Bytes::from_static(b"value"), Expect::Absent).await.unwrap();
            }
            let disk = disk.kill();
            disk.damage(synced::NAME, |bytes| if whole { bytes.fill(7) } else { let at = at.index(bytes.len()); bytes[at] ^= 1 << bit });
            let torn = disk.kill();
            assert_eq!(everything(&open(&disk).unwrap()).await.len(), 3);
            torn.damage(&file::segment_name(0), |bytes| {
                let at = bytes.windows(5).rposition(|window| window == b"value").unwrap();
                bytes[at] ^= 1;
            });
            if whole {
                let text = open(&torn).err().unwrap().to_string();
                assert!(text.contains("whether something is lost cannot be known"), "{text}");
            }
        });
    }
}

/// KAPI-STORE-02: what a process wrote and could not sync is shown by the next one only once it lasts.
#[test]
fn what_is_read_after_a_failed_sync_lasts() {
    for seed in 0..40 {
        run(async {
            let disk = Simulated::new(seed);
            let store = open(&disk).unwrap();
            store.put("/a", Bytes::from_static(b"1"), Expect::Absent).await.unwrap();
            disk.fail_syncs(1);
            store.put("/a", Bytes::from_static(b"2"), Expect::Any).await.unwrap_err();
            let killed = disk.kill();
            let shown = everything(&open(&killed).unwrap()).await;
            let cut = killed.cut(seed);
            assert_eq!(everything(&open(&cut).unwrap()).await, shown, "seed {seed}");
        });
    }
}

/// KAPI-SRV-03: a store says that it takes no writes once one has failed, and that it does again without waiting for another.
#[test]
fn it_is_known_whether_writes_succeed() {
    run(async {
        let disk = Simulated::new(5);
        let store = open(&disk).unwrap();
        store.writable().await.unwrap();
        disk.set_full(true);
        assert!(matches!(store.put("/a", Bytes::from(vec![0; 9_000]), Expect::Any).await, Err(Error::Full { .. })));
        assert!(matches!(store.writable().await, Err(Error::Full { .. })));
        store.shared.set_health_age(REFUTED);
        assert!(matches!(store.writable().await, Err(Error::Full { .. })), "it was tried, and failed");
        disk.set_full(false);
        store.shared.set_health_age(REFUTED);
        store.writable().await.unwrap();
        disk.fail_syncs(1);
        store.writable().await.unwrap();
        store.shared.set_health_age(PROVEN);
        assert!(matches!(store.writable().await, Err(Error::Io { .. })), "nobody wrote, and the disk was asked");
        store.put("/a", Bytes::new(), Expect::Any).await.unwrap();
        store.writable().await.unwrap();
    });
}

/// KAPI-STORE-01: overwritten history is given back to the disk, while reads at retained revisions and writes go on.
#[test]
fn files_shrink_when_history_is_forgotten() {
    run(async {
        let disk = Simulated::new(11);
        let store = Arc::new(open(&disk).unwrap());
        let mut most = 0;
        for round in 0..200_u64 {
            for key in 0..4 {
                store.put(&format!("/{key}"), Bytes::from(vec![round as u8; 500]), Expect::Any).await.unwrap();
            }
            let latest = *store.revision().borrow();
            store.compact(latest.saturating_sub(8)).await.unwrap();
            let past = Range { prefix: "/".into(), revision: Some(latest - 3), ..Range::default() };
            let listing = store.list(past).await.unwrap();
            let expected: Vec<_> = (0..4).map(|key| if key == 0 { round } else { round.saturating_sub(1) } as u8).collect();
            let found: Vec<_> = listing.items.iter().map(|kv| kv.value[0]).collect();
            assert_eq!(found, if round == 0 { vec![0] } else { expected });
            most = most.max(store.metrics().await.unwrap().bytes);
        }
        assert!(most < 40 << 10, "400 KiB were written, 2 KiB are live, and the files took {most} bytes");
        let before = everything(&store).await;
        store.close().await;
        let disk = disk.cut(5);
        assert_eq!(everything(&open(&disk).unwrap()).await, before);
    });
}

/// KAPI-WATCH-01: a watch from the past hands out large changes in pieces, and all of them.
#[test]
fn history_comes_in_pieces() {
    run(async {
        let disk = Simulated::new(13);
        let store = open(&disk).unwrap();
        for number in 0..10_u8 {
            store.put("/a", Bytes::from(vec![number; 400 << 10]), Expect::Any).await.unwrap();
        }
        let latest = *store.revision().borrow();
        let (mut watch, mut seen, mut told) = (store.watch("/", 1).await.unwrap(), 1, Vec::new());
        while seen < latest {
            let batch = watch.next().await.unwrap();
            assert!(batch.events.len() <= 3, "{} changes of 400 KiB at once", batch.events.len());
            assert_eq!(batch.events.last().map(|event| event.revision()), Some(batch.revision));
            told.extend(batch.events.iter().map(|event| event.revision()));
            seen = batch.revision;
        }
        assert_eq!(told, (2..=latest).collect::<Vec<_>>());
    });
}
