//! Whatever happens on the way between the controllers and the API, at any moment of an install, an upgrade and a removal: what is left is
//! what an undisturbed run leaves. `RUST_LOG=crashes=info` tells which schedule runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod process;
mod story;
mod wire;
mod world;

use mainstay_runtime::Env;
use process::Clocks;
use story::{Stage, Tale};
use wire::{Answer, Fault};
use world::{Left, Schedule, World};

const UNDISTURBED: Schedule =
    Schedule { seed: 0, install: Fault::None, upgrade: Fault::None, removal: Fault::None, stays: false, clocks: [Clocks::RIGHT; 2] };

/// How many writes the largest change has, and some to spare.
const WRITES: usize = 22;

/// How many writes a removal has from which everything stays: each object, the finalizers, an Event, and some to spare.
const RELEASE_WRITES: usize = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// A schedule from its seed alone.
fn schedule(seed: u64) -> Schedule {
    let chance = Env::new(Still, seed);
    let below = |limit: usize| usize::try_from(chance.random() % limit as u64).unwrap();
    let skew = || [0, 0, 0, 86_400, -86_400, 5][below(6)];
    let clocks = || Clocks { off: skew(), jump: (below(40), skew()) };
    let fault = |writes: usize| fault(&below, writes);
    Schedule { seed, install: fault(WRITES), upgrade: fault(WRITES), removal: fault(3), stays: false, clocks: [clocks(), clocks()] }
}

/// A tale from its seed alone.
fn tale(seed: u64) -> Tale {
    let chance = Env::new(Still, seed);
    let below = |limit: usize| usize::try_from(chance.random() % limit as u64).unwrap();
    let skew = || [0, 0, 0, 86_400, -86_400, 5][below(6)];
    let clocks = || Clocks { off: skew(), jump: (below(40), skew()) };
    Tale { seed, faults: std::array::from_fn(|_| fault(&below, 30)), clocks: [clocks(), clocks()] }
}

/// A fault by chance, at one of so many writes.
fn fault(below: &dyn Fn(usize) -> usize, writes: usize) -> Fault {
    let answer = || Answer::ALL[below(Answer::ALL.len())];
    match below(18) {
        0..=3 => Fault::KilledBefore(below(writes)),
        4..=6 => Fault::KilledAfter(below(writes)),
        7..=9 => Fault::Writes { at: below(writes), count: 1 + below(3), answer: answer() },
        10..=12 => Fault::Reads { at: below(40), count: 1 + below(3), answer: answer() },
        13 => Fault::Watches { count: below(60), pieces: below(4) },
        14 => Fault::Silence { count: below(30), pieces: below(4) },
        15..=16 => Fault::Replaced { at: below(writes) },
        _ => Fault::None,
    }
}

struct Still;

impl mainstay_runtime::Clock for Still {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
}

fn assert_same(found: &[Left; 3], wanted: &[Left; 3], schedule: &Schedule) {
    for ((found, wanted), stage) in found.iter().zip(wanted).zip(["install", "upgrade", "removal"]) {
        let again = format!("{schedule:?}, after {stage}");
        assert_eq!(found.extension, wanted.extension, "{again}");
        let numbers =
            |left: &Left| left.records.iter().map(|record| format!("{} {}", record["version"], record["state"])).collect::<Vec<_>>();
        assert_eq!(numbers(found), numbers(wanted), "{again}");
        assert_eq!(found.records, wanted.records, "{again}");
        let places = |left: &Left| {
            left.objects.iter().map(|object| format!("{} {}", object["kind"], object["metadata"]["name"])).collect::<Vec<_>>()
        };
        assert_eq!(places(found), places(wanted), "{again}");
        assert_eq!(found.objects, wanted.objects, "{again}");
    }
}

/// Names the schedule that a panic ends, wherever it happens.
struct Told(String, u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}; again with: SEED={} SCHEDULES=1", self.0, self.1);
        }
    }
}

/// Runs something in a few clusters at a time, each on its own thread.
fn run_in_clusters(one: impl AsyncFn(&std::sync::atomic::AtomicUsize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLUSTERS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
                runtime.block_on(one(&next));
            });
        }
    });
}

/// The next of many things to do.
fn taken<'a, T>(all: &'a [T], next: &std::sync::atomic::AtomicUsize) -> Option<&'a T> {
    all.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
}

fn run(schedules: &[Schedule]) {
    run_like(&UNDISTURBED, schedules);
}

/// Runs schedules that leave what this one leaves.
fn run_like(undisturbed: &Schedule, schedules: &[Schedule]) {
    run_in_clusters(async |next| {
        let world = World::start().await;
        let wanted = world.run(undisturbed).await;
        if undisturbed.stays {
            let owned = |object: &serde_json::Value| object["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
            assert!(wanted[1].objects.iter().all(owned) && !wanted[2].objects.iter().any(owned), "{wanted:?}");
            assert_eq!(wanted[1].objects.len(), wanted[2].objects.len());
        }
        while let Some(schedule) = taken(schedules, next) {
            tracing::info!(?schedule, "begins");
            let _told = Told(format!("{schedule:?}"), schedule.seed);
            let found = world.run(schedule).await;
            tracing::info!(seed = schedule.seed, "ended");
            assert_same(&found, &wanted, schedule);
        }
        world.end().await;
    });
}

fn tell(tales: &[Tale]) {
    run_in_clusters(async |next| {
        let stage = Stage::start().await;
        while let Some(tale) = taken(tales, next) {
            tracing::info!(?tale, "begins");
            let _told = Told(format!("{tale:?}"), tale.seed);
            stage.tell(tale).await;
            tracing::info!(seed = tale.seed, "ended");
        }
        stage.end().await;
    });
}

/// Clusters at a time.
const CLUSTERS: usize = 2;
/// Schedules of a run that asks for no number.
const FEW: u64 = 40;
/// Schedules of a run that is to be long (`make soak`).
const MANY: u64 = 3_000;

/// The seeds of this run: `SCHEDULES=N` runs N, `SEED=S` begins elsewhere. A tale is as long as some schedules.
fn seeds(share: u64) -> std::ops::Range<u64> {
    let usual = if number("MAINSTAY_SOAK").is_some() { MANY } else { FEW };
    let (first, count) = (number("SEED").unwrap_or(1), number("SCHEDULES").unwrap_or(usual / share));
    first..first.saturating_add(count)
}

/// MS-OPS-03, OLM1-CTRL-09, OLM1-CTRL-11, OLM1-INST-14: the process ends before and after every single write of an install, an upgrade and
/// a removal; the next one finishes it.
#[test]
fn a_kill_at_every_write_is_mended() {
    let kills = |at: usize| {
        let seed = at as u64;
        [
            Schedule {
                seed,
                install: Fault::KilledBefore(at),
                upgrade: Fault::KilledBefore(at),
                removal: Fault::KilledBefore(at),
                ..UNDISTURBED
            },
            Schedule {
                seed,
                install: Fault::KilledAfter(at),
                upgrade: Fault::KilledAfter(at),
                removal: Fault::KilledAfter(at),
                ..UNDISTURBED
            },
        ]
    };
    run(&(0..WRITES).flat_map(kills).collect::<Vec<_>>());
}

/// MS-OPS-03, OLM1-INST-15: the process ends before and after every single write of a removal from which everything stays; nothing has an
/// owner afterwards, and nothing is missing.
#[test]
fn a_kill_at_every_write_of_a_release_is_mended() {
    let released = |removal: Fault, at: usize| Schedule { seed: at as u64, removal, stays: true, ..UNDISTURBED };
    let kills = |at: usize| [released(Fault::KilledBefore(at), at), released(Fault::KilledAfter(at), at)];
    run_like(&released(Fault::None, 0), &(0..RELEASE_WRITES).flat_map(kills).collect::<Vec<_>>());
}

/// MS-OPS-03, OLM1-CTRL-11: a leader is replaced in the middle of an installation, and another version is wanted and installed before its
/// writes arrive: nothing of the first version stays, neither as a record that counts nor as an object that the other does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_writes_of_another_version_are_mended() {
    let world = World::start().await;
    let [_, wanted, _] = world.run(&UNDISTURBED).await;
    for at in (4..WRITES).step_by(3) {
        let found = world.overtaken(at).await;
        assert_eq!(found.extension, wanted.extension, "replaced at write {at}");
        assert_eq!(found.objects, wanted.objects, "replaced at write {at}");
    }
    world.end().await;
}

/// MS-OPS-03, OLM1-CTRL-09, OLM1-CTRL-11, OLM1-INST-14: random schedules of conflicts, throttling, errors, time-outs, cut connections,
/// requests and answers that go silent, lost and silent watches, kills, clocks that are wrong and that are set, and leaders that are replaced
/// and whose writes arrive late. What is left is always what an undisturbed run leaves: objects, records and status. `SCHEDULES=N` runs N
/// instead of 40, `SEED=S` begins elsewhere.
#[test]
fn random_faults_leave_what_an_undisturbed_run_leaves() {
    let seeds = seeds(1);
    run(&seeds.clone().map(schedule).collect::<Vec<_>>());
    eprintln!("{} schedules from seed {}", seeds.end - seeds.start, seeds.start);
}

/// MS-OPS-03, MS-POL-01, MS-RB-01, OLM1-CAT-04, OLM1-CRD-01, OLM1-INST-15: the same faults while a change waits for its approval and gets it,
/// while two extensions that need each other are upgraded together with a CRD that has objects, while an unhealthy upgrade is rolled back,
/// while what others need is removed, and while the catalog comes, changes, and goes. Every chapter comes to its end, and after it one
/// revision of each extension counts, none is half done, and its objects are there and no others.
#[test]
fn random_faults_do_not_stop_the_story() {
    let seeds = seeds(8);
    tell(&seeds.clone().map(tale).collect::<Vec<_>>());
    eprintln!("{} tales from seed {}", seeds.end - seeds.start, seeds.start);
}
