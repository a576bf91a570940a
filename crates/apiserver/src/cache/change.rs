//! Changes of objects, as watchers are told of them.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mainstay_store::Revision;

use super::frames::Frames;
use crate::entry::Entry;

/// A change of one object.
#[derive(Debug)]
pub struct Change {
    /// Its revision.
    pub revision: Revision,
    /// The object now; `None` when it was deleted.
    pub now: Option<Arc<Entry>>,
    /// The object before; `None` when it was created.
    pub before: Option<Arc<Entry>>,
    /// The encoded forms, for as long as a watcher has yet to send one of them.
    frames: Mutex<Weak<Frames>>,
}

impl Change {
    /// A change that is not encoded yet.
    pub fn new(revision: Revision, now: Option<Arc<Entry>>, before: Option<Arc<Entry>>) -> Self {
        Self { revision, now, before, frames: Mutex::default() }
    }

    /// About how much memory it holds.
    pub fn bytes(&self) -> usize {
        self.shown().map_or(0, |entry| entry.stored.len()) + 256
    }

    /// The object that the event shows: the one now, or the last state.
    pub fn shown(&self) -> Option<&Arc<Entry>> {
        self.now.as_ref().or(self.before.as_ref())
    }
}

/// A change on its way to a watcher. The encoded forms live as long as one of the watchers has it: a cache that remembers thousands of
/// changes would hold each of them once more for every form that was asked for.
#[derive(Clone, Debug)]
pub struct Delivery {
    change: Arc<Change>,
    /// The encoded forms, which all watchers share.
    pub frames: Arc<Frames>,
}

impl From<Arc<Change>> for Delivery {
    fn from(change: Arc<Change>) -> Self {
        let mut known = change.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = known.upgrade().unwrap_or_else(|| {
            let frames = Arc::default();
            *known = Arc::downgrade(&frames);
            frames
        });
        drop(known);
        Self { change, frames }
    }
}

impl Deref for Delivery {
    type Target = Change;

    fn deref(&self) -> &Change {
        &self.change
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WATCH-02: watchers share the encoded forms of a change, which are gone with the last of them.
    #[test]
    fn forms_live_as_long_as_a_watcher_needs_them() {
        let change = Arc::new(Change::new(7, None, None));
        let (one, other) = (Delivery::from(change.clone()), Delivery::from(change.clone()));
        assert!(Arc::ptr_eq(&one.frames, &other.frames));
        drop(one);
        assert!(Arc::ptr_eq(&other.frames, &Delivery::from(change.clone()).frames));
        drop(other);
        assert!(change.frames.lock().unwrap().upgrade().is_none());
    }
}
