//! A directory of blobs by digest, laid out as an OCI layout has them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::digest::{Digest, Hasher};
use crate::error::Error;

/// `blobs/<algorithm>/<hex>` below a directory. A blob there is whole and agrees with its digest when it was written.
#[derive(Debug, Clone)]
pub struct BlobStore {
    root: PathBuf,
}

impl BlobStore {
    /// The store below a directory, which is made if it is absent.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let store = Self { root: root.into() };
        let directory = store.root.join("blobs").join("sha256");
        fs::create_dir_all(&directory).map_err(Error::io(&directory))?;
        Ok(store)
    }

    /// The directory that holds `blobs`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the blob is or would be.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    /// Whether the blob is there.
    pub fn has(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
    }

    /// The blob's content, checked against its digest; `limit` bytes at most.
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

    /// Adds content.
    pub fn write(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let mut writer = self.writer("blob", None)?;
        writer.write(bytes)?;
        writer.commit()
    }

    /// Takes a blob piece by piece. When it is `expected`, [`BlobWriter::commit`] compares the digest.
    pub fn writer(&self, subject: &str, expected: Option<&Digest>) -> Result<BlobWriter, Error> {
        let directory = self.root.join("blobs");
        let file = tempfile::Builder::new().prefix(".incoming-").tempfile_in(&directory).map_err(Error::io(&directory))?;
        Ok(BlobWriter {
            store: self.clone(),
            subject: subject.to_owned(),
            hasher: Hasher::like(expected),
            expected: expected.cloned(),
            file,
            size: 0,
        })
    }
}

/// A blob on its way in. Dropped without [`BlobWriter::commit`] it leaves nothing behind.
pub struct BlobWriter {
    store: BlobStore,
    subject: String,
    hasher: Hasher,
    expected: Option<Digest>,
    file: tempfile::NamedTempFile,
    size: u64,
}

impl BlobWriter {
    /// Appends content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes).map_err(Error::io(self.file.path()))
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Compares the digest and puts the blob in its place.
    pub fn commit(self) -> Result<Digest, Error> {
        let found = self.hasher.finish();
        if let Some(expected) = &self.expected {
            check(&self.subject, expected, found.clone())?;
        }
        let path = self.store.path(&found);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        self.file.as_file().sync_all().map_err(Error::io(&path))?;
        self.file.persist(&path).map_err(|error| Error::Io { path, source: error.error })?;
        Ok(found)
    }
}

pub(crate) fn check(subject: &str, expected: &Digest, found: Digest) -> Result<(), Error> {
    if *expected == found {
        return Ok(());
    }
    Err(Error::DigestMismatch { subject: subject.to_owned(), expected: expected.clone(), found })
}
