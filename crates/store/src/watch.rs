//! Watching. Each engine has its own source of changes; the embedded one reads its durable log first, then what is committed meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::broadcast;

use crate::embedded::Reader;
use crate::{Error, Event, Revision};

/// An engine's source of changes.
#[async_trait]
pub(crate) trait Changes: Send {
    /// The next batch; see [`Watch::next`].
    async fn next(&mut self) -> Result<Batch, Error>;
}

/// A stream of changes. It never loses one: a reader that falls behind gets everything it missed, or [`Error::Compacted`] if history no longer
/// reaches back so far.
pub struct Watch(Box<dyn Changes>);

impl Watch {
    pub(crate) fn new(changes: impl Changes + 'static) -> Self {
        Self(Box::new(changes))
    }

    /// The next batch; [`Error::Closed`] when the store is closed.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        self.0.next().await
    }
}

/// The changes of one commit below the watched prefix; empty if it changed only other keys.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In revision order.
    pub events: Vec<Arc<Event>>,
    /// The revision up to which the watch has seen everything.
    pub revision: Revision,
}

/// All events of one commit, shared by every watch.
#[derive(Debug)]
pub(crate) struct Commit {
    pub events: Vec<Arc<Event>>,
    pub revision: Revision,
}

/// Follows the embedded engine: a reader that falls behind the ring of recent commits goes on from the log.
pub(crate) struct Follow {
    prefix: String,
    seen: Revision,
    commits: broadcast::Receiver<Arc<Commit>>,
    reader: Arc<Reader>,
    replay: bool,
    pending: VecDeque<Batch>,
}

/// Log entries that one replay step reads.
const REPLAY: usize = 1_000;
/// Approximate bytes of values that one replay step hands out.
const REPLAY_BYTES: usize = 1 << 20;

#[async_trait]
impl Changes for Follow {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Some(batch) = self.pending.pop_front() {
                self.seen = batch.revision;
                return Ok(batch);
            }
            if self.replay {
                self.read_log().await?;
                continue;
            }
            match self.commits.recv().await {
                Ok(commit) if commit.revision <= self.seen => {}
                Ok(commit) => {
                    let wanted = |event: &&Arc<Event>| event.revision() > self.seen && event.key().starts_with(&self.prefix);
                    let events = commit.events.iter().filter(wanted).cloned().collect();
                    self.pending.push_back(Batch { events, revision: commit.revision });
                }
                Err(broadcast::error::RecvError::Lagged(_)) => self.replay = true,
                Err(broadcast::error::RecvError::Closed) => return Err(Error::Closed),
            }
        }
    }
}

impl Follow {
    pub(crate) fn new(prefix: String, after: Revision, commits: broadcast::Receiver<Arc<Commit>>, reader: Arc<Reader>) -> Self {
        Self { prefix, seen: after, commits, reader, replay: true, pending: VecDeque::new() }
    }

    async fn read_log(&mut self) -> Result<(), Error> {
        let (reader, prefix, after) = (self.reader.clone(), self.prefix.clone(), self.seen);
        let (events, upto, complete) = reader.blocking(move |reader| reader.log(&prefix, after, REPLAY, REPLAY_BYTES)).await?;
        self.replay = !complete;
        if !events.is_empty() || upto > self.seen {
            self.pending.push_back(Batch { events: events.into_iter().map(Arc::new).collect(), revision: upto });
        }
        Ok(())
    }
}
