//! Limits on the cost of unpacking.

use std::cell::Cell;
use std::rc::Rc;

use super::UnpackLimits;
use crate::error::Error;

pub(super) const ENTRIES: &str = "number of entries";
pub(super) const LINKS: &str = "number of links";
pub(super) const TOTAL: &str = "size of all files in bytes";
pub(super) const FILE: &str = "size of a file in bytes";
pub(super) const READ: &str = "size uncompressed in bytes";
pub(super) const WRITTEN: &str = "number of bytes written";
pub(super) const EXPANSION: &str = "growth of the content over its compressed size";
pub(super) const STEPS: &str = "work of following paths and links";

/// Parts of paths that may be looked at in any case; more are allowed for each entry. Real images need about ten an entry.
const FREE_STEPS: u64 = 1_000_000;
const STEPS_AN_ENTRY: u64 = 64;

/// The amounts spent so far, over all layers.
pub(crate) struct Budget {
    pub(super) limits: UnpackLimits,
    /// Bytes of the files that exist now.
    pub(super) bytes: u64,
    pub(super) written: u64,
    pub(super) entries: u64,
    pub(super) links: u64,
    /// Bytes of blobs that were read, compressed as they are.
    pub(super) consumed: Rc<Cell<u64>>,
    /// Bytes that were read, uncompressed.
    pub(super) read: Rc<Cell<u64>>,
    pub(super) steps: Cell<u64>,
}

/// The exceeded budget: its name and its limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over(pub &'static str, pub u64);

impl Over {
    pub(super) fn of(self, subject: &str) -> Error {
        Error::Limit { subject: subject.to_owned(), what: self.0, limit: self.1 }
    }
}

impl Budget {
    pub(crate) fn new(limits: UnpackLimits) -> Self {
        Self { limits, bytes: 0, written: 0, entries: 0, links: 0, consumed: Rc::default(), read: Rc::default(), steps: Cell::new(0) }
    }

    pub(super) fn entry(&mut self) -> Result<(), Over> {
        self.entries += 1;
        if self.entries > self.limits.entries { Err(Over(ENTRIES, self.limits.entries)) } else { Ok(()) }
    }

    /// Checks a file of that size against the budget, before any of it is written.
    pub(super) fn file(&self, size: u64) -> Result<(), Over> {
        if size > self.limits.file_bytes {
            return Err(Over(FILE, self.limits.file_bytes));
        }
        if self.bytes.saturating_add(size) > self.limits.total_bytes {
            return Err(Over(TOTAL, self.limits.total_bytes));
        }
        Ok(())
    }

    /// Takes bytes to write from the budget.
    pub(super) fn write(&mut self, count: u64) -> Result<(), Over> {
        self.written = self.written.saturating_add(count);
        if self.written > self.limits.written_bytes {
            return Err(Over(WRITTEN, self.limits.written_bytes));
        }
        expansion(&self.limits, self.written, self.consumed.get())
    }

    pub(super) fn worked(&self) -> Result<(), Over> {
        let allowed = FREE_STEPS.saturating_add(self.entries.saturating_mul(STEPS_AN_ENTRY));
        if self.steps.get() > allowed { Err(Over(STEPS, allowed)) } else { Ok(()) }
    }
}

/// Checks that so many bytes may come out of so many bytes of blobs.
pub(super) fn expansion(limits: &UnpackLimits, out: u64, consumed: u64) -> Result<(), Over> {
    let allowed = limits.free_bytes.saturating_add(consumed.saturating_mul(limits.ratio));
    if out > allowed { Err(Over(EXPANSION, limits.ratio)) } else { Ok(()) }
}
