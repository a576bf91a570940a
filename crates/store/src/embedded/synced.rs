//! The note of how far the log is known to be on the disk.
//!
//! What cannot be read at the end of the log was either left unfinished by a crash, and then not acknowledged, or it was acknowledged and is damaged.
//! The log itself cannot tell one from the other. So each commit is noted here, after its sync and before it is acknowledged or visible:
//!
//! ```text
//!   append + sync the frame ──► note its revision (in the system's memory) ──► acknowledge ──► idle: sync the note
//! ```
//!
//! The note costs no sync of its own per commit. It outlives the process at once, and a power cut as soon as the writer has been idle for a
//! moment; under load, later frames of the log prove the earlier ones. It never runs ahead of the disk, so that a log that ends before it
//! has lost something. Two slots, each in a sector of its own, are written in turn: one of them is whole at any instant.

use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::file::UNFINISHED;
use crate::record::{u32_at, u64_at};
use crate::{Error, Revision};

/// The file's name.
pub(super) const NAME: &str = "synced";
const MAGIC: &[u8; 16] = b"mainstay synced\n";
/// The offset of the second slot.
const SECTOR: usize = 4_096;
/// Bytes of a slot: magic, count of notes, revision, checksum.
const SLOT: usize = 36;

/// The note of the latest synced revision.
pub(super) struct Synced {
    disk: Arc<dyn Disk>,
    /// The file; `None` while it cannot be created.
    file: Option<Arc<dyn DiskFile>>,
    count: u64,
    revision: Revision,
    /// True if the note is ahead of its copy on the disk.
    unsynced: bool,
}

/// The content of the file when the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Everything up to this revision was on the disk.
    Upto(Revision),
    /// There is no such file: a new store, or one of an earlier version.
    Nothing,
    /// The file is there and cannot be read.
    Damaged,
}

impl Synced {
    /// Reads the note.
    pub fn open(disk: Arc<dyn Disk>, names: &[String]) -> Result<(Self, Known), Error> {
        let mut synced = Self { disk, file: None, count: 0, revision: 0, unsynced: false };
        if !names.iter().any(|name| name == NAME) {
            return Ok((synced, Known::Nothing));
        }
        let failed = |action| {
            let path = synced.disk.path(NAME);
            move |source| Error::io(&path, action, source)
        };
        let file = synced.disk.open(NAME).map_err(failed("opening"))?;
        let mut bytes = vec![0; SECTOR + SLOT];
        let count = file.read_at(&mut bytes, 0).map_err(failed("reading"))?;
        bytes.truncate(count);
        let slots = [0, SECTOR].into_iter().filter_map(|at| decode(bytes.get(at..at + SLOT)?));
        let latest = slots.max();
        synced.file = Some(file);
        let Some((count, revision)) = latest else { return Ok((synced, Known::Damaged)) };
        (synced.count, synced.revision) = (count, revision);
        Ok((synced, Known::Upto(revision)))
    }

    /// Notes that everything up to this revision is on the disk.
    pub fn note(&mut self, revision: Revision) {
        self.revision = revision;
        self.unsynced = true;
        let Some(file) = &self.file else { return };
        self.count += 1;
        if let Err(error) = file.write_at(&encode(self.count, revision), place(self.count)) {
            // The commit is durable all the same; only damage to it could not be told from a crash.
            tracing::warn!(%error, path = %self.disk.path(NAME).display(), "how far the log is synced could not be noted");
        }
    }

    /// Returns true if there is something for [`Synced::settle`] to do.
    pub fn is_unsettled(&self) -> bool {
        self.unsynced
    }

    /// Makes the note durable; creates the file if it is missing.
    pub fn settle(&mut self) {
        if !self.unsynced {
            return;
        }
        // Whatever the outcome: the next commit tries again.
        self.unsynced = false;
        let outcome = match &self.file {
            Some(file) => file.sync(),
            None => self.make(),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, path = %self.disk.path(NAME).display(), "how far the log is synced could not be noted");
        }
    }

    /// Writes the note again and syncs it, to prove that the disk takes writes.
    pub fn prove(&mut self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return self.make() };
        self.count += 1;
        file.write_at(&encode(self.count, self.revision), place(self.count))?;
        file.sync()?;
        self.unsynced = false;
        Ok(())
    }

    /// Creates the file; its name appears when it is whole.
    fn make(&mut self) -> std::io::Result<()> {
        let unfinished = format!("{NAME}{UNFINISHED}");
        let file = self.disk.create(&unfinished)?;
        let mut bytes = vec![0; SECTOR + SLOT];
        for count in [self.count + 1, self.count + 2] {
            let at = place(count) as usize;
            bytes[at..at + SLOT].copy_from_slice(&encode(count, self.revision));
        }
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.disk.rename(&unfinished, NAME)?;
        self.disk.sync()?;
        self.count += 2;
        self.file = Some(file);
        Ok(())
    }
}

fn place(count: u64) -> u64 {
    (count % 2) * SECTOR as u64
}

fn encode(count: u64, revision: Revision) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..16].copy_from_slice(MAGIC);
    slot[16..24].copy_from_slice(&count.to_le_bytes());
    slot[24..32].copy_from_slice(&revision.to_le_bytes());
    let sum = crc32fast::hash(&slot[..32]);
    slot[32..].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// Count and revision of a slot that is whole.
fn decode(slot: &[u8]) -> Option<(u64, Revision)> {
    (slot.starts_with(MAGIC) && crc32fast::hash(&slot[..32]) == u32_at(slot, 32)).then(|| (u64_at(slot, 16), u64_at(slot, 24)))
}
