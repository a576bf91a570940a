//! The file that a changed database replaces.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempPath;

use crate::error::Error;

/// The state of the file when it was opened. Links are followed, so that their targets are changed and the links stay.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) path: PathBuf,
    file: Option<File>,
    state: Option<State>,
}

/// The properties that show if a file is still the same.
#[derive(Debug, PartialEq, Eq)]
struct State {
    identity: (u64, u64),
    bytes: u64,
    modified: Option<SystemTime>,
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        Self { identity: identity(metadata), bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl Original {
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), file: None, state: None });
            }
            Err(error) => return Err(io(error)),
        };
        let file = File::open(&real).map_err(io)?;
        let state = State::of(&file.metadata().map_err(io)?);
        Ok(Self { path: real, file: Some(file), state: Some(state) })
    }

    /// Returns true if the file is not empty.
    pub(super) fn has_content(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.bytes > 0)
    }

    /// Replaces the file by a copy, unless the file has changed.
    pub(super) fn replace(self, copy: TempPath) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return match copy.persist_noclobber(&self.path) {
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Err(Error::Changed { path: self.path }),
                Err(error) => Err(Error::Io { path: self.path, source: error.error }),
                Ok(()) => Ok(()),
            };
        };
        // Of two programs that come to this point at once, the second waits here, and then finds another file. If the file system has no locks, a
        // moment remains between the check and the replacement.
        let _unlocked = file.lock();
        match self.is_same() {
            Ok(true) => copy.persist(&self.path).map_err(|error| Error::Io { path: self.path.clone(), source: error.error }),
            Ok(false) => Err(Error::Changed { path: self.path }),
            Err(source) => Err(Error::Io { path: self.path, source }),
        }
    }

    fn is_same(&self) -> IoResult<bool> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(self.state == Some(State::of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}
