//! The one writer: everything that waits goes into one commit.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::Shared;
use super::index::Place;
use super::log::Log;
use super::synced::Synced;
use crate::record::{Frame, Kind, Record};
use crate::watch::Commit;
use crate::{Error, Event, Expect, KeyValue, Revision};

/// A pending write: `value` is `None` for a deletion.
pub(super) struct Write {
    pub key: String,
    pub value: Option<Bytes>,
    pub expect: Expect,
}

pub(super) enum Command {
    Write(Write, Reply),
    /// History up to this revision was dropped, which is noted in the log.
    Compacted(Revision),
    /// Asks for a proof that the disk takes writes.
    Prove(oneshot::Sender<Result<(), Error>>),
}

/// The channel for a write's answer.
pub(super) type Reply = oneshot::Sender<Outcome>;

type Outcome = Result<(KeyValue, Revision), Error>;

pub(super) struct Writer {
    pub shared: Arc<Shared>,
    pub log: Log,
    pub synced: Synced,
    pub commits: broadcast::Sender<Arc<Commit>>,
    pub revision: watch::Sender<Revision>,
}

/// Writes in one commit: enough to share a sync, few enough that the first does not wait for the last.
const GROUP: usize = 512;
/// The same in bytes.
const GROUP_BYTES: usize = 4 << 20;
/// After so long without a write, the note of how far the log is synced is synced as well.
const IDLE: Duration = Duration::from_millis(100);

impl Writer {
    /// Serves commands until all senders are gone; `timer` is for this thread alone.
    pub fn run(mut self, timer: &tokio::runtime::Runtime, mut commands: mpsc::Receiver<Command>) {
        while let Some(first) = self.wait(timer, &mut commands) {
            let (mut writes, mut compacted, mut asked, mut bytes) = (Vec::new(), None, Vec::new(), 0);
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    Command::Write(write, reply) => {
                        bytes += write.value.as_ref().map_or(0, Bytes::len);
                        writes.push((write, reply));
                    }
                    Command::Compacted(revision) => compacted = Some(revision),
                    Command::Prove(reply) => asked.push(reply),
                }
                next = if writes.len() < GROUP && bytes < GROUP_BYTES { commands.try_recv().ok() } else { None };
            }
            if !writes.is_empty() {
                self.commit(writes);
            }
            if let Some(revision) = compacted {
                self.note_compaction(revision);
            }
            for reply in asked {
                // A caller that no longer waits needs no answer.
                let _ = reply.send(self.prove());
            }
        }
        self.synced.settle();
        if let Err(error) = self.log.seal(*self.revision.borrow()) {
            tracing::warn!(%error, "the log could not be sealed; the next start treats this as a crash");
        }
    }

    /// The next command; a pause before it is used to settle the note.
    fn wait(&mut self, timer: &tokio::runtime::Runtime, commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
        if self.synced.is_unsettled() {
            match timer.block_on(async { tokio::time::timeout(IDLE, commands.recv()).await }) {
                Ok(command) => return command,
                Err(_) => self.synced.settle(),
            }
        }
        commands.blocking_recv()
    }

    /// Proves that the disk takes writes: by the note of what is synced or, if writes fail, by what a write would do.
    fn prove(&mut self) -> Result<(), Error> {
        if let Some(known) = self.shared.health() {
            return known;
        }
        let outcome = if self.shared.fails() {
            let (last, compacted) = (*self.revision.borrow(), self.shared.index().compacted);
            self.write(&mut Frame::new(Kind::Compacted, compacted), last, compacted).map(drop)
        } else {
            let path = self.shared.disk.path("");
            self.synced.prove().map_err(|source| Error::io(&path, "writing", source))
        };
        self.shared.set_health(outcome.as_ref().copied().map_err(Error::again));
        outcome
    }

    /// Commits one frame for all writes; if it cannot be written, all of them fail, and nothing was written.
    fn commit(&mut self, writes: Vec<(Write, Reply)>) {
        let before = *self.revision.borrow();
        let count = writes.len() as u64;
        let (mut waiting, mut events, compacted) = (Vec::with_capacity(writes.len()), Vec::new(), {
            let index = self.shared.index();
            index.compacted
        });
        {
            let index = self.shared.index();
            // The changes that this group has made to keys so far; no other writer changes the index.
            let mut changed: HashMap<String, Option<KeyValue>> = HashMap::new();
            for (write, reply) in writes {
                let now = changed.get(&write.key).cloned().unwrap_or_else(|| index.state(&write.key).map(|live| live.of(&write.key)));
                let decided = decide(&write, now, before + events.len() as u64 + 1);
                waiting.push((reply, decided.as_ref().map(answer).map_err(|found| (write.key.clone(), found.clone()))));
                if let Ok(event) = decided {
                    changed.insert(write.key, now_of(&event));
                    events.push(Arc::new(event));
                }
            }
        }
        if !events.is_empty()
            && let Err(error) = self.append(&events, before, compacted)
        {
            tracing::error!(error = &error as &dyn std::error::Error, "a commit failed; nothing of it is acknowledged");
            self.shared.set_health(Err(error.again()));
            for (reply, _) in waiting {
                // A caller that no longer waits needs no answer.
                let _ = reply.send(Err(error.again()));
            }
            return;
        }
        self.shared.write_count.fetch_add(count, Ordering::Relaxed);
        if let Some(revision) = events.last().map(|event| event.revision()) {
            self.shared.commit_count.fetch_add(1, Ordering::Relaxed);
            self.synced.note(revision);
            self.shared.set_health(Ok(()));
            self.revision.send_replace(revision);
            // A missing receiver is no failure: there is no watch yet.
            let _ = self.commits.send(Arc::new(Commit { events, revision }));
        }
        for (reply, outcome) in waiting {
            let outcome = outcome.map_err(|(key, found)| Error::Conflict { key, found: found.map(Box::new) });
            let _ = reply.send(outcome);
        }
    }

    /// Makes events durable, then visible to readers.
    fn append(&mut self, events: &[Arc<Event>], before: Revision, compacted: Revision) -> Result<(), Error> {
        let mut frame = Frame::new(Kind::Commit, before + 1);
        for event in events {
            match &**event {
                Event::Put { now, .. } => {
                    let record = Record { deleted: false, key: &now.key, value: &now.value, created: now.created, version: now.version };
                    frame.push(now.modified, &record);
                }
                Event::Delete { revision, before } => {
                    frame.push(*revision, &Record { deleted: true, key: &before.key, value: &[], created: 0, version: 0 });
                }
            }
        }
        let places = self.write(&mut frame, before, compacted)?;
        let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        for (event, place) in events.iter().zip(places) {
            index.apply(event, place);
        }
        Ok(())
    }

    fn write(&mut self, frame: &mut Frame, last: Revision, compacted: Revision) -> Result<Vec<Place>, Error> {
        let places = self.log.append(frame, last, compacted);
        if let Some((number, file)) = self.log.opened.take() {
            self.shared.index.write().unwrap_or_else(PoisonError::into_inner).files.insert(number, file);
        }
        if !self.log.closed.is_empty() {
            self.shared.files().closed.append(&mut self.log.closed);
        }
        self.shared.active_bytes.store(self.log.active.as_ref().map_or(0, |active| active.end), Ordering::Relaxed);
        places
    }

    /// Notes a compaction, so that a restart does not bring back history that a client was told is gone.
    fn note_compaction(&mut self, revision: Revision) {
        let last = *self.revision.borrow();
        if let Err(error) = self.write(&mut Frame::new(Kind::Compacted, revision), last, revision) {
            tracing::warn!(error = &error as &dyn std::error::Error, "the compaction was not noted in the log; a restart remembers more");
        }
    }
}

/// The effect of a write on a key whose state is `now`; the key's state as an error if it is not as expected.
fn decide(write: &Write, now: Option<KeyValue>, revision: Revision) -> Result<Event, Option<KeyValue>> {
    let as_expected = match (write.expect, &now) {
        (Expect::Any, None) => write.value.is_some(),
        (Expect::Any, Some(_)) | (Expect::Absent, None) => true,
        (Expect::Revision(revision), Some(kv)) => kv.modified == revision,
        (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
    };
    match (&write.value, now) {
        (_, now) if !as_expected => Err(now),
        (Some(value), before) => {
            let created = before.as_ref().map_or(revision, |kv| kv.created);
            let version = before.as_ref().map_or(1, |kv| kv.version + 1);
            let now = KeyValue { key: write.key.clone(), value: value.clone(), created, modified: revision, version };
            Ok(Event::Put { now, before })
        }
        (None, Some(before)) => Ok(Event::Delete { revision, before }),
        (None, None) => Err(None),
    }
}

fn now_of(event: &Event) -> Option<KeyValue> {
    match event {
        Event::Put { now, .. } => Some(now.clone()),
        Event::Delete { .. } => None,
    }
}

fn answer(event: &Event) -> (KeyValue, Revision) {
    match event {
        Event::Put { now, .. } => (now.clone(), now.modified),
        Event::Delete { revision, before } => (before.clone(), *revision),
    }
}
