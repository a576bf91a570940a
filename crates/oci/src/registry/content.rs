//! Content of a registry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::uploads::{UploadLimits, Uploads};
use crate::digest::Digest;
use crate::error::Error;
use crate::store::BlobStore;

/// The largest blob that is accepted, in bytes.
pub(super) const MAX_BLOB: usize = 4 << 30;

#[derive(Default)]
pub(super) struct Content {
    blobs: Blobs,
    repositories: Mutex<BTreeMap<String, Repository>>,
    pub(super) uploads: Uploads,
}

enum Blobs {
    Memory(Mutex<HashMap<Digest, Bytes>>),
    Directory(BlobStore),
}

impl Default for Blobs {
    fn default() -> Self {
        Self::Memory(Mutex::default())
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Repository {
    pub tags: BTreeMap<String, Digest>,
    pub manifests: BTreeMap<Digest, StoredManifest>,
    pub blobs: BTreeSet<Digest>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredManifest {
    pub media_type: String,
    #[serde(default)]
    pub subject: Option<Digest>,
    #[serde(default)]
    pub artifact_type: Option<String>,
    #[serde(default)]
    pub size: u64,
}

impl Content {
    pub(super) fn open(directory: Option<PathBuf>, limits: UploadLimits) -> Result<Self, Error> {
        let uploads = Uploads::new(limits);
        let Some(directory) = directory else { return Ok(Self { uploads, ..Self::default() }) };
        let store = BlobStore::open(&directory)?;
        let path = directory.join("repositories.json");
        let repositories = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::content(path.display().to_string(), error.to_string()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::Io { path, source: error }),
        };
        Ok(Self { blobs: Blobs::Directory(store), repositories: Mutex::new(repositories), uploads })
    }

    pub(super) fn repositories(&self) -> Vec<String> {
        lock(&self.repositories).keys().cloned().collect()
    }

    pub(super) fn repository(&self, name: &str) -> Option<Repository> {
        lock(&self.repositories).get(name).cloned()
    }

    /// Changes a repository, which is made if it is absent.
    pub(super) fn change<T>(&self, name: &str, change: impl FnOnce(&mut Repository) -> T) -> Result<T, Error> {
        let mut repositories = lock(&self.repositories);
        let changed = change(repositories.entry(name.to_owned()).or_default());
        if let Blobs::Directory(store) = &self.blobs {
            let path = store.root().join("repositories.json");
            let text = serde_json::to_vec(&*repositories).map_err(|error| Error::content(path.display().to_string(), error.to_string()))?;
            let file = tempfile::NamedTempFile::new_in(store.root()).map_err(Error::io(&path))?;
            fs::write(file.path(), text).map_err(Error::io(&path))?;
            file.persist(&path).map_err(|error| Error::Io { path, source: error.error })?;
        }
        Ok(changed)
    }

    pub(super) fn blob(&self, digest: &Digest) -> Option<Bytes> {
        match &self.blobs {
            Blobs::Memory(blobs) => lock(blobs).get(digest).cloned(),
            Blobs::Directory(store) => fs::read(store.path(digest)).ok().map(Bytes::from),
        }
    }

    pub(super) fn put_blob(&self, digest: &Digest, bytes: Bytes) -> Result<(), Error> {
        match &self.blobs {
            Blobs::Memory(blobs) => {
                lock(blobs).insert(digest.clone(), bytes);
                Ok(())
            }
            Blobs::Directory(store) => {
                let mut writer = store.writer("upload", Some(digest))?;
                writer.write(&bytes)?;
                writer.commit().map(drop)
            }
        }
    }

    pub(super) fn replace(&self, digest: &Digest, bytes: Bytes) -> Result<(), Error> {
        match &self.blobs {
            Blobs::Memory(blobs) => {
                lock(blobs).insert(digest.clone(), bytes);
                Ok(())
            }
            Blobs::Directory(store) => {
                let path = store.path(digest);
                fs::write(&path, &bytes).map_err(Error::io(path))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one insertion or removal, so the maps are whole even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
