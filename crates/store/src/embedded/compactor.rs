//! Compaction: drops history and makes the files smaller, beside the writer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::file::snapshot_name;
use super::index::OpenFile;
use super::log::Closed;
use super::reader::Reader;
use super::snapshot::{Snapshot, Written};
use super::writer::Command;
use super::{Options, Shared};
use crate::{Error, Revision};

/// Files that are no longer written to.
pub(super) struct Files {
    pub closed: Vec<Closed>,
    /// Name, number in places, bytes.
    pub snapshot: Option<(String, u32, u64)>,
}

impl Files {
    /// Bytes of these files.
    pub fn bytes(&self) -> u64 {
        self.closed.iter().map(|segment| segment.bytes).sum::<u64>() + self.snapshot.as_ref().map_or(0, |(_, _, bytes)| *bytes)
    }

    /// Bytes that a snapshot of a revision would remove.
    fn upto(&self, revision: Revision) -> u64 {
        let closed = self.closed.iter().filter(|segment| segment.last <= revision).map(|segment| segment.bytes).sum::<u64>();
        closed + self.snapshot.as_ref().map_or(0, |(_, _, bytes)| *bytes)
    }
}

/// Asks for a compaction up to a revision.
pub(super) type Requests = Sender<Request>;
type Request = (Revision, oneshot::Sender<Result<(), Error>>);

/// The channel to the compactor.
pub(super) fn requests() -> (Requests, Receiver<Request>) {
    channel()
}

pub(super) struct Compactor {
    pub shared: Arc<Shared>,
    pub reader: Arc<Reader>,
    pub options: Options,
    pub writer: mpsc::WeakSender<Command>,
    pub next_file: Arc<AtomicU32>,
}

/// Revisions that are forgotten under one lock, so that readers and the writer do not wait long for it.
const STEP: u64 = 2_000;

impl Compactor {
    pub fn run(self, requests: &Receiver<Request>) {
        let mut samples = VecDeque::from([(Instant::now(), self.shared.index().revision)]);
        let mut due = Instant::now() + self.options.compact_every;
        loop {
            match requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok((revision, reply)) => {
                    let _ = reply.send(self.compact(revision));
                }
                Err(RecvTimeoutError::Timeout) => {
                    due = Instant::now() + self.options.compact_every;
                    let latest = self.shared.index().revision;
                    samples.push_back((Instant::now(), latest));
                    if let Some(revision) = obsolete(&mut samples, latest, self.options.keep_age, self.options.keep_revisions)
                        && let Err(error) = self.compact(revision)
                    {
                        tracing::error!(error = &error as &dyn std::error::Error, "history could not be compacted");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = self.shrink() {
                tracing::error!(error = &error as &dyn std::error::Error, "no snapshot could be written; the log keeps growing");
            }
        }
    }

    fn compact(&self, upto: Revision) -> Result<(), Error> {
        let (mut compacted, latest) = {
            let index = self.shared.index();
            (index.compacted, index.revision)
        };
        if upto > latest {
            return Err(Error::Future { asked: upto, latest });
        }
        if upto <= compacted {
            return Ok(());
        }
        while compacted < upto {
            compacted = upto.min(compacted + STEP);
            self.shared.index.write().unwrap_or_else(PoisonError::into_inner).compact(compacted);
        }
        if let Some(writer) = self.writer.upgrade() {
            // A writer that has stopped needs no note.
            let _ = writer.blocking_send(Command::Compacted(upto));
        }
        Ok(())
    }

    /// Writes a snapshot if enough of the files is garbage.
    fn shrink(&self) -> Result<(), Error> {
        let (compacted, kept) = {
            let index = self.shared.index();
            (index.compacted, index.base_bytes)
        };
        let removable = self.shared.files().upto(compacted);
        if self.shared.files().snapshot.as_ref().is_some_and(|(name, ..)| *name == snapshot_name(compacted)) {
            return Ok(());
        }
        if removable.saturating_sub(kept) < self.options.garbage_bytes.max(kept) {
            return Ok(());
        }
        let Some(written) = self.snapshot(compacted)? else { return Ok(()) };
        let Written { name, file, number, revision, bytes, places } = written;
        let mut old = Vec::new();
        {
            let mut files = self.shared.files();
            let closed = std::mem::take(&mut files.closed);
            let (gone, kept): (Vec<_>, Vec<_>) = closed.into_iter().partition(|segment| segment.last <= revision);
            files.closed = kept;
            old.extend(gone.into_iter().map(|segment| (segment.name, segment.file)));
            old.extend(files.snapshot.replace((name.clone(), number, bytes)).map(|(name, number, _)| (name, number)));
            let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
            index.files.insert(number, Arc::new(OpenFile { name, file }));
            index.rebase(places);
            for (_, number) in &old {
                index.files.remove(number);
            }
        }
        // Readers in progress have the files open.
        for (name, _) in old {
            let removed = self.shared.disk.remove(&name);
            removed.map_err(|source| Error::io(&self.shared.disk.path(&name), "removing what is no longer needed", source))?;
        }
        Ok(())
    }

    /// Writes a snapshot; `None` when the store is closed meanwhile.
    fn snapshot(&self, revision: Revision) -> Result<Option<Written>, Error> {
        let failed = |source| Error::io(&self.shared.disk.path(&snapshot_name(revision)), "writing a snapshot", source);
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let mut snapshot = Snapshot::begin(&*self.shared.disk, revision, number).map_err(failed)?;
        let written = self.reader.state(revision, |keys| {
            if self.shared.ending.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            keys.iter().try_for_each(|kv| snapshot.push(kv)).map_err(failed)
        });
        match written {
            Ok(()) => snapshot.finish().map(Some).map_err(failed),
            Err(Error::Closed) => {
                snapshot.discard();
                Ok(None)
            }
            Err(error) => {
                snapshot.discard();
                Err(error)
            }
        }
    }
}

/// The revision up to which nothing needs to be kept: older than the age kept, and further back than the revisions kept.
fn obsolete(samples: &mut VecDeque<(Instant, Revision)>, latest: Revision, keep_age: Duration, keep_revisions: u64) -> Option<Revision> {
    let mut old = None;
    while let Some((at, revision)) = samples.front().copied()
        && at.elapsed() >= keep_age
    {
        old = Some(revision);
        samples.pop_front();
    }
    let by_count = latest.checked_sub(keep_revisions)?;
    old.map(|old| old.min(by_count)).filter(|revision| *revision > 1)
}
