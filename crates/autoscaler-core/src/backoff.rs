//! Sets whose machines did not become nodes are left out for a time.

use jiff::{SignedDuration, Timestamp};

/// The first time out.
const FIRST: SignedDuration = SignedDuration::from_mins(5);
/// The longest.
const LONGEST: SignedDuration = SignedDuration::from_mins(30);
/// The time after which failures are forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(3);

/// The time out of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Its end.
    pub until: Timestamp,
    length: SignedDuration,
}

impl Backoff {
    /// Returns the time out after another failure: twice as long as the last, unless that is long ago.
    pub fn after(last: Option<Self>, now: Timestamp) -> Self {
        let length = match last {
            Some(last) if last.until.saturating_add(FORGOTTEN).is_ok_and(|end| now < end) => (last.length * 2).min(LONGEST),
            _ => FIRST,
        };
        Self { until: now.saturating_add(length).unwrap_or(now), length }
    }

    /// Returns whether it lasts.
    pub fn lasts(self, now: Timestamp) -> bool {
        now < self.until
    }
}
