//! Opening: the latest snapshot, then the log after it.
//!
//! A crash leaves at most one frame that was not acknowledged, at the very end; it is cut off. Anything else that cannot be read is damage, and is
//! reported with the file, the offset and the revision: acknowledged writes are never skipped. [`super::synced`] tells if the last frame was
//! acknowledged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;

use super::disk::{Disk, DiskFile};
use super::file::{self, FileHead, Found, Magic, Scan, UNFINISHED};
use super::index::{Index, OpenFile, Place};
use super::log::{Active, Closed, Log};
use super::snapshot;
use super::synced::{self, Known, Synced};
use crate::record::{self, ALIGN, Head, Kind};
use crate::{Error, Event, KeyValue, Revision};

/// The record that contradicts those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Contradiction(String);

/// The content of a folder.
pub(super) struct Recovered {
    pub index: Index,
    pub log: Log,
    /// The note of how far the log is on the disk.
    pub synced: Synced,
    /// Segments that are no longer written to.
    pub closed: Vec<Closed>,
    /// The snapshot that the log builds on.
    pub snapshot: Option<(String, u32, u64)>,
}

struct Segment {
    name: String,
    file: Arc<dyn DiskFile>,
    head: FileHead,
}

/// Reads a folder; an empty one is a new store.
pub(super) fn open(disk: Arc<dyn Disk>, segment_bytes: u64) -> Result<Recovered, Error> {
    let mut names = disk.names().map_err(|source| Error::io(&disk.path(""), "reading the folder", source))?;
    names.sort();
    // A rename just before a crash may not be durable yet, and what is written or removed from here on relies on all of them.
    disk.sync().map_err(|source| Error::io(&disk.path(""), "syncing the folder", source))?;
    for name in names.iter().filter(|name| name.ends_with(UNFINISHED)) {
        remove(&*disk, name)?;
    }
    let (mut synced, known) = Synced::open(disk.clone(), &names)?;
    let next_file = Arc::new(AtomicU32::new(0));
    let number = || next_file.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut snapshots: Vec<&String> = names.iter().filter(|name| file::numbered(name, ".snapshot").is_some()).collect();
    let (mut index, mut snapshot) = (Index::new(1), None);
    if let Some(name) = snapshots.pop() {
        let number = number();
        let (loaded, bytes) = snapshot::load(&*disk, name, number)?;
        (index, snapshot) = (loaded, Some((name.clone(), number, bytes)));
    }
    for old in snapshots {
        remove(&*disk, old)?;
    }
    let logs: Vec<&String> = names.iter().filter(|name| file::numbered(name, ".log").is_some()).collect();
    let sequence = logs.last().and_then(|name| file::numbered(name, ".log")).map_or(0, |last| last + 1);
    let mut segments = Vec::new();
    for name in logs {
        let file = disk.open(name).map_err(|source| Error::io(&disk.path(name), "opening", source))?;
        let head = Scan::open(disk.path(name), Magic::Store, &*file)?.head;
        segments.push(Segment { name: name.clone(), file, head });
    }
    let (mut closed, mut active, mut compacted) = (Vec::new(), None, index.revision);
    for at in 0..segments.len() {
        let (segment, next) = (&segments[at], segments.get(at + 1).map(|segment| segment.head.revision));
        if next.is_some_and(|next| next <= index.revision + 1 && index.revision == index.compacted) {
            // All of it is in the snapshot.
            remove(&*disk, &segment.name)?;
            continue;
        }
        if segment.head.revision > index.revision + 1 {
            let problem = format!("revisions {} to {} are missing before it", index.revision + 1, segment.head.revision - 1);
            return Err(Error::Corrupt { path: disk.path(&segment.name), problem });
        }
        let number = number();
        index.files.insert(number, Arc::new(OpenFile { name: segment.name.clone(), file: segment.file.clone() }));
        let (end, tail) = replay(&*disk, segment, number, next, known, &mut index, &mut compacted)?;
        if next.is_some() {
            closed.push(Closed { name: segment.name.clone(), file: number, last: index.revision, bytes: end });
        } else {
            active = Some(resume(&*disk, segment, number, end, tail, segment_bytes)?);
        }
    }
    if let Some(problem) = lost(&*disk, index.revision, known) {
        let path = disk.path(active.as_ref().map_or("", |active| active.name.as_str()));
        return Err(Error::Corrupt { path, problem });
    }
    // What was read is on the disk, and is visible from here on.
    synced.note(index.revision);
    synced.settle();
    let latest = index.revision;
    index.compact(compacted.min(latest));
    let log = Log { disk, active, sequence, next_file, segment_bytes, opened: None, closed: Vec::new() };
    Ok(Recovered { index, log, synced, closed, snapshot })
}

/// Describes what is missing of what was synced, if the log ends at a revision.
fn lost(disk: &dyn Disk, seen: Revision, known: Known) -> Option<String> {
    let Known::Upto(synced) = known else { return None };
    (synced > seen).then(|| {
        let note = disk.path(synced::NAME);
        format!(
            "the log ends after revision {seen}, but everything up to revision {synced} was on the disk: revisions {} to {synced} are lost \
             (to go on without them, remove {})",
            seen + 1,
            note.display()
        )
    })
}

fn remove(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    disk.remove(name).map_err(|source| Error::io(&disk.path(name), "removing what is no longer needed", source))
}

/// The last frame of a segment: its offset, and a flag for a segment that was closed in order.
#[derive(Clone, Copy)]
struct Tail {
    offset: u64,
    sealed: bool,
}

/// Applies the content of a segment after the index' revision; returns the offset of the next frame, and the frame before that. `next` is the first
/// revision of the segment after it, from which on this one does not count.
fn replay(
    disk: &dyn Disk,
    segment: &Segment,
    number: u32,
    next: Option<Revision>,
    known: Known,
    index: &mut Index,
    compacted: &mut Revision,
) -> Result<(u64, Tail), Error> {
    let mut scan = Scan::open(disk.path(&segment.name), Magic::Store, &*segment.file)?;
    *compacted = (*compacted).max(scan.head.compacted);
    let mut seen = scan.head.revision - 1;
    let mut tail = Tail { offset: scan.offset, sealed: false };
    let mut before = tail;
    loop {
        let at = scan.offset;
        let found = scan.next()?;
        if let Found::Frame(head, ..) = &found {
            (before, tail) = (tail, Tail { offset: at, sealed: head.kind == Kind::Seal });
        }
        let problem = match found {
            Found::Frame(head, ..) if next.is_some_and(|next| seen + 1 >= next && head.first >= next) => return Ok((at, before)),
            Found::Frame(Head { kind: Kind::Commit, first, .. }, ..) if first != seen + 1 => {
                return Err(scan.corrupt(format!("revision {seen} is followed by {first} at offset {at}")));
            }
            Found::Frame(head @ Head { kind: Kind::Commit, .. }, body, offset) => match record::records(&head, &body) {
                Ok(records) => {
                    for (revision, record, begin, length) in records {
                        seen = revision;
                        if revision > index.revision {
                            take(index, &record, revision, Place::new(number, offset + u64::from(begin), length))
                                .map_err(|problem| scan.corrupt(format!("{problem}, at offset {at}")))?;
                        }
                    }
                    continue;
                }
                Err(problem) => problem.to_string(),
            },
            Found::Frame(head @ Head { kind: Kind::Compacted, .. }, ..) => {
                *compacted = (*compacted).max(head.first);
                continue;
            }
            Found::Frame(Head { kind: Kind::Seal, .. }, ..) => continue,
            Found::Frame(Head { kind, .. }, ..) => return Err(scan.corrupt(format!("a frame of kind {kind:?} stands at offset {at}"))),
            Found::Nothing => "what stands there is no frame".to_owned(),
        };
        if let Some(next) = next {
            // The following segment begins where this one was left, be it full or abandoned.
            if seen + 1 == next {
                return Ok((at, tail));
            }
            scan.offset = at;
            let problem = if scan.rest_is_zero()? {
                format!("it ends in order at offset {at}, but revisions {} to {} are missing after it", seen + 1, next - 1)
            } else {
                damaged(seen, at, next, None, &problem)
            };
            return Err(scan.corrupt(problem));
        }
        // The last write may not have reached the disk as a whole; but then nothing follows it.
        scan.offset = at;
        let clean = scan.rest_is_zero()?;
        scan.offset = at + ALIGN as u64;
        if let Some((head, offset)) = scan.find()? {
            return Err(scan.corrupt(damaged(seen, at, head.first, Some(offset), &problem)));
        }
        if !clean && let Some(lost) = lost(disk, seen, known) {
            return Err(scan.corrupt(format!("{problem} at offset {at}: {lost}")));
        }
        if !clean && known == Known::Damaged {
            let note = disk.path(synced::NAME);
            return Err(scan.corrupt(format!(
                "{problem} at offset {at}, after revision {seen}, and {} is damaged as well: whether something is lost cannot be known (to go \
                 on without it, remove that file)",
                note.display()
            )));
        }
        if !clean {
            tracing::warn!(path = %disk.path(&segment.name).display(), offset = at, revision = seen, "cut off a write that a crash left unfinished and nobody was told of");
            let cut = segment.file.set_len(at).and_then(|()| segment.file.sync());
            cut.map_err(|source| Error::io(&disk.path(&segment.name), "cutting off an unfinished write", source))?;
        }
        // A frame whose records could not be applied does not count.
        return Ok((at, if tail.offset == at { before } else { tail }));
    }
}

fn damaged(seen: Revision, at: u64, next: Revision, found: Option<u64>, problem: &str) -> String {
    let place = found.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
    let lost =
        if next > seen + 1 { format!("revisions {} to {} are lost", seen + 1, next - 1) } else { "its last writes may be lost".into() };
    format!("{problem} at offset {at}, after revision {seen}, but the log goes on{place}: {lost}")
}

fn take(index: &mut Index, record: &record::Record<'_>, revision: Revision, place: Place) -> Result<(), Contradiction> {
    let event = if record.deleted {
        let Some(live) = index.state(record.key) else {
            return Err(Contradiction(format!("revision {revision} deletes {}, which is not there", record.key)));
        };
        Event::Delete { revision, before: live.of(record.key) }
    } else {
        let (key, value) = (record.key.to_owned(), Bytes::copy_from_slice(record.value));
        let now = KeyValue { key, value, created: record.created, modified: revision, version: record.version };
        Event::Put { now, before: None }
    };
    index.apply(&event, place);
    Ok(())
}

/// Goes on writing to the last segment.
fn resume(disk: &dyn Disk, segment: &Segment, number: u32, end: u64, tail: Tail, segment_bytes: u64) -> Result<Active, Error> {
    if !tail.sealed {
        // The previous process may have stopped while it synced the last frame, or because it could not: what is read here may not be on the disk,
        // and after a failed sync another one alone would not bring it there. From here on it is visible, so it has to be durable.
        match rewrite(&*segment.file, tail.offset, end) {
            // As below: what is there can be read.
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                tracing::warn!(%error, segment = segment.name, "the end of the log could not be written again");
            }
            outcome => outcome.map_err(|source| Error::io(&disk.path(&segment.name), "syncing its end", source))?,
        }
    }
    let mut capacity = segment.file.len().map_err(|source| Error::io(&disk.path(&segment.name), "reading its length", source))?;
    if capacity < segment_bytes {
        match segment.file.reserve(segment_bytes) {
            Ok(()) => capacity = segment_bytes,
            // A full disk must not keep the store from being read; the next write begins another segment, or fails.
            Err(error) => tracing::warn!(%error, segment = segment.name, "no space could be reserved for the log"),
        }
    }
    let (name, file) = (segment.name.clone(), segment.file.clone());
    Ok(Active { name, number, file, salt: segment.head.salt, end, capacity })
}

/// Writes bytes of a file again in their own place, and syncs it.
fn rewrite(file: &dyn DiskFile, begin: u64, end: u64) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(end - begin).map_err(io::Error::other)?];
    let count = file.read_at(&mut bytes, begin)?;
    if count > 0 {
        file.write_at(&bytes[..count], begin)?;
    }
    file.sync()
}
