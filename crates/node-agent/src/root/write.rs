//! Writes below a root: each makes a path be something else as a whole, and is on disk when it is done.

use std::fs::File as StdFile;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{FOLDER, Owner, Ownership, Root, RootError, failed, split};

impl Root {
    /// Makes a folder, if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    pub fn make_folder(&self, path: &str, mode: u32, owner: Owner) -> Result<(), RootError> {
        let (parent, name) = self.open_parent(path)?;
        self.step("make the folder", path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.folder(path)?.is_some() => return Ok(()),
            Err(error) => return Err(failed(path, "make the folder", error)),
        }
        let made = rustix::fs::openat(&parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let made = made.map_err(|error| failed(path, "open the folder", error))?;
        // The mode counts; the mask of the process does not.
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode)).map_err(|error| failed(path, "set the mode", error))?;
        self.own(&made, path, owner)?;
        self.sync(&parent, path)
    }

    /// Makes a file be there as a whole: a temporary file beside it, with content, mode and owner, takes its place.
    ///
    /// # Errors
    /// It cannot be written; the former file is as it was.
    pub fn write(&self, path: &str, temporary: &str, content: &[u8], mode: u32, owner: Owner) -> Result<Ownership, RootError> {
        let (folder, name) = self.open_parent(path)?;
        discard(&folder, path, temporary)?;
        self.step("create", path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // No other user reads it before it has its mode.
        let file = rustix::fs::openat(&folder, temporary, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(path, "create", error))?;
        let mut file = StdFile::from(file);
        self.step("write", path)?;
        file.write_all(content).map_err(|source| RootError::Io { path: path.to_owned(), doing: "write", source })?;
        self.step("set the mode", path)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|error| failed(path, "set the mode", error))?;
        let owned = self.own(&file, path, owner)?;
        self.sync(&file, path)?;
        self.step("put in place", path)?;
        rustix::fs::renameat(&folder, temporary, &folder, name).map_err(|error| failed(path, "put in place", error))?;
        self.sync(&folder, path)?;
        Ok(owned)
    }

    /// Makes a link be there as a whole.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn link(&self, path: &str, temporary: &str, target: &str) -> Result<(), RootError> {
        let (folder, name) = self.open_parent(path)?;
        discard(&folder, path, temporary)?;
        self.step("link", path)?;
        rustix::fs::symlinkat(target, &folder, temporary).map_err(|error| failed(path, "link", error))?;
        self.step("put in place", path)?;
        rustix::fs::renameat(&folder, temporary, &folder, name).map_err(|error| failed(path, "put in place", error))?;
        self.sync(&folder, path)
    }

    /// Removes a file or link, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, path: &str) -> Result<(), RootError> {
        let (parent, name) = split(path);
        let Some(folder) = self.folder(parent)? else { return Ok(()) };
        self.step("remove", path)?;
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => self.sync(&folder, path),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(path, "remove", error)),
        }
    }

    /// Removes a folder, if it is there and empty.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_folder(&self, path: &str) -> Result<(), RootError> {
        let (parent, name) = split(path);
        let Some(folder) = self.folder(parent)? else { return Ok(()) };
        self.step("remove the folder", path)?;
        match rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.sync(&folder, path),
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(failed(path, "remove the folder", error)),
        }
    }

    /// Takes a file as a lock, for as long as the answer lives; none if another process has it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn lock(&self, path: &str) -> Result<Option<OwnedFd>, RootError> {
        let (folder, name) = self.open_parent(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(path, "open", error))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(path, "lock", error)),
        }
    }

    fn open_parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), RootError> {
        let (folder, name) = split(path);
        let open = self.look_up(folder).map_err(|error| failed(folder, "open the folder", error))?;
        Ok((open, name))
    }

    fn own(&self, file: impl AsFd, path: &str, owner: Owner) -> Result<Ownership, RootError> {
        if owner == Owner::default() {
            return Ok(Ownership::Applied);
        }
        self.step("set the owner", path)?;
        match rustix::fs::fchown(file, owner.user.map(Uid::from_raw), owner.group.map(Gid::from_raw)) {
            Ok(()) => Ok(Ownership::Applied),
            Err(Errno::PERM) => Ok(Ownership::NotPermitted),
            Err(error) => Err(failed(path, "set the owner", error)),
        }
    }

    fn sync(&self, file: impl AsFd, path: &str) -> Result<(), RootError> {
        self.step("sync", path)?;
        match rustix::fs::fsync(file) {
            // Some file systems have nothing to write for a folder.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(failed(path, "sync", error)),
        }
    }

    fn step(&self, doing: &'static str, path: &str) -> Result<(), RootError> {
        self.steps.before(doing, path).map_err(|source| RootError::Io { path: path.to_owned(), doing, source })
    }
}

/// Removes what a killed agent left behind.
fn discard(folder: &OwnedFd, path: &str, temporary: &str) -> Result<(), RootError> {
    match rustix::fs::unlinkat(folder, temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(path, "remove what was left of", error)),
    }
}
