//! Clock and chance, handed in so that decisions can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The one value through which clock and randomness come in.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    chance: Arc<AtomicU64>,
}

impl Env {
    /// The machine's clock, a fresh seed.
    pub fn system() -> Self {
        Self::new(System, rand::random())
    }

    /// A given clock and seed.
    pub fn new(clock: impl Clock, seed: u64) -> Self {
        Self { clock: Arc::new(clock), chance: Arc::new(AtomicU64::new(seed)) }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Now, as Kubernetes writes times: whole seconds.
    pub fn now_seconds(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// The next number of the random sequence (SplitMix64).
    pub fn random(&self) -> u64 {
        let state = self.chance.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A fraction in `0.0..1.0`.
    pub fn fraction(&self) -> f64 {
        (self.random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
