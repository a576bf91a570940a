//! The engine's interface to a disk: a folder of files, written at offsets, synced. A seam, so that tests can cut the power.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;

/// A folder of files. Creating, renaming and removing is durable only after [`Disk::sync`].
pub(crate) trait Disk: Send + Sync {
    /// The names of its files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file; one of the same name is replaced.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; open handles can still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the folder itself durable.
    fn sync(&self) -> io::Result<()>;
    /// The path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// An open file.
pub(crate) trait DiskFile: Send + Sync {
    /// Reads as much as there is, up to the buffer's length.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes everything.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Reserves the space for this length, so that a later write into it neither fails for lack of space nor has to change the file's length.
    fn reserve(&self, length: u64) -> io::Result<()>;
    /// Cuts the file off, or lengthens it by zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Its length.
    fn len(&self) -> io::Result<u64>;
}

/// A folder of the file system, held by this process alone.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held for their locks.
    _locks: [File; 2],
}

impl Folder {
    /// Opens the folder, or creates it, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |action| move |source| Error::io(path, action, source);
        if path.is_file() {
            return Err(Error::Foreign { path: path.to_owned() });
        }
        // Private whatever the umask is: other users must not read what lies here.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("creating it"))?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("syncing the folder above"))?;
        }
        let name = path.join("lock");
        let opened = private().read(true).create(true).truncate(false).open(&name);
        let mut lock = opened.map_err(failed("opening the lock"))?;
        // The folder itself: a file in it can be removed and created again, and then two processes hold a lock each.
        let folder = File::open(path).map_err(failed("opening it"))?;
        for (file, must) in [(&folder, false), (&lock, true)] {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // Only for the message; a process that has just started has not written it yet.
                    let _ = (&lock).take(20).read_to_string(&mut holder);
                    return Err(Error::Locked { path: path.to_owned(), holder: holder.trim().parse().ok() });
                }
                Err(TryLockError::Error(source)) if must => return Err(Error::io(path, "locking", source)),
                // Some file systems have no locks for folders; the lock of the file has to do there.
                Err(TryLockError::Error(error)) => tracing::debug!(%error, path = %path.display(), "the folder cannot be locked"),
            }
        }
        let id = std::process::id();
        // A full disk must not keep the store from being read.
        if let Err(error) = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{id}")) {
            tracing::warn!(%error, path = %name.display(), "the holder of the lock could not be noted");
        }
        Ok(Self { path: path.to_owned(), _locks: [folder, lock] })
    }
}

/// Options for new files: for their owner alone, whatever the umask is.
fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = private().read(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::options().read(true).write(true).open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match std::os::unix::fs::FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, length) {
            // On a file system that cannot reserve space, the file is written all the same; the disk then fills up while writing.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => Ok(()),
            outcome => outcome.map_err(Into::into),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
