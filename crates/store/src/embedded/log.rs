//! The end of the log: appends frames durably.
//!
//! After a failed write or sync it is unknown how much of the frame is on the disk, and a second sync of the same file may succeed without having
//! written it. So the segment is abandoned: the next frame goes into a new one that begins with the revision that failed, and whatever the old one
//! holds from that revision on does not count. The same holds if it is uncertain that a new segment was begun: its name may be there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::disk::{Disk, DiskFile};
use super::file::{self, FILE_HEAD, FileHead};
use super::index::{OpenFile, Place};
use crate::record::{Frame, Kind};
use crate::{Error, Revision};

/// A segment that is no longer written to.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub name: String,
    pub file: u32,
    /// Its last revision.
    pub last: Revision,
    pub bytes: u64,
}

/// The segment that is written to.
pub(super) struct Active {
    pub name: String,
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    pub salt: u64,
    /// The offset of the next frame.
    pub end: u64,
    pub capacity: u64,
}

/// The log, to which writes are appended.
pub(super) struct Log {
    pub disk: Arc<dyn Disk>,
    pub active: Option<Active>,
    /// The sequence number of the next segment.
    pub sequence: u64,
    /// The number of the next file in places.
    pub next_file: Arc<AtomicU32>,
    pub segment_bytes: u64,
    /// The new file that readers have to know before they get places in it.
    pub opened: Option<(u32, Arc<OpenFile>)>,
    /// Segments that were closed and not yet handed over.
    pub closed: Vec<Closed>,
}

impl Log {
    /// Appends a frame of writes; they are durable when this returns. `last` is the revision before them.
    pub fn append(&mut self, frame: &mut Frame, last: Revision, compacted: Revision) -> Result<Vec<Place>, Error> {
        let needed = (frame.len() + crate::record::ALIGN) as u64;
        if self.active.as_ref().is_none_or(|active| active.end + needed > active.capacity) {
            self.rotate(needed, last, compacted)?;
        }
        let Some(active) = &mut self.active else { return Err(Error::Closed) };
        let offset = active.end;
        let bytes = frame.finish(active.salt, offset);
        let written = active.file.write_at(bytes, offset).and_then(|()| active.file.sync());
        match written {
            Ok(()) => active.end += bytes.len() as u64,
            Err(source) => {
                let failed = Error::io(&self.disk.path(&active.name), "writing", source);
                self.abandon(last);
                return Err(failed);
            }
        }
        let place = |(begin, length): &(u32, u32)| Place::new(active.number, offset + u64::from(*begin), *length);
        Ok(frame.spans.iter().map(place).collect())
    }

    /// Begins a new segment with the revision after `last`.
    fn rotate(&mut self, needed: u64, last: Revision, compacted: Revision) -> Result<(), Error> {
        let name = file::segment_name(self.sequence);
        let head = FileHead::new(last + 1, compacted);
        let capacity = self.segment_bytes.max(FILE_HEAD + needed);
        let failed = |source| Error::io(&self.disk.path(&name), "beginning a segment of the log", source);
        let file = file::begin(&*self.disk, &name, &head, capacity).map_err(failed)?;
        if let Err(source) = file::finish(&*self.disk, &name, &*file) {
            let failed = failed(source);
            // The name may be there already, and then means that the old segment counts no further. The next frame must begin a segment of the same
            // name; in the old one it would be acknowledged and then ignored by the next start.
            self.abandon(last);
            return Err(failed);
        }
        if let Some(old) = self.active.take() {
            // Releases space that was reserved and not needed; if that fails, the file is only larger.
            if let Err(error) = old.file.set_len(old.end) {
                tracing::warn!(%error, segment = old.name, "the segment could not be cut to its length");
            }
            self.closed.push(Closed { name: old.name, file: old.number, last, bytes: old.end });
        }
        self.sequence += 1;
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        self.opened = Some((number, Arc::new(OpenFile { name: name.clone(), file: file.clone() })));
        self.active = Some(Active { name, number, file, salt: head.salt, end: FILE_HEAD, capacity });
        Ok(())
    }

    fn abandon(&mut self, last: Revision) {
        if let Some(old) = self.active.take() {
            tracing::warn!(segment = old.name, "the segment is abandoned after a failure of the disk");
            self.closed.push(Closed { name: old.name, file: old.number, last, bytes: old.end });
        }
    }

    /// Notes that the file was closed in order, so that damage of its last frames cannot pass for a crash.
    pub fn seal(&mut self, revision: Revision) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let mut frame = Frame::new(Kind::Seal, revision + 1);
        let bytes = frame.finish(active.salt, active.end);
        if active.end + bytes.len() as u64 > active.capacity {
            return Ok(());
        }
        active.file.write_at(bytes, active.end)?;
        active.file.sync()?;
        active.end += bytes.len() as u64;
        Ok(())
    }
}
