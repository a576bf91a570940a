//! The queue of one watcher: bounded in number and in bytes.
//!
//! A watcher that does not read is let go of when its queue is full, and what waited for it is dropped at once: nobody may ever ask
//! for it again (KAPI-SRV-06).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_store::Revision;
use tokio::sync::Notify;

use super::change::Delivery;
use crate::entry::Entry;

/// The most changes that may wait.
const CHANGES: usize = 1_024;
/// The most bytes of objects that may wait; one change may be larger.
const BYTES: usize = 8 << 20;

struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    /// The objects that there were at the begin, and the revision of that.
    entries: VecDeque<Arc<Entry>>,
    begun: Revision,
    changes: VecDeque<Delivery>,
    bytes: usize,
    ended: bool,
    /// Set when what waited was dropped.
    lost: bool,
    abandoned: bool,
}

impl Waiting {
    /// Ends the watch, and holds nothing any more.
    fn lose(&mut self) {
        *self = Self { ended: true, lost: true, abandoned: self.abandoned, ..Self::default() };
    }
}

/// The cache's end; the watcher's stream ends when it is dropped, after what still waits.
pub struct Sender(Arc<Queue>);

/// The watcher's end.
pub struct Receiver(Arc<Queue>);

/// An empty queue.
pub fn queue() -> (Sender, Receiver) {
    let queue = Arc::new(Queue { waiting: Mutex::default(), news: Notify::new() });
    (Sender(queue.clone()), Receiver(queue))
}

impl Queue {
    fn with<T>(&self, f: impl FnOnce(&mut Waiting) -> T) -> T {
        f(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sender {
    /// Puts a change into the queue; false when the watcher is gone, or is let go of because it does not keep up.
    pub fn offer(&self, change: &Delivery) -> bool {
        let taken = self.0.with(|waiting| {
            if waiting.abandoned || waiting.ended {
                return false;
            }
            let bytes = change.bytes();
            let full = waiting.changes.len() >= CHANGES || !waiting.changes.is_empty() && waiting.bytes + bytes > BYTES;
            if full {
                waiting.lose();
                return false;
            }
            waiting.bytes += bytes;
            waiting.changes.push_back(change.clone());
            true
        });
        self.0.news.notify_one();
        taken
    }

    /// Lets go of a watcher that still has something from before this revision to take; whether it did.
    pub fn let_go_before(&self, floor: Revision) -> bool {
        let lost = self.0.with(|waiting| {
            let late = !waiting.entries.is_empty() && waiting.begun <= floor
                || waiting.changes.front().is_some_and(|change| change.revision <= floor);
            if late {
                waiting.lose();
            }
            late
        });
        if lost {
            self.0.news.notify_one();
        }
        lost
    }

    /// Returns whether the watcher is gone.
    pub fn is_closed(&self) -> bool {
        self.0.with(|waiting| waiting.abandoned)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.with(|waiting| waiting.ended = true);
        self.0.news.notify_one();
    }
}

impl Receiver {
    /// The next change; `None` when no more will come.
    pub async fn recv(&mut self) -> Option<Delivery> {
        loop {
            if let Some(change) = self.try_recv() {
                return Some(change);
            }
            if self.0.with(|waiting| waiting.ended && waiting.changes.is_empty()) {
                return None;
            }
            self.0.news.notified().await;
        }
    }

    /// The next change, if one waits.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        self.0.with(|waiting| {
            let change = waiting.changes.pop_front()?;
            waiting.bytes = waiting.bytes.saturating_sub(change.bytes());
            Some(change)
        })
    }

    /// Keeps the objects that there were at the begin with what follows, so that both are let go of together.
    pub fn begin_with(&mut self, entries: Vec<Arc<Entry>>, revision: Revision) {
        self.0.with(|waiting| {
            if !waiting.lost {
                (waiting.entries, waiting.begun) = (entries.into(), revision);
            }
        });
    }

    /// The next of the objects that there were at the begin.
    pub fn try_entry(&mut self) -> Option<Arc<Entry>> {
        self.0.with(|waiting| waiting.entries.pop_front())
    }

    /// Returns whether some of these wait.
    pub fn has_entries(&self) -> bool {
        self.0.with(|waiting| !waiting.entries.is_empty())
    }

    /// Returns whether what waited was dropped, since the watcher did not take it: nothing more may be sent.
    pub fn lost(&self) -> bool {
        self.0.with(|waiting| waiting.lost)
    }

    /// About how many bytes the next piece takes, and whether it is made for this watcher alone.
    pub fn upcoming(&self) -> Option<(usize, bool)> {
        self.0.with(|waiting| match waiting.entries.front() {
            Some(entry) => Some((entry.stored.len(), true)),
            None => waiting.changes.front().map(|change| (change.bytes(), waiting.changes.len() > 1)),
        })
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.with(|waiting| waiting.changes.is_empty())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.with(|waiting| *waiting = Waiting { abandoned: true, ..Waiting::default() });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::change::Change;
    use super::*;
    use bytes::Bytes;

    fn change(revision: u64, size: usize) -> Delivery {
        let entry = Entry {
            key: "a".into(),
            revision,
            stored: Bytes::from(vec![b'x'; size]),
            offset: 0,
            labels: mainstay_objects::Labels::default(),
            loose: crate::entry::Loose::default(),
        };
        Arc::new(Change::new(revision, Some(Arc::new(entry)), None)).into()
    }

    /// KAPI-SRV-06: a watcher that does not read is let go of, by number and by bytes, and holds nothing any more.
    #[tokio::test]
    async fn a_full_queue_is_emptied_and_ended() {
        for (size, fitting) in [(10, CHANGES), (1 << 20, 7), (64 << 20, 1)] {
            let (sender, mut receiver) = queue();
            let mut count = 0;
            let last = loop {
                let change = change(count, size);
                if !sender.offer(&change) {
                    break change;
                }
                count += 1;
            };
            assert_eq!(count as usize, fitting, "changes of {size} bytes");
            assert_eq!(Arc::strong_count(&last.frames), 1);
            assert!(receiver.is_empty() && receiver.recv().await.is_none());
        }
    }

    /// KAPI-WATCH-01: what was put in comes out in order, the rest after the sender has gone.
    #[tokio::test]
    async fn changes_come_in_order() {
        let (sender, mut receiver) = queue();
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(change) = receiver.recv().await {
                seen.push(change.revision);
                tokio::task::yield_now().await;
            }
            seen
        });
        for revision in 0..500 {
            assert!(sender.offer(&change(revision, 1)));
            if revision % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(sender);
        assert_eq!(reader.await.unwrap(), (0..500).collect::<Vec<_>>());
        let (sender, receiver) = queue();
        drop(receiver);
        assert!(sender.is_closed() && !sender.offer(&change(1, 1)));
    }

    /// KAPI-SRV-06: a watcher that has something old to take is let go of with all that it holds; one that keeps up is not.
    #[tokio::test]
    async fn who_is_behind_is_let_go_of() {
        let (late, mut slow) = queue();
        let (early, mut reads) = queue();
        let first = change(5, 10);
        for (sender, begun) in [(&late, &mut slow), (&early, &mut reads)] {
            begun.begin_with(vec![first.now.clone().unwrap()], 4);
            assert!(sender.offer(&change(6, 10)));
        }
        assert_eq!(reads.upcoming(), Some((10, true)));
        reads.try_entry().unwrap();
        assert_eq!(reads.upcoming(), Some((266, false)));
        assert!(late.let_go_before(4) && !early.let_go_before(4) && slow.lost() && !reads.lost());
        assert!(!slow.has_entries() && slow.recv().await.is_none());
        assert_eq!(Arc::strong_count(first.now.as_ref().unwrap()), 1);
        assert_eq!(reads.recv().await.unwrap().revision, 6);
    }
}
