//! The existence of images: the registries are asked if that is enabled, and the answers are remembered for a while (KAPI-WL-03).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// The time for which an image that was not found is assumed to be still missing.
const ABSENT: Duration = Duration::from_secs(8);
/// The most images that are remembered.
const REMEMBERED: usize = 10_000;

/// The reason why an image cannot be pulled.
pub type PullError = Box<dyn std::error::Error + Send + Sync>;

/// Access to registries.
#[async_trait]
pub trait Registries: Send + Sync {
    /// Checks that an image can be pulled.
    ///
    /// # Errors
    /// It cannot.
    async fn check(&self, image: &str) -> Result<(), PullError>;
}

/// The known images. Clones share them.
#[derive(Clone, Default)]
pub struct Images {
    registries: Option<Arc<dyn Registries>>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

struct Known {
    /// The reason why the image cannot be pulled; `None` if it can.
    problem: Option<String>,
    at: Timestamp,
}

impl Images {
    /// Asks these registries; without any, every image exists.
    pub fn new(registries: Option<Arc<dyn Registries>>) -> Self {
        Self { registries, known: Arc::default() }
    }

    /// Looks up an image unless the answer is known.
    pub async fn look(&self, image: &str, now: Timestamp) {
        let Some(registries) = &self.registries else { return };
        let fresh = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // An image that was found once is on the node.
            known.get(image).is_some_and(|known| {
                known.problem.is_none() || now.duration_since(known.at) < SignedDuration::try_from(ABSENT).unwrap_or_default()
            })
        };
        if fresh {
            return;
        }
        let problem = registries
            .check(image)
            .await
            .err()
            .map(|why| format!("rpc error: code = Unknown desc = failed to pull and unpack image {image:?}: {why}"));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(image.to_owned(), Known { problem, at: now });
    }

    /// Returns the reason why an image cannot be pulled.
    pub fn problem(&self, image: &str) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(image)?.problem.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Empty(AtomicUsize);

    #[async_trait]
    impl Registries for Empty {
        async fn check(&self, image: &str) -> Result<(), PullError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if image == "there:1" { Ok(()) } else { Err(format!("{image}: not found").into()) }
        }
    }

    /// KAPI-WL-03: registries are asked once for what they have, and again after a while for what they have not.
    #[tokio::test]
    async fn images_are_looked_for() {
        let registries = Arc::new(Empty(AtomicUsize::new(0)));
        let images = Images::new(Some(registries.clone()));
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (image, seconds, asked, there) in
            [("there:1", 0, 1, true), ("there:1", 60, 1, true), ("gone:1", 0, 2, false), ("gone:1", 1, 2, false), ("gone:1", 9, 3, false)]
        {
            images.look(image, start + SignedDuration::from_secs(seconds)).await;
            assert_eq!((registries.0.load(Ordering::Relaxed), images.problem(image).is_none()), (asked, there), "{image} {seconds}");
        }
    }
}
