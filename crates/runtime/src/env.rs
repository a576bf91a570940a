//! Clock and randomness, injected so that decisions can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::metrics::Metrics;

/// A source of the time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The one source of time and randomness, and the destination of metrics.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    chance: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl Env {
    /// Creates an environment with the system clock and a fresh seed.
    pub fn system() -> Self {
        Self::new(System, rand::random())
    }

    /// Creates an environment with a given clock and seed.
    pub fn new(clock: impl Clock, seed: u64) -> Self {
        Self { clock: Arc::new(clock), chance: Arc::new(AtomicU64::new(seed)), metrics: Arc::default() }
    }

    /// Returns the metrics of everything that runs with this value or a clone of it (MS-OPS-01).
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the current time as Kubernetes writes it: in whole seconds.
    pub fn now_seconds(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Returns the next number of the random sequence (SplitMix64).
    pub fn random(&self) -> u64 {
        let state = self.chance.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random fraction in `0.0..1.0`.
    pub fn fraction(&self) -> f64 {
        (self.random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A clock that stands still until it is advanced, for tests and rehearsals. Clones share it.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Creates a clock that shows `start`, in whole milliseconds.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_millisecond())))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}

struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_clock_repeat_everything() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (one, two) = (Env::new(clock.clone(), 7), Env::new(clock.clone(), 7));
        assert_eq!((one.random(), one.random()), (two.random(), two.random()));
        assert!((0.0..1.0).contains(&one.fraction()));
        clock.advance(Duration::from_millis(61_500));
        assert_eq!(one.now().to_string(), "1970-01-01T00:01:01.5Z");
        assert_eq!(two.now_seconds().to_string(), "1970-01-01T00:01:01Z");
    }
}
