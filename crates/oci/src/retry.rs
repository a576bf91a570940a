//! Retries of requests to a registry, and the waits between them.
//!
//! Only failures that a registry or the network may get over within seconds are retried: interrupted transfers, timeouts, 408, 429 and 5xx.
//! Longer outages are left to the caller: work queues come back, people too.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::error::{Error, ErrorKind};

/// Number of attempts, and the waits between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all; one means that nothing is repeated.
    pub tries: u32,
    /// The wait before the second attempt; each further one is twice as long.
    pub first: Duration,
    /// The longest wait. A registry that asks for more (`Retry-After`) is not asked again.
    pub most: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries: 4, first: Duration::from_millis(250), most: Duration::from_secs(30) }
    }
}

impl Retry {
    /// Returns a setting without retries.
    pub fn never() -> Self {
        Self { tries: 1, ..Self::default() }
    }

    /// Returns the wait after that many failures; `None` when there is no further attempt.
    pub(crate) fn wait(&self, failures: u32, error: &Error) -> Option<Duration> {
        let again = matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Timeout | ErrorKind::RateLimited | ErrorKind::Server);
        if failures >= self.tries || !again {
            return None;
        }
        if let Some(asked) = error.retry_after() {
            return (asked <= self.most).then_some(asked);
        }
        Some(self.first.saturating_mul(1 << (failures - 1).min(16)).min(self.most))
    }

    /// Runs an operation until it succeeds or another attempt makes no sense.
    pub(crate) async fn run<'a, T>(&self, operation: impl Fn() -> BoxFuture<'a, Result<T, Error>>) -> Result<T, Error> {
        let mut failures = 0;
        loop {
            let error = match operation().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            failures += 1;
            let Some(wait) = self.wait(failures, &error) else { return Err(error) };
            tracing::info!(%error, ?wait, "the registry is asked again");
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> Error {
        let retry_after = retry_after.map(Duration::from_secs);
        Error::Status { subject: "a".to_owned(), registry: "r".to_owned(), status, message: String::new(), retry_after, refused: None }
    }

    /// Waits double up to the longest; what the registry asks for goes first; what waiting cannot mend is not tried again.
    #[test]
    fn waits() {
        let retry = Retry { tries: 6, first: Duration::from_secs(1), most: Duration::from_secs(5) };
        let waits: Vec<_> = (1..7).map(|failures| retry.wait(failures, &status(503, None)).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(5), Some(5), None]);
        assert_eq!(retry.wait(1, &status(429, Some(3))), Some(Duration::from_secs(3)));
        assert_eq!(retry.wait(1, &status(429, Some(3600))), None);
        for code in [400, 401, 403, 404] {
            assert_eq!(retry.wait(1, &status(code, None)), None);
        }
        assert_eq!(Retry::never().wait(1, &status(503, None)), None);
    }
}
