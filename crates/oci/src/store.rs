//! A directory of blobs by digest, in the structure of an OCI layout.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::blob_cache::BlobCache;
use crate::digest::{Digest, Hasher};
use crate::error::Error;
use crate::private;

/// `blobs/<algorithm>/<hex>` below a directory. A blob there is complete, and agreed with its digest when it was written.
#[derive(Debug, Clone)]
pub struct BlobStore {
    root: PathBuf,
    /// Directory of unfinished blobs.
    partials: PathBuf,
    /// Cache that blobs are taken from and given to.
    shared: Option<BlobCache>,
}

impl BlobStore {
    /// Opens the store below a directory, which is made if it is absent.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        let directory = root.join("blobs").join("sha256");
        private::folder(&directory).map_err(Error::io(&directory))?;
        Ok(Self { partials: root.join("blobs"), root, shared: None })
    }

    /// Opens a store that shares its blobs with a cache on the same file system.
    pub(crate) fn sharing(root: PathBuf, shared: BlobCache) -> Result<Self, Error> {
        let store = Self::open(root)?;
        Ok(Self { partials: shared.partials(), shared: Some(shared), ..store })
    }

    /// The directory that holds `blobs`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path that the blob has or would have.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    /// Returns true if the blob is there.
    pub fn has(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
    }

    /// Returns true if the blob is there, or could be taken from the shared cache right now.
    pub(crate) fn find(&self, digest: &Digest) -> Result<bool, Error> {
        if self.has(digest) {
            return Ok(true);
        }
        match &self.shared {
            Some(shared) => shared.take(digest, &self.path(digest)),
            None => Ok(false),
        }
    }

    /// Returns the blob's content, checked against its digest; at most `limit` bytes.
    pub fn read(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, Error> {
        let path = self.path(digest);
        let size = fs::metadata(&path).map_err(Error::io(&path))?.len();
        if size > limit {
            return Err(Error::Limit { subject: digest.to_string(), what: "size in bytes", limit });
        }
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        let mut hasher = Hasher::like(Some(digest));
        hasher.update(&bytes);
        check(&path.display().to_string(), digest, hasher.finish())?;
        Ok(bytes)
    }

    /// Compares a blob with its digest: for stores that others wrote.
    pub fn verify(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.path(digest);
        let mut file = fs::File::open(&path).map_err(Error::io(&path))?;
        let (mut hasher, mut buffer) = (Hasher::like(Some(digest)), vec![0; 128 << 10]);
        loop {
            let count = file.read(&mut buffer).map_err(Error::io(&path))?;
            if count == 0 {
                return check(&path.display().to_string(), digest, hasher.finish());
            }
            hasher.update(&buffer[..count]);
        }
    }

    /// Copies a blob to another store, comparing its digest.
    pub(crate) fn copy_to(&self, other: &Self, digest: &Digest) -> Result<(), Error> {
        if other.has(digest) {
            return Ok(());
        }
        let from = self.path(digest);
        let mut file = fs::File::open(&from).map_err(Error::io(&from))?;
        let mut writer = other.writer(&from.display().to_string(), Some(digest))?;
        let mut buffer = vec![0; 128 << 10];
        loop {
            let count = file.read(&mut buffer).map_err(Error::io(&from))?;
            if count == 0 {
                return writer.commit().map(drop);
            }
            writer.write(&buffer[..count])?;
        }
    }

    /// Adds content.
    pub fn write(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let mut writer = self.writer("blob", None)?;
        writer.write(bytes)?;
        writer.commit()
    }

    /// Opens a writer for a blob, which takes it piece by piece. With `expected`, [`BlobWriter::commit`] compares the digest.
    pub fn writer(&self, subject: &str, expected: Option<&Digest>) -> Result<BlobWriter, Error> {
        let directory = self.root.join("blobs");
        let file = tempfile::Builder::new().prefix(".incoming-").tempfile_in(&directory).map_err(Error::io(&directory))?;
        Ok(BlobWriter {
            store: self.clone(),
            subject: subject.to_owned(),
            hasher: Hasher::like(expected),
            expected: expected.cloned(),
            file: Incoming::Whole(file),
            size: 0,
        })
    }

    /// Resumes a blob at the end of an earlier attempt. If the writer is dropped without [`BlobWriter::commit`], its content stays for the next
    /// one. While another writer has the same blob, this one starts from the beginning.
    pub fn resume(&self, subject: &str, expected: &Digest) -> Result<BlobWriter, Error> {
        let path = self.partials.join(format!(".partial-{}-{}", expected.algorithm(), expected.hex()));
        // Like the other blobs, readable by its owner alone, whatever the umask is.
        let opened = fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = opened.map_err(Error::io(&path))?;
        if file.try_lock().is_err() {
            return self.writer(subject, Some(expected));
        }
        // The previous owner may have moved it into its place between our opening and our locking.
        if !is_at(&file, &path) {
            return self.writer(subject, Some(expected));
        }
        let mut hasher = Hasher::like(Some(expected));
        let mut buffer = vec![0; 128 << 10];
        let mut size = 0;
        loop {
            let count = file.read(&mut buffer).map_err(Error::io(&path))?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            size += count as u64;
        }
        Ok(BlobWriter {
            store: self.clone(),
            subject: subject.to_owned(),
            hasher,
            expected: Some(expected.clone()),
            file: Incoming::Part(path, file),
            size,
        })
    }
}

/// Returns true if the path still names the open file.
#[cfg(unix)]
fn is_at(file: &fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Returns false: on systems that cannot tell, nothing is resumed.
#[cfg(not(unix))]
fn is_at(_file: &fs::File, _path: &Path) -> bool {
    false
}

/// The place of a blob that is being written.
enum Incoming {
    Whole(tempfile::NamedTempFile),
    Part(PathBuf, fs::File),
}

impl Incoming {
    fn path(&self) -> &Path {
        match self {
            Self::Whole(file) => file.path(),
            Self::Part(path, _) => path,
        }
    }

    fn file(&mut self) -> &mut fs::File {
        match self {
            Self::Whole(file) => file.as_file_mut(),
            Self::Part(_, file) => file,
        }
    }

    fn discard(self) -> Result<(), Error> {
        match self {
            Self::Whole(_) => Ok(()),
            Self::Part(path, _) => fs::remove_file(&path).map_err(Error::io(path)),
        }
    }

    fn persist(self, place: &Path) -> Result<(), Error> {
        match self {
            Self::Whole(file) => file.persist(place).map(drop).map_err(|error| error.error),
            Self::Part(path, _) => fs::rename(path, place),
        }
        .map_err(Error::io(place))
    }
}

/// Writer of a blob.
pub struct BlobWriter {
    store: BlobStore,
    subject: String,
    hasher: Hasher,
    expected: Option<Digest>,
    file: Incoming,
    size: u64,
}

impl BlobWriter {
    /// Appends content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        let written = self.file.file().write_all(bytes);
        written.map_err(Error::io(self.file.path()))
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Discards the content written so far.
    pub fn restart(&mut self) -> Result<(), Error> {
        let emptied = self.file.file().set_len(0).and_then(|()| self.file.file().seek(SeekFrom::Start(0)));
        emptied.map_err(Error::io(self.file.path()))?;
        self.hasher = Hasher::like(self.expected.as_ref());
        self.size = 0;
        Ok(())
    }

    /// Compares the digest and moves the blob into its place.
    pub fn commit(mut self) -> Result<Digest, Error> {
        let found = self.hasher.finish();
        if let Some(expected) = &self.expected
            && let Err(error) = check(&self.subject, expected, found.clone())
        {
            self.file.discard()?;
            return Err(error);
        }
        let path = self.store.path(&found);
        if let Some(parent) = path.parent() {
            private::folder(parent).map_err(Error::io(parent))?;
        }
        self.file.file().sync_all().map_err(Error::io(&path))?;
        self.file.persist(&path)?;
        if let Some(shared) = &self.store.shared {
            shared.give(&found, &path)?;
        }
        Ok(found)
    }
}

pub(crate) fn check(subject: &str, expected: &Digest, found: Digest) -> Result<(), Error> {
    if *expected == found {
        return Ok(());
    }
    Err(Error::DigestMismatch { subject: subject.to_owned(), expected: expected.clone(), found })
}
