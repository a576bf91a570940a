//! A revisioned key-value store with watch: what kube-apiserver expects of etcd.
//!
//! ```text
//!   put / delete ──► writer thread ──► one commit + fsync for all that waited ──► acknowledged
//!   get / list  ──► MVCC read at any retained revision           │
//!   watch       ◄── replay of the log, then batches as committed ┘
//! ```
//!
//! Every write gets the next revision of one counter (KAPI-STORE-01). A write is compared with the revision that its
//! author saw, and is acknowledged only when it is on disk (KAPI-STORE-02). Keys are text without NUL; values are opaque.
//! The store knows nothing of Kubernetes kinds.

pub mod backup;
mod embedded;
mod error;
pub mod etcd;
mod record;
mod watch;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch::Receiver;

pub use embedded::{Embedded, Options};
pub use error::{Error, Fate};
pub use etcd::Etcd;
pub use watch::{Batch, Watch};

/// A position in the store's one history; the first write has revision 2, so that 0 and 1 stay free for "any" and "before everything".
pub type Revision = u64;

/// A key with its value, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key.
    pub created: Revision,
    /// The revision that wrote this value.
    pub modified: Revision,
    /// Number of writes to the key since it was created, this one included.
    pub version: u64,
}

/// The state of a key that a writer expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Any state.
    Any,
    /// The key does not exist.
    Absent,
    /// The key was last written at this revision.
    Revision(Revision),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was created or overwritten.
    Put {
        /// The new value.
        now: KeyValue,
        /// The previous value; `None` when created, or when compaction has dropped it.
        before: Option<KeyValue>,
    },
    /// The key was deleted.
    Delete {
        /// The revision of the deletion.
        revision: Revision,
        /// The last value.
        before: KeyValue,
    },
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { now, .. } => &now.key,
            Self::Delete { before, .. } => &before.key,
        }
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { now, .. } => now.modified,
            Self::Delete { revision, .. } => *revision,
        }
    }
}

/// The keys that a list selects.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Keys that begin with this.
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<String>,
    /// At most so many; 0 is no limit.
    pub limit: usize,
    /// As of this revision; `None` is the latest.
    pub revision: Option<Revision>,
}

/// A list, as of one revision.
#[derive(Clone, Debug)]
pub struct Listing {
    /// In key order.
    pub items: Vec<KeyValue>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// Number of further keys in the range (0 unless limited).
    pub remaining: u64,
}

/// Measurements of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Live keys.
    pub keys: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// The latest revision.
    pub revision: Revision,
    /// The revision up to which history is gone.
    pub compacted: Revision,
    /// Commits (each one fsync) since the start.
    pub commits: u64,
    /// Writes since the start.
    pub writes: u64,
}

/// A revisioned key-value store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The latest durable revision; changes with every commit.
    fn revision(&self) -> Receiver<Revision>;

    /// Returns true if other processes write to the store, too; then nothing may be agreed on in memory alone.
    fn shared(&self) -> bool {
        false
    }

    /// The latest revision of all. The engine is asked for it if others write to the store, too: a read that follows sees everything that was
    /// acknowledged to any client before.
    async fn latest(&self) -> Result<Revision, Error> {
        Ok(*self.revision().borrow())
    }

    /// Succeeds if writes do: as the latest one did a moment ago, else by trying. A store that is only read from reports that as an error.
    async fn writable(&self) -> Result<(), Error> {
        self.latest().await.map(|_| ())
    }

    /// Makes open watches tell a position soon if the latest changes lie outside of what they watch.
    async fn tell_position(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The key's value at the latest revision, with that revision.
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error>;

    /// The keys of a range; [`Error::Compacted`] or [`Error::Future`] for a revision that is not there.
    async fn list(&self, range: Range) -> Result<Listing, Error>;

    /// Writes a value if the key is as expected; durable when it returns. [`Error::Conflict`] carries what is there instead.
    async fn put(&self, key: &str, value: Bytes, expect: Expect) -> Result<KeyValue, Error>;

    /// Deletes the key if it is as expected; returns its last value and the revision of the deletion.
    async fn delete(&self, key: &str, expect: Expect) -> Result<(KeyValue, Revision), Error>;

    /// Every change after `after` of keys that begin with `prefix`, in order, without loss or repetition.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error>;

    /// Forgets what was overwritten or deleted at or before `revision`.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// Measurements for metrics.
    async fn metrics(&self) -> Result<StoreMetrics, Error>;

    /// Finishes the writes in flight and closes; later writes fail with [`Error::Closed`].
    async fn close(&self);
}
