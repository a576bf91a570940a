//! The times of the operator (CVO-GRAPH-05, CVO-SYNC-01 to CVO-SYNC-06, CVO-USC-04).

use std::time::Duration;

use jiff::Timestamp;
use mainstay_cluster_version_core::{Mode, retrieval};

/// The attempts at one task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Retry {
    /// The number of attempts.
    pub steps: u32,
    /// The wait after the first one.
    pub first: Duration,
    /// The factor by which each wait grows.
    pub factor: f64,
    /// The longest wait.
    pub most: Duration,
}

/// The times, all of them shortened by one factor where an update is played.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Duration,
    acceleration: f64,
}

impl Pace {
    /// Returns the usual times; `chance` is drawn once a process, from 0 to 1.
    pub fn new(chance: f64) -> Self {
        Self { interval: retrieval::interval(chance), acceleration: 1.0 }
    }

    /// Returns times that are shorter by a factor of at least 1.
    #[must_use]
    pub fn accelerated(self, factor: f64) -> Self {
        Self { acceleration: if factor.is_finite() { factor.max(1.0) } else { 1.0 }, ..self }
    }

    /// A time as it passes here.
    pub(crate) fn shortened(&self, time: Duration) -> Duration {
        time.div_f64(self.acceleration)
    }

    /// The time between two passes that find nothing to do, and the shortest one between two questions to the update service.
    pub fn interval(&self) -> Duration {
        self.shortened(self.interval)
    }

    /// The time that has passed since `start` as it counts here.
    pub(crate) fn passed(&self, start: Timestamp, now: Timestamp) -> Timestamp {
        let passed = now.duration_since(start).unsigned_abs().mul_f64(self.acceleration);
        start.checked_add(passed).unwrap_or(now)
    }

    /// The moment at which something would have begun that has taken until `now` as it counts here.
    pub(crate) fn began(&self, start: Timestamp, now: Timestamp) -> Timestamp {
        let passed = now.duration_since(start).unsigned_abs().mul_f64(self.acceleration);
        if start > now { start } else { now.checked_sub(passed).unwrap_or(Timestamp::MIN) }
    }

    /// The time within which a pass must end (CVO-SYNC-01).
    pub fn limit(&self, mode: Mode) -> Duration {
        // Work itself is not faster where times are short.
        if mode == Mode::Initializing { self.interval } else { self.interval * 2 }
    }

    /// The wait before the next pass after some failed ones in a row (CVO-SYNC-03); `chance` is from 0 to 1.
    pub fn after_failures(&self, failures: u32, chance: f64) -> Duration {
        const SIXTEENTHS: u32 = 16;
        let wait = match failures {
            0..=3 => self.interval / SIXTEENTHS * 2_u32.pow(failures),
            _ => self.interval,
        };
        self.shortened(wait.mul_f64(1.0 + 0.2 * chance))
    }

    pub(crate) fn retry(&self, mode: Mode) -> Retry {
        let most = self.shortened(Duration::from_secs(15));
        let (steps, first, factor) = match mode {
            Mode::Initializing => (4, 1, 2.0),
            Mode::Updating | Mode::Reconciling => (3, 10, 1.3),
        };
        Retry { steps, first: self.shortened(Duration::from_secs(first)), factor, most }
    }
}

/// Reports of the worker in the status: one in this time, and some at once (CVO-SYNC-06).
const REPORT_EVERY: Duration = Duration::from_secs(15);
const REPORTS_AT_ONCE: u32 = 2;

/// The time that was saved for reports, and when it was looked at last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reports(Option<(Timestamp, Duration)>);

impl Reports {
    /// A report is there now: returns how long it waits until it is shown.
    pub fn wait(&mut self, pace: &Pace, now: Timestamp) -> Duration {
        let every = pace.shortened(REPORT_EVERY);
        let most = every * REPORTS_AT_ONCE;
        let (at, saved) = self.0.unwrap_or((now, most));
        // A clock that was set back saves nothing.
        let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let saved = saved.saturating_add(passed).min(most);
        let left = saved.checked_sub(every);
        self.0 = Some((now, left.unwrap_or(saved)));
        if left.is_some() { Duration::ZERO } else { every.saturating_sub(saved) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-SYNC-03: an eighth, a quarter, half of the interval, then all of it, with a fifth of chance.
    #[test]
    fn waits_grow() {
        let pace = Pace::new(0.0);
        let waits = |chance: f64| (1..6).map(|failures| pace.after_failures(failures, chance).as_secs()).collect::<Vec<_>>();
        assert_eq!(waits(0.0), [15, 30, 60, 120, 120]);
        assert_eq!(waits(1.0), [18, 36, 72, 144, 144]);
        assert_eq!(pace.accelerated(60.0).after_failures(4, 0.0), Duration::from_secs(2));
    }

    /// CVO-SYNC-06: two reports are shown at once, then one in 15 seconds; what waits is shown when its time has come.
    #[test]
    fn reports_are_shown_now_and_then() {
        let pace = Pace::new(0.0);
        let mut reports = Reports::default();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
        let mut wait = |second: u64| reports.wait(&pace, start + Duration::from_secs(second)).as_secs();
        assert_eq!([wait(0), wait(0), wait(0), wait(5), wait(14)], [0, 0, 15, 10, 1]);
        assert_eq!([wait(15), wait(15), wait(30), wait(31)], [0, 15, 0, 14]);
        // Silence saves two, and no more.
        assert_eq!([wait(3600), wait(3600), wait(3600)], [0, 0, 15]);
        let mut other = Reports::default();
        let fast = pace.accelerated(15.0);
        assert_eq!([0, 0, 0].map(|_| other.wait(&fast, start)), [Duration::ZERO, Duration::ZERO, Duration::from_secs(1)]);
        assert_eq!(other.wait(&fast, start - Duration::from_secs(60)), Duration::from_secs(1), "the clock was set back");
    }

    /// CVO-GRAPH-05: attempts at a task by mode; CVO-SYNC-01: limits of a pass are those of real work.
    #[test]
    fn attempts_and_limits() {
        let pace = Pace::new(0.5).accelerated(10.0);
        let told = [Mode::Initializing, Mode::Updating].map(|mode| (pace.retry(mode).steps, pace.retry(mode).first.as_millis()));
        assert_eq!(told, [(4, 100), (3, 1000)]);
        assert_eq!((pace.limit(Mode::Initializing).as_secs(), pace.limit(Mode::Reconciling).as_secs()), (180, 360));
    }
}
