//! Changes of objects, as watchers are told of them.

use std::sync::Arc;

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
    /// The event as it is sent, made when first asked for.
    pub frames: Frames,
}

impl Change {
    /// A change that is not encoded yet.
    pub fn new(revision: Revision, now: Option<Arc<Entry>>, before: Option<Arc<Entry>>) -> Self {
        Self { revision, now, before, frames: Frames::default() }
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
