//! The least and the most of something: a cost, or a size. Sums and products stop at the greatest number.

/// An interval of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(crate) fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    pub(crate) fn exactly(number: u64) -> Self {
        Self::new(number, number)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self::new(self.min.saturating_add(other.min), self.max.saturating_add(other.max))
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self::new(self.min.saturating_mul(other.min), self.max.saturating_mul(other.max))
    }

    /// Each end times a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self::new(scaled(self.min, factor), scaled(self.max, factor))
    }

    /// The smallest interval around both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self::new(self.min.min(other.min), self.max.max(other.max))
    }
}

/// A number times a factor, rounded up.
pub(crate) fn scaled(number: u64, factor: f64) -> u64 {
    // The conversion stops at the greatest number.
    (number as f64 * factor).ceil() as u64
}
