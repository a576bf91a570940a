//! Choices that a seed repeats.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// A source of choices.
pub struct Dice(StdRng);

impl Dice {
    /// The same seed makes the same choices.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// One of several texts.
    pub fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// One of them; there must be one.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A number below a limit, 0 when the limit is.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { self.0.random_range(0..limit) }
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}
