//! Destinations of unpacked content: a directory, or memory.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::Modes;
use super::tree::{Id, Kind, Removed};
use crate::error::Error;

pub(super) enum Sink {
    Directory { root: PathBuf, modes: Modes },
    Memory(HashMap<Id, Vec<u8>>),
}

/// A file that is being written.
pub(super) enum Incoming {
    Disk(PathBuf, fs::File),
    Memory(Vec<u8>),
}

impl Sink {
    /// Opens a directory as a sink; it is made if it is absent.
    pub(super) fn directory(root: PathBuf, modes: Modes) -> Result<Self, Error> {
        folders(modes).recursive(true).create(&root).map_err(Error::io(&root))?;
        Ok(Self::Directory { root, modes })
    }

    pub(super) fn memory() -> Self {
        Self::Memory(HashMap::new())
    }

    pub(super) fn make_directory(&self, place: &str) -> Result<(), Error> {
        let Self::Directory { root, modes } = self else { return Ok(()) };
        let path = root.join(place);
        match folders(*modes).create(&path) {
            // The directory was not quite empty; a link would not be one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_directory(&path) => Ok(()),
            made => made.map_err(Error::io(path)),
        }
    }

    pub(super) fn make_link(&self, place: &str, target: &str) -> Result<(), Error> {
        let Self::Directory { root, .. } = self else { return Ok(()) };
        let path = root.join(place);
        #[cfg(unix)]
        std::os::unix::fs::symlink(target, &path).map_err(Error::io(&path))?;
        #[cfg(not(unix))]
        let _ = (target, path);
        Ok(())
    }

    /// Makes a new file; none of that name exists.
    pub(super) fn make_file(&self, place: &str, executable: bool) -> Result<Incoming, Error> {
        let Self::Directory { root, modes } = self else { return Ok(Incoming::Memory(Vec::new())) };
        let path = root.join(place);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            let mode = match (modes, executable) {
                (Modes::Private, false) => 0o600,
                (Modes::Private, true) => 0o700,
                (Modes::Umask, false) => 0o666,
                (Modes::Umask, true) => 0o777,
            };
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        }
        #[cfg(not(unix))]
        let _ = (modes, executable);
        let file = options.open(&path).map_err(Error::io(&path))?;
        Ok(Incoming::Disk(path, file))
    }

    /// Keeps a file that was written completely.
    pub(super) fn keep(&mut self, id: Id, file: Incoming) {
        if let (Self::Memory(files), Incoming::Memory(bytes)) = (self, file) {
            files.insert(id, bytes);
        }
    }

    /// Opens an existing file to read.
    pub(super) fn read(&self, id: Id, place: &str) -> Result<Box<dyn Read>, Error> {
        match self {
            Self::Directory { root, .. } => {
                let path = root.join(place);
                Ok(Box::new(fs::File::open(&path).map_err(Error::io(&path))?))
            }
            Self::Memory(_) => Ok(Box::new(io::Cursor::new(self.content(id).to_vec()))),
        }
    }

    /// A file in memory.
    pub(super) fn content(&self, id: Id) -> &[u8] {
        match self {
            Self::Memory(files) => files.get(&id).map(Vec::as_slice).unwrap_or_default(),
            Self::Directory { .. } => &[],
        }
    }

    /// All files in memory.
    pub(super) fn into_files(self) -> HashMap<Id, Vec<u8>> {
        match self {
            Self::Memory(files) => files,
            Self::Directory { .. } => HashMap::new(),
        }
    }

    pub(super) fn remove(&mut self, removed: &Removed, place: &str) -> Result<(), Error> {
        match self {
            Self::Directory { root, .. } => {
                let path = root.join(place);
                let gone = if matches!(removed.kind, Kind::Directory(_)) { fs::remove_dir(&path) } else { fs::remove_file(&path) };
                gone.map_err(Error::io(path))
            }
            Self::Memory(files) => {
                files.remove(&removed.id);
                Ok(())
            }
        }
    }
}

impl Incoming {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Disk(path, file) => file.write_all(bytes).map_err(Error::io(&*path)),
            Self::Memory(content) => {
                content.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn folders(modes: Modes) -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    if modes == Modes::Private {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    #[cfg(not(unix))]
    let _ = modes;
    builder
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
