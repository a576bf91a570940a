//! A watch that begins before what the cache remembers: the store's history first, read as the client takes it (KAPI-WATCH-01).
//!
//! ```text
//!   asked ── history, step by step ──► floor of the cache's ring ── subscription ──► changes as they come
//! ```

use std::sync::Arc;

use mainstay_store::Revision;

use crate::cache::{Begin, Delivery, ResourceCache, Scope, Subscription, TooOld};
use crate::entry::ROOT;
use crate::error::{ApiError, Result, store_error, too_large_version};
use crate::object_store::ObjectStore;

/// About how many bytes of changes one step holds.
const STEP: usize = 256 << 10;

/// The way from a revision of the past to the present.
pub struct History {
    objects: Arc<ObjectStore>,
    cache: Arc<ResourceCache>,
    resource: String,
    scope: Scope,
    /// Everything up to here was handed out.
    seen: Revision,
    /// The cache remembers everything after this.
    floor: Revision,
    /// Set when the store was asked to tell of a position past the floor.
    asked: bool,
}

/// The next part of a watch.
pub enum Step {
    /// Changes, and the revision up to which these are all.
    Past(Vec<Delivery>, Revision),
    /// The changes that the cache tells from here on.
    Now(Subscription),
}

impl History {
    /// From what was asked for of a resource (`GROUP/RESOURCE`).
    pub fn new(objects: &Arc<ObjectStore>, cache: Arc<ResourceCache>, resource: &str, scope: Scope, begin: &TooOld) -> Self {
        let (objects, resource) = (objects.clone(), resource.to_owned());
        Self { objects, cache, resource, scope, seen: begin.after, floor: begin.floor, asked: false }
    }

    /// The next step; nothing comes after the last one, which is the subscription.
    pub async fn next(&mut self) -> Result<Step> {
        loop {
            if self.seen < self.floor {
                let changes = self.read().await.map_err(failed)?;
                return Ok(Step::Past(changes, self.seen));
            }
            // The store may be ahead of the cache, which must not show again what history has shown.
            if self.objects.cache.reach(self.seen).await.is_none() {
                return Err(too_large_version(self.seen, self.objects.cache.revision()));
            }
            match self.cache.subscribe(self.scope.clone(), Begin::After(self.seen), &self.objects.cache) {
                Ok(subscription) => return Ok(Step::Now(subscription)),
                Err(TooOld { floor, .. }) => (self.floor, self.asked) = (floor, false),
            }
        }
    }

    /// Reads a piece of history. The store's watch is not kept until the client wants more: what waits in it would be held for one that
    /// may never read on, and in a connection that others use, too.
    async fn read(&mut self) -> Result<Vec<Delivery>, mainstay_store::Error> {
        let store = &self.objects.store;
        let own = format!("{ROOT}{}/", self.resource);
        // An engine that others write to, too, tells of changes alone. Where the resource is quiet, nothing of it would say that its
        // history is at its end; of all that is watched something does, at the latest the position that is asked for.
        let watched = if store.shared() { ROOT } else { own.as_str() };
        let mut watch = store.watch(watched, self.seen).await?;
        if store.shared() && !self.asked {
            store.tell_position().await?;
            self.asked = true;
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while self.seen < self.floor && bytes < STEP {
            let batch = watch.next().await?;
            for event in batch.events.iter().filter(|event| event.key().starts_with(&own)) {
                let change = ResourceCache::history(&self.resource, event);
                if let Some(change) = change.filter(|change| change.shown().is_some_and(|entry| self.scope.holds(&entry.key))) {
                    bytes += change.bytes();
                    changes.push(change);
                }
            }
            self.seen = batch.revision.max(self.seen);
        }
        Ok(changes)
    }
}

fn failed(error: mainstay_store::Error) -> ApiError {
    match error {
        mainstay_store::Error::Compacted { asked, oldest } => ApiError::expired(format!("too old resource version: {asked} ({oldest})")),
        other => store_error(other),
    }
}
