//! The revision before which lists of the past are refused.
//!
//! kube-apiserver compacts etcd every five minutes up to where it was five minutes before, so that a continue token lives five to ten minutes.
//! The store here keeps more; clients are told the same all the same, so that they learn to begin again
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks>).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay_store::Revision;
use tokio_util::sync::CancellationToken;

use crate::object_store::ObjectStore;

/// The time between two steps.
const INTERVAL: Duration = Duration::from_secs(300);

/// The oldest revision that can be listed, and the one that will be it next.
#[derive(Debug, Default)]
pub struct Horizon {
    oldest: AtomicU64,
    next: AtomicU64,
}

impl Horizon {
    /// Returns true if lists of this revision are refused.
    pub fn is_past(&self, revision: Revision) -> bool {
        revision < self.oldest.load(Ordering::Relaxed)
    }

    /// Makes what was the latest revision at the step before the oldest one.
    pub fn step(&self, latest: Revision) {
        let oldest = self.next.swap(latest, Ordering::Relaxed);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}

/// Steps until the server closes.
pub async fn run(objects: Arc<ObjectStore>, closing: CancellationToken) {
    loop {
        objects.horizon.step(objects.cache.revision());
        if closing.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-02: a revision can be listed for one whole step at least, the latest one for ever.
    #[test]
    fn the_past_ends() {
        let horizon = Horizon::default();
        horizon.step(10);
        assert!(!horizon.is_past(9), "it was never seen older");
        horizon.step(20);
        assert!(horizon.is_past(9) && !horizon.is_past(10));
        horizon.step(20);
        assert!(horizon.is_past(19) && !horizon.is_past(20));
        horizon.step(20);
        assert!(!horizon.is_past(20));
    }
}
