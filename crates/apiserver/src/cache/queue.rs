//! What waits for one watcher: bounded in number and in bytes.
//!
//! A watcher that does not read is let go of when its queue is full, and what waited for it is dropped at once: nobody may ever ask
//! for it again (KAPI-SRV-06).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Change;

/// How many changes may wait.
const CHANGES: usize = 1_024;
/// How many bytes of objects may wait; one change may be larger.
const BYTES: usize = 8 << 20;

struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    ended: bool,
    abandoned: bool,
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
    pub fn offer(&self, change: &Arc<Change>) -> bool {
        let taken = self.0.with(|waiting| {
            if waiting.abandoned || waiting.ended {
                return false;
            }
            let bytes = change.bytes();
            let full = waiting.changes.len() >= CHANGES || !waiting.changes.is_empty() && waiting.bytes + bytes > BYTES;
            if full {
                *waiting = Waiting { ended: true, ..Waiting::default() };
                return false;
            }
            waiting.bytes += bytes;
            waiting.changes.push_back(change.clone());
            true
        });
        self.0.news.notify_one();
        taken
    }

    /// Whether the watcher is gone.
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
    pub async fn recv(&mut self) -> Option<Arc<Change>> {
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
    pub fn try_recv(&mut self) -> Option<Arc<Change>> {
        self.0.with(|waiting| {
            let change = waiting.changes.pop_front()?;
            waiting.bytes = waiting.bytes.saturating_sub(change.bytes());
            Some(change)
        })
    }

    /// Whether nothing waits.
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
    use super::*;
    use crate::cache::Entry;
    use bytes::Bytes;

    fn change(revision: u64, size: usize) -> Arc<Change> {
        let entry = Entry {
            key: "a".into(),
            revision,
            stored: Bytes::from(vec![b'x'; size]),
            offset: 0,
            labels: crate::selector::Labels::default(),
        };
        Arc::new(Change::new(revision, Some(Arc::new(entry)), None))
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
            assert_eq!(Arc::strong_count(&last), 1);
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
}
