//! Faults on the way between the two operators and the API, at any moment of an install, an update and a removal: what is left is
//! what an undisturbed run leaves. `RUST_LOG=olm_classic=info` tells which schedule runs.
#![allow(clippy::print_stderr)]

#[path = "../../../olm-v1/tests/crashes/wire.rs"]
mod wire;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_runtime::Env;
use wire::{Answer, Fault};
use world::{Schedule, World};

const UNDISTURBED: Schedule = Schedule { seed: 0, install: Fault::None, upgrade: Fault::None, removal: Fault::None };

/// The writes of the largest change, and some to spare.
const WRITES: usize = 70;
/// The writes of a removal, and some to spare.
const REMOVAL_WRITES: usize = 12;
/// The steps between the writes at which a process is killed in a run that is not to be long.
const STRIDE: usize = 24;
/// Schedules of a run that asks for no number.
const FEW: u64 = 4;
/// Schedules of a run that is to be long (`make soak`).
const MANY: u64 = 400;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

struct Still;

impl mainstay_runtime::Clock for Still {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
}

/// A schedule from its seed alone.
fn schedule(seed: u64) -> Schedule {
    let chance = Env::new(Still, seed);
    let below = |limit: usize| usize::try_from(chance.random() % limit as u64).unwrap();
    let answer = || Answer::ALL[below(Answer::ALL.len())];
    let fault = |writes: usize| match below(18) {
        0..=3 => Fault::KilledBefore(below(writes)),
        4..=6 => Fault::KilledAfter(below(writes)),
        7..=10 => Fault::Writes { at: below(writes), count: 1 + below(3), answer: answer() },
        11..=13 => Fault::Reads { at: below(40), count: 1 + below(3), answer: answer() },
        14 => Fault::Watches { count: below(60), pieces: below(4) },
        15 => Fault::Silence { count: below(30), pieces: below(4) },
        16 => Fault::Replaced { at: below(writes) },
        _ => Fault::None,
    };
    Schedule { seed, install: fault(WRITES), upgrade: fault(WRITES), removal: fault(REMOVAL_WRITES) }
}

/// Names the schedule that a panic ends, wherever it happens.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Runs schedules in a few clusters at a time; mostly they wait.
async fn run(schedules: &[Schedule]) {
    let next = AtomicUsize::new(0);
    let one = async || {
        let world = World::start().await;
        let wanted = world.run(&UNDISTURBED, None).await;
        while let Some(schedule) = schedules.get(next.fetch_add(1, Ordering::SeqCst)) {
            tracing::info!(?schedule, "begins");
            let _told = Told(format!("{schedule:?}; again with: SEED={} SCHEDULES=1", schedule.seed));
            world.run(schedule, Some(&wanted)).await;
        }
        world.end().await;
    };
    let all = Box::pin(async { tokio::join!(one(), one(), one()) });
    all.await;
}

/// MS-OPS-03: the process ends before and after a write of an install, an update and a removal; the next one finishes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_a_write_is_mended() {
    let stride = if number("MAINSTAY_SOAK").is_some() { 1 } else { STRIDE };
    let kills = |at: usize| {
        let (seed, later) = (at as u64, at * REMOVAL_WRITES / WRITES);
        [
            Schedule { seed, install: Fault::KilledBefore(at), upgrade: Fault::KilledAfter(at), removal: Fault::KilledBefore(later) },
            Schedule { seed, install: Fault::KilledAfter(at), upgrade: Fault::KilledBefore(at), removal: Fault::KilledAfter(later) },
        ]
    };
    Box::pin(run(&(0..WRITES).step_by(stride).flat_map(kills).collect::<Vec<_>>())).await;
}

/// MS-OPS-03: random schedules of conflicts, throttling, errors, time-outs, cut connections, requests and answers that go silent, lost and
/// silent watches, kills, and leaders that are replaced and whose writes arrive late. `SCHEDULES=N` runs N, `SEED=S` begins elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn random_faults_leave_what_an_undisturbed_run_leaves() {
    let usual = if number("MAINSTAY_SOAK").is_some() { MANY } else { FEW };
    let (first, count) = (number("SEED").unwrap_or(1), number("SCHEDULES").unwrap_or(usual));
    Box::pin(run(&(first..first.saturating_add(count)).map(schedule).collect::<Vec<_>>())).await;
    eprintln!("{count} schedules from seed {first}");
}
