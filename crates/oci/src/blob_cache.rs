//! Blobs shared by all processes on this machine: each is fetched once, and taken from here when it is needed again.
//!
//! ```text
//!   <root>/blobs/<algorithm>/<hex>     the content; its modification time is the time of its last use
//!   <root>/blobs/.partial-...          the partial content of interrupted transfers
//!   <root>/work/<id>/                  one user's own store, of hard links into `blobs`
//!   <root>/work/<id>.lock              locked while that user lives
//! ```
//!
//! A user never reads below `blobs`: it takes a link into its own folder, so nothing vanishes under it, whatever other processes evict. The
//! number of links tells which blobs are in use, and the system itself frees a blob when its last link is removed. The next process that opens
//! the cache removes what a dead process left in `work`.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::digest::{Digest, Hasher};
use crate::error::Error;
use crate::private;
use crate::store::BlobStore;

/// Age after which a transfer that was not resumed is given up.
const PARTIAL_AGE: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);

/// A directory of blobs of bounded size.
#[derive(Debug, Clone)]
pub struct BlobCache {
    root: PathBuf,
    max_bytes: u64,
}

/// A store of one user, removed with the value: part of a [`BlobCache`], or private.
#[derive(Debug)]
pub struct Workspace {
    store: BlobStore,
    hold: Hold,
}

/// Owner of a workspace's folder.
#[derive(Debug)]
enum Hold {
    Own(#[allow(dead_code, reason = "removes the folder when it goes")] tempfile::TempDir),
    Shared(Lease),
}

/// A folder in a cache, with the lock that marks it as in use.
#[derive(Debug)]
struct Lease {
    cache: BlobCache,
    lock: fs::File,
    lock_path: PathBuf,
}

impl BlobCache {
    /// Opens the cache below a directory, which is made if it is absent. Beyond `max_bytes` the least recently used blobs are evicted.
    pub fn open(root: impl Into<PathBuf>, max_bytes: u64) -> Result<Self, Error> {
        let cache = Self { root: root.into(), max_bytes };
        for directory in [cache.root.join("blobs").join("sha256"), cache.root.join("work")] {
            private::folder(&directory).map_err(Error::io(&directory))?;
        }
        cache.remove_dead_work()?;
        Ok(cache)
    }

    /// Opens a new store of its own that shares its blobs with the cache.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        let work = self.root.join("work");
        let id = uuid::Uuid::new_v4().to_string();
        // It gets its name when it is locked, so that no other process takes it for one of a dead process in between.
        let (unlocked, lock_path) = (work.join(format!("{id}.new")), work.join(format!("{id}.lock")));
        let lock = private::new_file(&unlocked).map_err(Error::io(&unlocked))?;
        lock.lock().map_err(Error::io(&unlocked))?;
        fs::rename(&unlocked, &lock_path).map_err(Error::io(&lock_path))?;
        let store = BlobStore::sharing(work.join(id), self.clone())?;
        Ok(Workspace { store, hold: Hold::Shared(Lease { cache: self.clone(), lock, lock_path }) })
    }

    /// Returns the bytes of all blobs in the cache.
    pub fn size(&self) -> Result<u64, Error> {
        Ok(self.entries()?.iter().map(|entry| entry.size).sum())
    }

    /// Removes the least recently used blobs until the rest fits; blobs in use stay. Returns the number of blobs removed.
    pub fn evict(&self) -> Result<usize, Error> {
        let path = self.root.join("evict.lock");
        let lock = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(Error::io(&path))?;
        // A concurrent eviction may have looked while this user's blobs were still in use, so it is waited for and not relied on.
        lock.lock().map_err(Error::io(&path))?;
        let mut entries = self.entries()?;
        entries.sort_by_key(|entry| entry.used);
        let mut size: u64 = entries.iter().map(|entry| entry.size).sum();
        let mut removed = 0;
        for entry in entries.into_iter().filter(|entry| !entry.shared) {
            if size <= self.max_bytes {
                break;
            }
            // Another process may take a link at this very moment: its content stays whole.
            remove_if_there(&entry.path)?;
            size -= entry.size;
            removed += 1;
        }
        Ok(removed)
    }

    pub(crate) fn partials(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Links a blob to a place of the user's, after comparing it with its digest; a damaged blob is removed. Returns true if there was one.
    pub(crate) fn take(&self, digest: &Digest, place: &Path) -> Result<bool, Error> {
        let path = self.path(digest);
        if let Some(parent) = place.parent() {
            private::folder(parent).map_err(Error::io(parent))?;
        }
        match fs::hard_link(&path, place) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(true),
            Err(error) => return Err(Error::Io { path, source: error }),
        }
        if digest_of(place, digest)? == *digest {
            touch(place)?;
            return Ok(true);
        }
        tracing::warn!(path = %path.display(), "a blob of the cache was changed or damaged and is fetched anew");
        remove_if_there(&path)?;
        remove_if_there(place)?;
        Ok(false)
    }

    /// Adds a blob of a user to the cache, for others.
    pub(crate) fn give(&self, digest: &Digest, place: &Path) -> Result<(), Error> {
        let path = self.path(digest);
        if let Some(parent) = path.parent() {
            private::folder(parent).map_err(Error::io(parent))?;
        }
        match fs::hard_link(place, &path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(Error::Io { path, source: error }),
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    fn entries(&self) -> Result<Vec<Entry>, Error> {
        let blobs = self.root.join("blobs");
        let mut entries = Vec::new();
        for child in children(&blobs)? {
            let name = child.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(".partial-") {
                forget_old_partial(&child)?;
            } else if child.is_dir() {
                for path in children(&child)? {
                    // Another process may remove it in the meantime.
                    if let Ok(metadata) = fs::metadata(&path) {
                        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        entries.push(Entry { shared: links(&metadata) > 1, size: metadata.len(), used, path });
                    }
                }
            }
        }
        Ok(entries)
    }

    /// Removes the folders of processes that ended without removing them.
    fn remove_dead_work(&self) -> Result<(), Error> {
        for path in children(&self.root.join("work"))? {
            let Some(id) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".lock")) else { continue };
            let Ok(lock) = fs::File::open(&path) else { continue };
            if lock.try_lock().is_err() {
                continue;
            }
            let directory = path.with_file_name(id);
            match fs::remove_dir_all(&directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::Io { path: directory, source: error }),
                _ => remove_if_there(&path)?,
            }
        }
        Ok(())
    }
}

impl Workspace {
    /// Makes a store that shares nothing, in a new folder inside `parent`.
    pub fn private(parent: &Path) -> Result<Self, Error> {
        let directory = private::temporary(parent, "mainstay-pull-").map_err(Error::io(parent))?;
        Ok(Self { store: BlobStore::open(directory.path())?, hold: Hold::Own(directory) })
    }

    /// The store.
    pub fn store(&self) -> &BlobStore {
        &self.store
    }

    /// The folder of the workspace, removed with it; names other than `blobs` are free for other uses.
    pub fn directory(&self) -> &Path {
        self.store.root()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let Hold::Shared(lease) = &self.hold else { return };
        // The lock goes last: a process that sees it free may remove the rest.
        let removed = fs::remove_dir_all(self.store.root()).and_then(|()| fs::remove_file(&lease.lock_path));
        if let Err(error) = removed.and_then(|()| lease.lock.unlock()) {
            tracing::warn!(path = %self.store.root().display(), %error, "a folder of the cache stays until it is opened anew");
        }
        if let Err(error) = lease.cache.evict() {
            tracing::warn!(%error, "the cache cannot be kept below its limit");
        }
    }
}

/// Removes the partial content of a transfer that was not resumed.
fn forget_old_partial(path: &Path) -> Result<(), Error> {
    let Ok(modified) = fs::metadata(path).and_then(|metadata| metadata.modified()) else { return Ok(()) };
    let old = modified.elapsed().is_ok_and(|age| age > PARTIAL_AGE);
    let Ok(file) = fs::OpenOptions::new().append(true).open(path) else { return Ok(()) };
    if old && file.try_lock().is_ok() { remove_if_there(path) } else { Ok(()) }
}

struct Entry {
    path: PathBuf,
    size: u64,
    used: SystemTime,
    shared: bool,
}

#[cfg(unix)]
fn links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

/// If links are not counted, each user of a blob still has its own link.
#[cfg(not(unix))]
fn links(_metadata: &fs::Metadata) -> u64 {
    1
}

/// Sets the time of a blob's last use to now.
fn touch(path: &Path) -> Result<(), Error> {
    let file = fs::OpenOptions::new().append(true).open(path).map_err(Error::io(path))?;
    file.set_modified(SystemTime::now()).map_err(Error::io(path))
}

fn digest_of(path: &Path, like: &Digest) -> Result<Digest, Error> {
    let mut file = fs::File::open(path).map_err(Error::io(path))?;
    let mut hasher = Hasher::like(Some(like));
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = file.read(&mut buffer).map_err(Error::io(path))?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
    }
}

fn children(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(Error::io(directory))?;
    entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>().map_err(Error::io(directory))
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::Io { path: path.to_owned(), source: error }),
        _ => Ok(()),
    }
}
