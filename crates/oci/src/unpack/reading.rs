//! Readers of archives: uncompressed, and counted on both sides.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::rc::Rc;

use super::MAX_HEAD;
use super::UnpackLimits;
use super::budget::{Budget, Over, READ, expansion};
use crate::error::Error;

/// The largest window that a zstd frame may ask for, as a power of two: 128 MiB, so that a small blob cannot ask for gigabytes of memory.
const MAX_WINDOW_LOG: u32 = 27;

/// Opens the archive inside a blob, by its first bytes: media types are not always right.
pub(crate) fn decompressed(file: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::with_capacity(128 << 10, file);
    let start = reader.fill_buf()?;
    Ok(if start.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(reader))
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        Box::new(decoder)
    } else {
        Box::new(reader)
    })
}

/// A reader of an uncompressed blob, which fails when the blob yields more than the budget allows.
pub(crate) struct Bounded {
    inner: Box<dyn Read>,
    limits: UnpackLimits,
    consumed: Rc<Cell<u64>>,
    read: Rc<Cell<u64>>,
    /// Bytes of this layer so far.
    place: u64,
    /// End of the range in which the next head may lie.
    reach: Rc<Cell<u64>>,
}

impl Bounded {
    pub(crate) fn new(file: fs::File, budget: &Budget, head: u64) -> io::Result<Self> {
        let consumed = budget.consumed.clone();
        let inner = decompressed(Consumed { file, count: consumed.clone() })?;
        Ok(Self { inner, limits: budget.limits, consumed, read: budget.read.clone(), place: 0, reach: Rc::new(Cell::new(head)) })
    }

    /// Returns the end of the range in which the next head may lie; to be set past each entry's content.
    pub(crate) fn reach(&self) -> Rc<Cell<u64>> {
        self.reach.clone()
    }
}

/// A file whose bytes are counted as they are, still compressed.
struct Consumed {
    file: fs::File,
    count: Rc<Cell<u64>>,
}

impl Read for Consumed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.count.set(self.count.get().saturating_add(count as u64));
        Ok(count)
    }
}

/// The budget for which a [`Bounded`] reader failed.
#[derive(Debug, thiserror::Error)]
#[error("more than the limit")]
struct TooMuch(Over);

#[derive(Debug, thiserror::Error)]
#[error("the head of an entry is longer than the limit")]
struct LongHead;

/// Returns the position at which the content of an entry ends in its archive.
pub(crate) fn end_of(entry: &tar::Entry<'_, impl Read>) -> u64 {
    // A sparse file is larger than what the archive holds of it.
    let sparse = entry.header().entry_type().is_gnu_sparse();
    let size = if sparse { entry.header().entry_size().unwrap_or_default() } else { entry.size() };
    entry.raw_file_position().saturating_add(size)
}

/// Turns a failure to read an archive into an error, or into the budget that it broke.
pub(crate) fn unreadable(subject: &str, error: &io::Error) -> Error {
    let inner = error.get_ref();
    if let Some(TooMuch(over)) = inner.and_then(|inner| inner.downcast_ref()) {
        return over.of(subject);
    }
    if inner.and_then(|inner| inner.downcast_ref::<LongHead>()).is_some() {
        return Error::Limit { subject: subject.to_owned(), what: "size of the head of an entry in bytes", limit: MAX_HEAD };
    }
    Error::content(subject, format!("the archive cannot be read: {error}"))
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = self.read.get().saturating_add(count as u64);
        self.read.set(read);
        self.place += count as u64;
        if read > self.limits.read_bytes {
            return Err(io::Error::other(TooMuch(Over(READ, self.limits.read_bytes))));
        }
        expansion(&self.limits, read, self.consumed.get()).map_err(|over| io::Error::other(TooMuch(over)))?;
        if self.place > self.reach.get() {
            return Err(io::Error::other(LongHead));
        }
        Ok(count)
    }
}
