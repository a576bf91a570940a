//! OCI layout directories: images as files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::{Image, MAX_MANIFEST, Tree, read_config};
use crate::error::Error;
use crate::manifest::{Descriptor, Document, Platform, media_type, parse};
use crate::private;
use crate::store::BlobStore;

/// The annotation that names an image of a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The largest list of images.
pub(crate) const MAX_INDEX: u64 = 4 << 20;

/// A directory with `oci-layout`, `index.json` and `blobs`.
#[derive(Debug, Clone)]
pub struct Layout {
    store: BlobStore,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexFile {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    manifests: Vec<Descriptor>,
}

impl Layout {
    /// Opens a layout.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = directory.as_ref();
        for name in ["oci-layout", "index.json"] {
            let path = directory.join(name);
            fs::metadata(&path).map_err(Error::io(&path))?;
        }
        Ok(Self { store: BlobStore::open(directory)? })
    }

    /// Opens a layout, or makes an empty one.
    pub fn create(directory: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let layout = Self { store: BlobStore::open(directory)? };
        if !directory.join("index.json").exists() {
            let marker = directory.join("oci-layout");
            private::write(&marker, json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes()).map_err(Error::io(&marker))?;
            layout.save(&IndexFile { schema_version: 2, media_type: Some(media_type::OCI_INDEX.to_owned()), manifests: Vec::new() })?;
        }
        Ok(layout)
    }

    /// The blobs.
    pub fn store(&self) -> &BlobStore {
        &self.store
    }

    /// The images by name; those without a name are left out.
    pub fn names(&self) -> Result<BTreeMap<String, Descriptor>, Error> {
        let named = |entry: Descriptor| Some((entry.annotations.get(REF_NAME)?.clone(), entry));
        Ok(self.load()?.manifests.into_iter().filter_map(named).collect())
    }

    /// Names an image whose blobs are in the store; another image of the same name loses it.
    pub fn add(&self, name: &str, image: &Image) -> Result<(), Error> {
        self.add_descriptor(name, &image.descriptor)
    }

    /// Names an image or index whose blobs are in the store; another entry of the same name loses it.
    pub fn add_descriptor(&self, name: &str, descriptor: &Descriptor) -> Result<(), Error> {
        let mut index = self.load()?;
        index.manifests.retain(|entry| entry.annotations.get(REF_NAME).is_none_or(|other| other != name));
        let mut entry = descriptor.clone();
        entry.annotations.insert(REF_NAME.to_owned(), name.to_owned());
        index.manifests.push(entry);
        self.save(&index)
    }

    /// Takes over from another store the blobs of an image or index there, and returns the blobs that neither store has.
    pub fn take(&self, root: &Descriptor, from: &BlobStore) -> Result<Vec<Descriptor>, Error> {
        let tree = Tree::read(&from.root().display().to_string(), from, root)?;
        let mut missing = Vec::new();
        for blob in &tree.blobs {
            if from.has(&blob.digest) {
                from.copy_to(&self.store, &blob.digest)?;
            } else if !self.store.has(&blob.digest) {
                missing.push(blob.clone());
            }
        }
        for manifest in &tree.manifests {
            from.copy_to(&self.store, &manifest.digest)?;
        }
        Ok(missing)
    }

    /// Returns true if all blobs of an image or index are here.
    pub fn is_whole(&self, root: &Descriptor) -> Result<bool, Error> {
        if !self.store.has(&root.digest) {
            return Ok(false);
        }
        let tree = Tree::read_present(&self.store.root().display().to_string(), &self.store, root)?;
        Ok(tree.blobs.iter().all(|blob| self.store.has(&blob.digest)))
    }

    /// Adds an image or index that has no name.
    pub(crate) fn add_unnamed(&self, descriptor: &Descriptor) -> Result<(), Error> {
        let mut index = self.load()?;
        index.manifests.push(descriptor.clone());
        self.save(&index)
    }

    /// Removes a name, and returns true if it was there. Blobs stay until [`Layout::collect`].
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let mut index = self.load()?;
        let before = index.manifests.len();
        index.manifests.retain(|entry| entry.annotations.get(REF_NAME).is_none_or(|other| other != name));
        let removed = index.manifests.len() < before;
        if removed {
            self.save(&index)?;
        }
        Ok(removed)
    }

    /// Removes the blobs that no image of the layout needs, and returns their number.
    pub fn collect(&self) -> Result<usize, Error> {
        let mut needed = BTreeSet::new();
        for entry in self.load()?.manifests {
            let tree = Tree::read_present(&self.store.root().display().to_string(), &self.store, &entry)?;
            needed.extend(tree.manifests.into_iter().chain(tree.blobs).map(|descriptor| descriptor.digest));
        }
        let mut removed = 0;
        for algorithm in ["sha256", "sha512"] {
            let directory = self.store.root().join("blobs").join(algorithm);
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::Io { path: directory, source: error }),
            };
            for entry in entries {
                let path = entry.map_err(Error::io(&directory))?.path();
                let digest = path.file_name().and_then(|name| format!("{algorithm}:{}", name.to_string_lossy()).parse().ok());
                if digest.is_some_and(|digest| !needed.contains(&digest)) {
                    fs::remove_file(&path).map_err(Error::io(path))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Refuses a layout that lacks content its images name. An index may name platforms that were not saved.
    pub(crate) fn check_whole(&self, subject: &str) -> Result<(), Error> {
        for entry in self.load()?.manifests {
            let lacking = |digest: &crate::Digest| Error::content(subject, format!("lacks blob {digest}, which one of its images names"));
            if !self.store.has(&entry.digest) {
                return Err(lacking(&entry.digest));
            }
            let tree = Tree::read_present(subject, &self.store, &entry)?;
            if let Some(blob) = tree.blobs.iter().find(|blob| !self.store.has(&blob.digest)) {
                return Err(lacking(&blob.digest));
            }
        }
        Ok(())
    }

    /// Replaces the list of images by one from another source.
    pub(crate) fn replace_index(&self, subject: &str, bytes: &[u8]) -> Result<(), Error> {
        let index: IndexFile =
            serde_json::from_slice(bytes).map_err(|error| Error::content(subject, format!("index.json cannot be read: {error}")))?;
        self.save(&index)
    }

    /// Returns the image of that name, or the only image when no name is given. Every blob is checked when it is read.
    pub fn image(&self, name: Option<&str>, platform: &Platform) -> Result<Image, Error> {
        let subject = format!("{}{}", self.store.root().display(), name.map(|name| format!(":{name}")).unwrap_or_default());
        let index = self.load()?;
        let found = match name {
            Some(name) => index.manifests.iter().find(|entry| entry.annotations.get(REF_NAME).is_some_and(|other| other == name)),
            None if index.manifests.len() == 1 => index.manifests.first(),
            None => return Err(Error::content(subject, format!("the layout holds {} images; name one", index.manifests.len()))),
        };
        let entry = found.ok_or_else(|| Error::content(subject.clone(), "the layout holds no image of that name"))?;
        let mut descriptor = entry.clone();
        let mut bytes = self.store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
        if let Document::Index(list) = parse(&subject, &bytes)? {
            descriptor = list.select(&subject, platform)?.clone();
            bytes = self.store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
        }
        match parse(&subject, &bytes)? {
            Document::Image(manifest) => {
                let config = read_config(&subject, &self.store, &manifest)?;
                descriptor.annotations.remove(REF_NAME);
                Ok(Image { digest: entry.digest.clone(), descriptor, manifest: *manifest, config })
            }
            Document::Index(_) => Err(Error::content(subject, "an index inside an index is not supported")),
        }
    }

    fn load(&self) -> Result<IndexFile, Error> {
        let path = self.store.root().join("index.json");
        let size = fs::metadata(&path).map_err(Error::io(&path))?.len();
        if size > MAX_INDEX {
            return Err(Error::Limit { subject: path.display().to_string(), what: "size in bytes", limit: MAX_INDEX });
        }
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::content(path.display().to_string(), error.to_string()))
    }

    fn save(&self, index: &IndexFile) -> Result<(), Error> {
        let path = self.store.root().join("index.json");
        let text = serde_json::to_string(index).map_err(|error| Error::content(path.display().to_string(), error.to_string()))?;
        let file = tempfile::NamedTempFile::new_in(self.store.root()).map_err(Error::io(&path))?;
        fs::write(file.path(), text).map_err(Error::io(&path))?;
        file.persist(&path).map_err(|error| Error::Io { path, source: error.error })?;
        Ok(())
    }
}
