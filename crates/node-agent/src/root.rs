//! A directory tree as the root of a node: every path is looked up below it, and no link leads out of it.
//!
//! Folders are opened with `openat2` and `RESOLVE_IN_ROOT`, so that absolute links and `..` stay within the root while others change the tree
//! meanwhile; everything else is done with a name within a folder that is open. What changes something asks [`Steps`] first, by which tests stop
//! the agent between any two of them.

mod write;

use std::fs::File as StdFile;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// The largest file that is read.
pub const LARGEST: u64 = 64 << 20;
/// The most names of a folder.
const MOST_NAMES: usize = 100_000;
/// Attempts at a look-up that changes of others disturbed.
const ATTEMPTS: usize = 16;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An observer of the single steps of writes. An error keeps the step from being done.
pub trait Steps: Send + Sync {
    /// Called before each step.
    ///
    /// # Errors
    /// The step must not be done.
    fn before(&self, step: &'static str, path: &str) -> io::Result<()>;
}

struct Unobserved;

impl Steps for Unobserved {
    fn before(&self, _: &'static str, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A root.
#[derive(Clone)]
pub struct Root {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    steps: Arc<dyn Steps>,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Root").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The reason why something cannot be done below a root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The system refused.
    #[error("{path}: {doing}: {source}")]
    Io {
        /// The path below the root.
        path: String,
        /// The attempt.
        doing: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// A file is too large.
    #[error("{path}: has {size} bytes; at most {LARGEST} are read")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size: u64,
    },
    /// A folder has too many names.
    #[error("{path}: has more than {MOST_NAMES} names")]
    TooMany {
        /// The path.
        path: String,
    },
    /// The kernel cannot keep look-ups within a root.
    #[error("{path}: this kernel has no openat2, which keeps the agent within its root; Linux 5.6 has it")]
    Kernel {
        /// The root.
        path: String,
    },
}

/// The thing at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// A file.
    File(Attributes),
    /// A link, with its target.
    Link(String),
    /// A folder.
    Folder,
    /// Something else.
    Other,
}

/// Owner and mode of a file, and what tells one state of it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The mode, without the type.
    pub mode: u32,
    /// The owner's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// Size, inode and times of the last changes.
    pub state: (u64, u64, i64, i64, i64, i64),
}

/// Owner and group to give to a file; none stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The owner's number.
    pub user: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
}

/// The outcome of a wish for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The file has it.
    Applied,
    /// The agent has no permission for it.
    NotPermitted,
}

impl Root {
    /// Opens a root.
    ///
    /// # Errors
    /// There is no such folder, or the kernel is too old.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let shown = path.display().to_string();
        let failed = |source| RootError::Io { path: shown.clone(), doing: "open the root", source };
        let folder = rustix::fs::open(path, FOLDER, Mode::empty()).map_err(|error| failed(error.into()))?;
        let root = Self { folder: Arc::new(folder), path: path.to_owned(), steps: Arc::new(Unobserved) };
        match root.look_up("/") {
            Err(Errno::NOSYS) => Err(RootError::Kernel { path: shown }),
            Err(error) => Err(failed(error.into())),
            Ok(_) => Ok(root),
        }
    }

    /// The same root with an observer of its steps.
    #[must_use]
    pub fn observed(mut self, steps: Arc<dyn Steps>) -> Self {
        self.steps = steps;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is the root of this host.
    pub fn is_host(&self) -> bool {
        self.path == Path::new("/")
    }

    fn look_up(&self, folder: &str) -> Result<OwnedFd, Errno> {
        let mut attempts = 0;
        loop {
            let found =
                rustix::fs::openat2(&self.folder, folder, FOLDER, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS);
            match found {
                // A rename somewhere on the way: the kernel wants another try.
                Err(Errno::AGAIN | Errno::INTR) if attempts < ATTEMPTS => attempts += 1,
                found => return found,
            }
        }
    }

    /// A folder; none if it is not there, or is none.
    fn folder(&self, path: &str) -> Result<Option<OwnedFd>, RootError> {
        match self.look_up(path) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(failed(path, "look up", error)),
        }
    }

    /// The thing at a path; a link at its end is not followed.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn found(&self, path: &str) -> Result<Found, RootError> {
        let (folder, name) = split(path);
        let Some(folder) = self.folder(folder)? else { return Ok(Found::Absent) };
        let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Found::Absent),
            Err(error) => return Err(failed(path, "look at", error)),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Found::File(attributes(&stat)),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&folder, name, Vec::new()).map_err(|error| failed(path, "read the link", error))?;
                Found::Link(target.to_string_lossy().into_owned())
            }
            FileType::Directory => Found::Folder,
            _ => Found::Other,
        })
    }

    /// The content of a file; none if nothing, or no file, is there.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, RootError> {
        let (folder, name) = split(path);
        let Some(folder) = self.folder(folder)? else { return Ok(None) };
        // A pipe must not keep the agent waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
            Err(error) => return Err(failed(path, "open", error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(path, "look at", error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size > LARGEST {
            return Err(RootError::TooLarge { path: path.to_owned(), size });
        }
        let mut content = Vec::new();
        let read = StdFile::from(file).take(LARGEST).read_to_end(&mut content);
        read.map_err(|source| RootError::Io { path: path.to_owned(), doing: "read", source })?;
        Ok(Some(content))
    }

    /// The names in a folder, sorted; empty if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self, path: &str) -> Result<Vec<String>, RootError> {
        let Some(folder) = self.folder(path)? else { return Ok(Vec::new()) };
        let entries = rustix::fs::Dir::read_from(&folder).map_err(|error| failed(path, "read the folder", error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(path, "read the folder", error))?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
            if names.len() > MOST_NAMES {
                return Err(RootError::TooMany { path: path.to_owned() });
            }
        }
        names.sort();
        Ok(names)
    }

    /// The folders on the way to a path that are not there, the outermost first.
    ///
    /// # Errors
    /// They cannot be looked at.
    pub fn missing_folders(&self, path: &str) -> Result<Vec<String>, RootError> {
        let (mut missing, mut rest) = (Vec::new(), split(path).0);
        while rest != "/" && self.folder(rest)?.is_none() {
            missing.push(rest.to_owned());
            rest = split(rest).0;
        }
        missing.reverse();
        Ok(missing)
    }
}

/// The folder and the name of a path.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.trim_end_matches('/').rsplit_once('/') {
        None | Some(("", "")) => ("/", "."),
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
    }
}

fn failed(path: &str, doing: &'static str, error: Errno) -> RootError {
    RootError::Io { path: path.to_owned(), doing, source: error.into() }
}

fn attributes(stat: &Stat) -> Attributes {
    Attributes {
        mode: stat.st_mode & 0o7777,
        user: stat.st_uid,
        group: stat.st_gid,
        state: (
            u64::try_from(stat.st_size).unwrap_or_default(),
            stat.st_ino,
            stat.st_mtime,
            stat.st_mtime_nsec as i64,
            stat.st_ctime,
            stat.st_ctime_nsec as i64,
        ),
    }
}
