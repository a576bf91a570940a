//! The lag of the cache behind what another server on the same store has written: nobody is refused for want of what was written already.
//!
//! Whoever is refused may be a stranger, and asking a shared store costs it a read. So all who are refused at the same time ask once,
//! and that not more often than now and then: it is not for strangers to say how much the store has to do.

use std::time::{Duration, Instant};

use mainstay_store::Revision;
use tokio::sync::Mutex;

use crate::cache::Cache;

/// From one question to the next.
const EVERY: Duration = Duration::from_millis(200);

/// The last questions to the store.
#[derive(Default)]
pub struct CacheLag(Mutex<Last>);

#[derive(Default)]
struct Last {
    /// The time at which the store was asked.
    begun: Option<Instant>,
    /// The time at which the question began that was answered last, and the revision that the cache showed then.
    answered: Option<(Instant, Option<Revision>)>,
}

impl CacheLag {
    /// Waits until the cache shows everything that the store had acknowledged when this was called; returns the revision it shows.
    /// `None` when that takes too long.
    pub async fn catch_up(&self, cache: &Cache) -> Option<Revision> {
        let called = Instant::now();
        // Whoever has the lock is asking.
        let mut last = self.0.lock().await;
        if let Some((begun, shown)) = last.answered
            && begun > called
        {
            return shown;
        }
        if let Some(begun) = last.begun {
            tokio::time::sleep_until((begun + EVERY).into()).await;
        }
        let begun = Instant::now();
        last.begun = Some(begun);
        let shown = cache.catch_up().await;
        last.answered = Some((begun, shown));
        shown
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::Ordering;

    use axum::body::Body;
    use futures::future::join_all;
    use http::{Request, StatusCode};
    use tower::ServiceExt as _;

    use crate::testing::World;

    /// KAPI-STORE-03: strangers are refused without asking the shared store for each of them.
    #[tokio::test]
    async fn strangers_ask_together() {
        let world = World::new(true).await;
        let before = world.store.asked.load(Ordering::Relaxed);
        let refused = join_all((0..100).map(|_| async {
            let request = Request::builder().uri("/api/v1/pods").header("authorization", "Bearer nobody").body(Body::empty()).unwrap();
            world.server.router().oneshot(request).await.unwrap().status()
        }));
        assert!(refused.await.iter().all(|status| *status == StatusCode::UNAUTHORIZED));
        // The first one asks; all others come after its question began and share the next one. The server's own tasks ask, too.
        let asked = world.store.asked.load(Ordering::Relaxed) - before;
        assert!((1..20).contains(&asked), "{asked}");
    }
}
