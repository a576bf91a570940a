//! Files mapped into memory: the reason for which this crate may use `unsafe`.
//!
//! A catalog is tens of megabytes and is read in small pieces, by ranges. Mapping gives those pieces without copying the file into the
//! heap, shares them between processes, and opens in the time of one system call.

use std::fs::File;
use std::path::Path;

use crate::error::StoreError;

/// A file mapped into memory, read only.
#[derive(Debug)]
pub struct Map(Option<memmap2::Mmap>);

impl Map {
    /// Maps a whole file. It must be a file that never changes in place; see the safety comment.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::of(&File::open(path).map_err(StoreError::io("opening", path))?, path)
    }

    /// Maps a whole file that is open; `path` is for messages.
    pub(crate) fn of(file: &File, path: &Path) -> Result<Self, StoreError> {
        let length = file.metadata().map_err(StoreError::io("reading the size of", path))?.len();
        // An empty file cannot be mapped.
        if length == 0 {
            return Ok(Self(None));
        }
        // SAFETY: undefined behaviour would need the bytes under the map to change or the file to be cut short. Files of the store are
        // written in a directory of their own, synced, and renamed into place; after that this program only ever removes or replaces
        // whole files by rename, which keeps the mapped ones alive. The directory belongs to this process alone (OLM1-GEN-09), and another
        // program that scribbles in it could as well change the program's own files.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(file) }.map_err(StoreError::io("mapping", path))?;
        Ok(Self(Some(map)))
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}
