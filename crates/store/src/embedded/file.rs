//! The two kinds of files, log segments and snapshots: names, heads, and reading them frame by frame.
//!
//! ```text
//!   000...07.log        head | frame | frame | ... | zeros (reserved)     writes, in revision order
//!   000...1234.snapshot head | frame of keys | ... | end                  every key as of revision 1234
//! ```

use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use crate::record::{ALIGN, FRAME_HEAD, Head, u32_at, u64_at};
use crate::{Error, Revision};

/// Bytes of a file's head; the first frame follows.
pub(crate) const FILE_HEAD: u64 = 64;
/// The format that this program writes and reads.
pub(super) const FORMAT: u32 = 2;
/// The suffix of a file's name until it is whole.
pub(super) const UNFINISHED: &str = ".new";

/// The magic number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    /// A file of a store.
    Store,
    /// A backup.
    Backup,
}

impl Magic {
    fn bytes(self) -> &'static [u8; 16] {
        match self {
            Self::Store => b"mainstay store\n\0",
            Self::Backup => b"mainstay backup\n",
        }
    }
}

/// Bytes that are read at once.
const WINDOW: usize = 1 << 20;

/// The head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// Mixed into the checksums of the file's frames.
    pub salt: u64,
    /// A segment's first revision; a snapshot's revision.
    pub revision: Revision,
    /// The revision up to which history was gone when the file was begun.
    pub compacted: Revision,
}

impl FileHead {
    /// A head for a new file, with an unpredictable salt.
    pub fn new(revision: Revision, compacted: Revision) -> Self {
        let salt = std::hash::RandomState::new().build_hasher().finish();
        Self { salt, revision, compacted }
    }

    /// The head's bytes.
    pub fn encode(&self, magic: Magic) -> [u8; FILE_HEAD as usize] {
        let mut out = [0; FILE_HEAD as usize];
        out[..16].copy_from_slice(magic.bytes());
        out[16..20].copy_from_slice(&FORMAT.to_le_bytes());
        out[24..32].copy_from_slice(&self.salt.to_le_bytes());
        out[32..40].copy_from_slice(&self.revision.to_le_bytes());
        out[40..48].copy_from_slice(&self.compacted.to_le_bytes());
        let sum = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// The number in a name like `0000000000000007.log`.
pub(super) fn numbered(name: &str, extension: &str) -> Option<u64> {
    let digits = name.strip_suffix(extension)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The name of a segment, by the order in which segments were begun.
pub(super) fn segment_name(sequence: u64) -> String {
    format!("{sequence:020}.log")
}

/// The name of a snapshot.
pub(super) fn snapshot_name(revision: Revision) -> String {
    format!("{revision:020}.snapshot")
}

/// Begins a file under its unfinished name.
pub(super) fn begin(disk: &dyn Disk, name: &str, head: &FileHead, reserve: u64) -> io::Result<Arc<dyn DiskFile>> {
    let unfinished = format!("{name}{UNFINISHED}");
    let file = disk.create(&unfinished)?;
    let written = if reserve > 0 { file.reserve(reserve) } else { Ok(()) }.and_then(|()| file.write_at(&head.encode(Magic::Store), 0));
    match written {
        Ok(()) => Ok(file),
        Err(error) => {
            // What is left over is removed at the next start as well; the first failure is the one to report.
            let _ = disk.remove(&unfinished);
            Err(error)
        }
    }
}

/// Gives a complete file its final name, durably.
pub(super) fn finish(disk: &dyn Disk, name: &str, file: &dyn DiskFile) -> io::Result<()> {
    let unfinished = format!("{name}{UNFINISHED}");
    let done = file.sync().and_then(|()| disk.rename(&unfinished, name)).and_then(|()| disk.sync());
    if done.is_err() {
        // As above.
        let _ = disk.remove(&unfinished);
    }
    done
}

/// Reads a file from its head on.
pub(crate) struct Scan<'a> {
    path: PathBuf,
    magic: Magic,
    file: &'a dyn DiskFile,
    /// The file's head.
    pub head: FileHead,
    /// The offset of the next frame.
    pub offset: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// The result of reading at an offset of a file.
pub(crate) enum Found {
    /// A frame with its records' bytes, which begins at this offset.
    Frame(Head, Vec<u8>, u64),
    /// No frame: the end, or damage.
    Nothing,
}

impl<'a> Scan<'a> {
    /// Reads the head.
    pub fn open(path: PathBuf, magic: Magic, file: &'a dyn DiskFile) -> Result<Self, Error> {
        let none = FileHead { salt: 0, revision: 0, compacted: 0 };
        let mut scan = Self { path, magic, file, head: none, offset: FILE_HEAD, window: Vec::new(), window_at: 0 };
        let bytes = scan.bytes(0, FILE_HEAD as usize)?;
        if bytes.len() < FILE_HEAD as usize || &bytes[..16] != magic.bytes() {
            return Err(scan.corrupt(match magic {
                Magic::Store => "this is no file of a store, or its beginning is damaged",
                Magic::Backup => "this is no backup, or its beginning is damaged",
            }));
        }
        let format = u32_at(bytes, 16);
        if crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(scan.corrupt("its head has a wrong checksum"));
        }
        if format != FORMAT {
            return Err(Error::Format { path: scan.path, found: format.into(), known: FORMAT.into() });
        }
        scan.head = FileHead { salt: u64_at(bytes, 24), revision: u64_at(bytes, 32), compacted: u64_at(bytes, 40) };
        Ok(scan)
    }

    /// Reads the frame at the current offset, and moves behind it. The records' checksums are not checked yet.
    pub fn next(&mut self) -> Result<Found, Error> {
        let (offset, salt) = (self.offset, self.head.salt);
        let Some(head) = Head::decode(self.bytes(offset, FRAME_HEAD)?, salt, offset) else { return Ok(Found::Nothing) };
        let body = self.bytes(offset + FRAME_HEAD as u64, head.length as usize)?;
        if body.len() < head.length as usize {
            return Ok(Found::Nothing);
        }
        let body = body.to_vec();
        if self.magic == Magic::Backup {
            // No checksum covers the padding of a frame. A store is read on despite wrong padding; a backup is whole or refused.
            let fill = head.size() as usize - FRAME_HEAD - body.len();
            if *self.bytes(offset + (FRAME_HEAD + body.len()) as u64, fill)? != [0; ALIGN][..fill] {
                return Ok(Found::Nothing);
            }
        }
        self.offset += head.size();
        Ok(Found::Frame(head, body, offset))
    }

    /// Returns true if nothing but zeros follows from here on.
    pub fn rest_is_zero(&mut self) -> Result<bool, Error> {
        let mut at = self.offset;
        loop {
            let bytes = self.bytes(at, WINDOW)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            if bytes.len() < WINDOW {
                return Ok(true);
            }
            at += WINDOW as u64;
        }
    }

    /// The first frame from here on, whatever precedes it, and its offset.
    pub fn find(&mut self) -> Result<Option<(Head, u64)>, Error> {
        let (salt, mut at) = (self.head.salt, self.offset);
        loop {
            let bytes = self.bytes(at, WINDOW)?;
            for begin in (0..(bytes.len() + 1).saturating_sub(FRAME_HEAD)).step_by(ALIGN) {
                if let Some(head) = Head::decode(&bytes[begin..], salt, at + begin as u64) {
                    return Ok(Some((head, at + begin as u64)));
                }
            }
            if bytes.len() < WINDOW {
                return Ok(None);
            }
            // A head may cross the end of the window: windows overlap by one head.
            at += (WINDOW - FRAME_HEAD) as u64;
        }
    }

    /// Up to `length` bytes at `offset`.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], Error> {
        let end = offset + length as u64;
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            self.window.resize(length.max(WINDOW), 0);
            let read = self.file.read_at(&mut self.window, offset);
            let count = read.map_err(|source| Error::io(&self.path, "reading", source))?;
            self.window.truncate(count);
            self.window_at = offset;
        }
        let begin = ((offset - self.window_at) as usize).min(self.window.len());
        Ok(&self.window[begin..(begin + length).min(self.window.len())])
    }

    /// An error that says that the file is damaged.
    pub fn corrupt(&self, problem: impl Into<String>) -> Error {
        let (path, problem) = (self.path.clone(), problem.into());
        match self.magic {
            Magic::Store => Error::Corrupt { path, problem },
            Magic::Backup => Error::Backup { path, problem },
        }
    }
}
