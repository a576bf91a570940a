//! The least pace of transfers.
//!
//! With only a timeout for each read, one byte every few seconds could hold a transfer for ever. So transfers need a least pace, which is
//! measured over a window. Each request and each operation also ends by a time that follows from the bytes it may transfer.

use std::time::Duration;

use tokio::time::Instant;

/// The least pace of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Window over which the pace is measured.
    pub window: Duration,
    /// Bytes required in each window but the last.
    pub least: u64,
    /// Time for every request, including its redirects and the head of its answer; also added to the time for a transfer.
    pub base: Duration,
    /// Average rate of the whole transfer, in bytes a second.
    pub rate: u64,
    /// Time for an operation of many requests, retries and mirrors, besides its transfers.
    pub operation: Duration,
}

/// Upper limit of the time for the bytes of a transfer, whatever size is announced.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl Default for Pace {
    /// A quarter of a megabyte a minute at any time, and 128 KiB a second on average: 100 MB within a quarter of an hour.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            least: 256 << 10,
            base: Duration::from_secs(90),
            rate: 128 << 10,
            operation: Duration::from_secs(300),
        }
    }
}

impl Pace {
    /// Returns the time limit for the transfer of so many bytes.
    pub(crate) fn transfer(&self, bytes: u64) -> Duration {
        self.base.saturating_add(self.bytes(bytes))
    }

    /// Returns the time limit for an operation that transfers so many bytes in all.
    pub(crate) fn operation(&self, bytes: u64) -> Duration {
        self.operation.saturating_add(self.bytes(bytes))
    }

    fn bytes(&self, bytes: u64) -> Duration {
        Duration::from_secs(bytes.div_ceil(self.rate.max(1))).min(LONGEST)
    }
}

/// The reason for which a transfer was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Slow {
    #[error("fewer than {least} bytes came within {window:?}")]
    Window { least: u64, window: Duration },
    #[error("it was not done within {0:?}")]
    Deadline(Duration),
}

/// A meter for the pace of one transfer.
pub(crate) struct Meter {
    pace: Pace,
    allowed: Duration,
    end: Instant,
    window_end: Instant,
    came: u64,
}

impl Meter {
    /// Starts the meter for a transfer of at most so many bytes.
    pub(crate) fn new(pace: Pace, bytes: u64) -> Self {
        let (now, allowed) = (Instant::now(), pace.transfer(bytes));
        Self { pace, allowed, end: now + allowed, window_end: now + pace.window, came: 0 }
    }

    /// Waits for the next part, for as long as the pace allows.
    pub(crate) async fn wait<T>(&mut self, part: impl Future<Output = T>) -> Result<T, Slow> {
        let mut part = std::pin::pin!(part);
        loop {
            let until = self.end.min(self.window_end);
            if let Ok(done) = tokio::time::timeout_at(until, &mut part).await {
                return Ok(done);
            }
            self.look()?;
        }
    }

    /// Records bytes that arrived.
    pub(crate) fn came(&mut self, bytes: u64) -> Result<(), Slow> {
        self.came = self.came.saturating_add(bytes);
        self.look()
    }

    fn look(&mut self) -> Result<(), Slow> {
        let now = Instant::now();
        if now >= self.end {
            return Err(Slow::Deadline(self.allowed));
        }
        if now >= self.window_end {
            if self.came < self.pace.least {
                return Err(Slow::Window { least: self.pace.least, window: self.pace.window });
            }
            self.came = 0;
            self.window_end = now + self.pace.window;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Parts of a size that come at an interval, until the transfer is given up; when, and why.
    async fn trickle(pace: Pace, whole: u64, part: u64, every: Duration) -> (Duration, Slow) {
        let begun = Instant::now();
        let mut meter = Meter::new(pace, whole);
        loop {
            if let Err(slow) = meter.wait(tokio::time::sleep(every)).await.and_then(|()| meter.came(part)) {
                return (begun.elapsed(), slow);
            }
        }
    }

    /// A byte every 15 seconds is given up after one window; just above the pace of windows, by the time for the whole.
    #[tokio::test(start_paused = true)]
    async fn what_is_slow_is_given_up() {
        let pace = Pace::default();
        let (took, slow) = trickle(pace, 8 << 30, 1, Duration::from_secs(15)).await;
        assert_eq!((took, slow), (pace.window, Slow::Window { least: pace.least, window: pace.window }));
        let (took, slow) = trickle(pace, 100 << 20, 8 << 10, Duration::from_secs(1)).await;
        assert_eq!((took, slow), (pace.transfer(100 << 20), Slow::Deadline(pace.transfer(100 << 20))));
        // Silence is given up as well.
        let (took, _) = trickle(pace, 1 << 20, 1 << 20, Duration::from_secs(1 << 20)).await;
        assert_eq!(took, pace.window);
    }

    /// What comes in bursts, or slowly at its end, goes on.
    #[tokio::test(start_paused = true)]
    async fn what_is_fast_enough_goes_on() {
        let pace = Pace::default();
        let mut meter = Meter::new(pace, 64 << 20);
        for _ in 0..10 {
            meter.wait(tokio::time::sleep(Duration::from_secs(50))).await.unwrap();
            meter.came(4 << 20).unwrap();
        }
        assert_eq!(pace.transfer(0), pace.base);
        assert_eq!(pace.transfer(u64::MAX), pace.base + LONGEST);
    }
}
