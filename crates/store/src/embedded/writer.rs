//! The one writer: everything that waits goes into one commit.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use redb::{Database, Table, WriteTransaction};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::{LOG, META, OBJECTS, Options, VERSIONS, reading};
use crate::record::{self, Entry};
use crate::watch::Commit;
use crate::{Error, Event, Expect, KeyValue, Revision};

/// A write that waits: `value` is `None` for a deletion.
pub(super) struct Write {
    pub key: String,
    pub value: Option<Bytes>,
    pub expect: Expect,
}

pub(super) enum Command {
    Write(Write, Reply),
    Compact(Revision, oneshot::Sender<Result<(), Error>>),
}

pub(super) struct Writer {
    pub db: Arc<Database>,
    pub path: PathBuf,
    pub commits: broadcast::Sender<Arc<Commit>>,
    pub revision: watch::Sender<Revision>,
    pub options: Options,
    pub commit_count: Arc<AtomicU64>,
    pub write_count: Arc<AtomicU64>,
}

/// Writes in one commit: enough that fsync is shared, little enough that the first does not wait for the last.
const GROUP: usize = 256;
/// Log entries that one compaction commit drops, so that writes do not wait long behind it.
const COMPACT_STEP: u64 = 2_000;

/// Where a write's answer goes.
type Reply = oneshot::Sender<Result<(KeyValue, Revision), Error>>;

type Waiting = (Reply, Result<(KeyValue, Revision), Error>);

impl Writer {
    pub fn run(self, mut commands: mpsc::Receiver<Command>) {
        let (mut samples, mut compacted_at) = (VecDeque::from([(Instant::now(), *self.revision.borrow())]), Instant::now());
        while let Some(first) = commands.blocking_recv() {
            let mut writes = Vec::new();
            let mut compactions = Vec::new();
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    Command::Write(write, reply) => writes.push((write, reply)),
                    Command::Compact(revision, reply) => compactions.push((revision, reply)),
                }
                next = if writes.len() < GROUP { commands.try_recv().ok() } else { None };
            }
            if !writes.is_empty() {
                self.commit(writes);
            }
            for (revision, reply) in compactions {
                let _ = reply.send(self.compact(revision));
            }
            if compacted_at.elapsed() >= self.options.compact_every {
                compacted_at = Instant::now();
                if let Some(revision) = self.obsolete(&mut samples)
                    && let Err(error) = self.compact(revision)
                {
                    tracing::error!(%error, "history could not be compacted");
                }
            }
        }
    }

    /// One transaction for all; a failed commit fails them all, and nothing was written.
    fn commit(&self, writes: Vec<(Write, Reply)>) {
        let before = *self.revision.borrow();
        let count = writes.len() as u64;
        let mut waiting: Vec<Waiting> = Vec::with_capacity(writes.len());
        let mut unanswered = Vec::new();
        let attempt = || -> Result<Vec<Arc<Event>>, Failure> {
            let transaction = self.db.begin_write().map_err(redb::Error::from)?;
            let mut revision = before;
            let mut events = Vec::new();
            {
                let mut tables = Tables::open(&transaction)?;
                for (write, reply) in writes {
                    match tables.write(&write, revision + 1) {
                        Ok(Some(event)) => {
                            revision += 1;
                            waiting.push((reply, Ok(answer(&event))));
                            events.push(Arc::new(event));
                        }
                        Ok(None) => waiting.push((reply, tables.conflict(&write))),
                        Err(failure) => {
                            unanswered.push(reply);
                            return Err(failure);
                        }
                    }
                }
                tables.meta.insert("revision", revision).map_err(redb::Error::from)?;
            }
            if events.is_empty() {
                transaction.abort().map_err(redb::Error::from)?;
            } else {
                transaction.commit().map_err(redb::Error::from)?;
            }
            Ok(events)
        };
        match attempt() {
            Ok(events) => {
                self.write_count.fetch_add(count, Ordering::Relaxed);
                if let Some(revision) = events.last().map(|event| event.revision()) {
                    self.commit_count.fetch_add(1, Ordering::Relaxed);
                    self.revision.send_replace(revision);
                    // No receiver is no failure: nobody watches yet.
                    let _ = self.commits.send(Arc::new(Commit { events, revision }));
                }
                for (reply, result) in waiting {
                    let _ = reply.send(result);
                }
            }
            Err(failure) => {
                let replies = waiting.into_iter().map(|(reply, _)| reply).chain(unanswered);
                tracing::error!(path = %self.path.display(), ?failure, "a commit failed; nothing of it was written");
                for reply in replies {
                    let _ = reply.send(Err(self.error(&failure)));
                }
            }
        }
    }

    fn compact(&self, upto: Revision) -> Result<(), Error> {
        let latest = *self.revision.borrow();
        if upto > latest {
            return Err(Error::Future { asked: upto, latest });
        }
        loop {
            let step = || -> Result<bool, Failure> {
                let transaction = self.db.begin_write().map_err(redb::Error::from)?;
                let done = {
                    let mut tables = Tables::open(&transaction)?;
                    let from = tables.number("compacted")? + 1;
                    let to = upto.min(from.saturating_add(COMPACT_STEP));
                    tables.forget(from, to)?;
                    if to >= from {
                        tables.meta.insert("compacted", to).map_err(redb::Error::from)?;
                    }
                    to >= upto
                };
                transaction.commit().map_err(redb::Error::from)?;
                Ok(done)
            };
            if step().map_err(|failure| self.error(&failure))? {
                return Ok(());
            }
        }
    }

    /// The revision up to which nothing needs to be kept: older than the age kept, and further back than the revisions kept.
    fn obsolete(&self, samples: &mut VecDeque<(Instant, Revision)>) -> Option<Revision> {
        let latest = *self.revision.borrow();
        samples.push_back((Instant::now(), latest));
        let mut old = None;
        while let Some((at, revision)) = samples.front().copied()
            && at.elapsed() >= self.options.keep_age
        {
            old = Some(revision);
            samples.pop_front();
        }
        let by_count = latest.checked_sub(self.options.keep_revisions)?;
        old.map(|old| old.min(by_count)).filter(|revision| *revision > 1)
    }

    fn error(&self, failure: &Failure) -> Error {
        match failure {
            Failure::Record(problem) | Failure::Engine(redb::Error::Corrupted(problem)) => {
                Error::Corrupt { path: self.path.clone(), problem: problem.clone() }
            }
            // Every writer that waited is told, so the text is kept rather than the error, which can not be cloned.
            Failure::Engine(error) => reading(&self.path, redb::Error::Io(std::io::Error::other(error.to_string()))),
        }
    }
}

fn answer(event: &Event) -> (KeyValue, Revision) {
    match event {
        Event::Put { now, .. } => (now.clone(), now.modified),
        Event::Delete { revision, before } => (before.clone(), *revision),
    }
}

#[derive(Debug)]
enum Failure {
    Engine(redb::Error),
    Record(String),
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Self {
        Self::Engine(error)
    }
}

struct Tables<'t> {
    objects: Table<'t, &'static str, &'static [u8]>,
    versions: Table<'t, (&'static str, u64), &'static [u8]>,
    log: Table<'t, u64, &'static [u8]>,
    meta: Table<'t, &'static str, u64>,
    found: Option<KeyValue>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            objects: transaction.open_table(OBJECTS)?,
            versions: transaction.open_table(VERSIONS)?,
            log: transaction.open_table(LOG)?,
            meta: transaction.open_table(META)?,
            found: None,
        })
    }

    fn number(&self, key: &str) -> Result<u64, redb::Error> {
        use redb::ReadableTable;
        Ok(self.meta.get(key)?.map_or(0, |value| value.value()))
    }

    /// Does the write at `revision`; `None` when the key is not as expected (then [`Tables::conflict`] says how it is).
    fn write(&mut self, write: &Write, revision: Revision) -> Result<Option<Event>, Failure> {
        use redb::ReadableTable;
        let key = write.key.as_str();
        let old = self.objects.get(key).map_err(redb::Error::from)?.map(|bytes| bytes.value().to_vec());
        let before = old.as_deref().map(|bytes| record::decode(key, bytes)).transpose().map_err(Failure::Record)?;
        let as_expected = match (write.expect, &before) {
            (Expect::Any, None) => write.value.is_some(),
            (Expect::Any, Some(_)) | (Expect::Absent, None) => true,
            (Expect::Revision(revision), Some(kv)) => kv.modified == revision,
            (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
        };
        if !as_expected {
            self.found = before;
            return Ok(None);
        }
        let before_revision = before.as_ref().map_or(0, |kv| kv.modified);
        let entry = Entry { delete: write.value.is_none(), before: before_revision, key };
        self.log.insert(revision, entry.encode().as_slice()).map_err(redb::Error::from)?;
        if let Some(old) = &old {
            self.versions.insert((key, before_revision), old.as_slice()).map_err(redb::Error::from)?;
        }
        let Some(value) = &write.value else {
            self.objects.remove(key).map_err(redb::Error::from)?;
            self.versions.insert((key, revision), [].as_slice()).map_err(redb::Error::from)?;
            return Ok(before.map(|before| Event::Delete { revision, before }));
        };
        let now = KeyValue {
            key: key.to_owned(),
            value: value.clone(),
            created: before.as_ref().map_or(revision, |kv| kv.created),
            modified: revision,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
        };
        self.objects.insert(key, record::encode(&now).as_slice()).map_err(redb::Error::from)?;
        Ok(Some(Event::Put { now, before }))
    }

    fn conflict<T>(&mut self, write: &Write) -> Result<T, Error> {
        Err(Error::Conflict { key: write.key.clone(), found: self.found.take().map(Box::new) })
    }

    /// Drops the log entries `from..=to` and what each of them made obsolete.
    fn forget(&mut self, from: Revision, to: Revision) -> Result<(), Failure> {
        for entry in self.log.extract_from_if(from..=to, |_, _| true).map_err(redb::Error::from)? {
            let (revision, bytes) = entry.map_err(redb::Error::from)?;
            let entry = Entry::decode(bytes.value()).map_err(Failure::Record)?;
            if entry.before > 0 {
                self.versions.remove((entry.key, entry.before)).map_err(redb::Error::from)?;
            }
            if entry.delete {
                self.versions.remove((entry.key, revision.value())).map_err(redb::Error::from)?;
            }
        }
        Ok(())
    }
}
