//! Images from files: one layer, always the same bytes for the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use serde_json::json;

use crate::client::Image;
use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{Descriptor, ImageConfig, Manifest, Platform, media_type};
use crate::store::BlobStore;

/// One file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it can be run.
    pub executable: bool,
}

impl From<Vec<u8>> for ImageFile {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, executable: false }
    }
}

/// Describes an image to build.
#[derive(Debug, Clone, Default)]
pub struct ImageBuilder {
    files: BTreeMap<String, ImageFile>,
    labels: BTreeMap<String, String>,
    platform: Option<Platform>,
}

impl ImageBuilder {
    /// An empty image.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file at a path relative to the root.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, file: impl Into<ImageFile>) -> Self {
        self.files.insert(path.into().trim_start_matches('/').to_owned(), file.into());
        self
    }

    /// Adds files.
    #[must_use]
    pub fn files<P: Into<String>, F: Into<ImageFile>>(self, files: impl IntoIterator<Item = (P, F)>) -> Self {
        files.into_iter().fold(self, |builder, (path, file)| builder.file(path, file))
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds labels.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        self.labels.extend(labels);
        self
    }

    /// Says which machines the image is for; otherwise Linux on this program's architecture.
    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Builds the image into the store.
    pub fn build(&self, store: &BlobStore) -> Result<Image, Error> {
        let tar = self.archive()?;
        let diff = Digest::of(&tar);
        // No time and a fixed system byte in the header, so that the bytes do not depend on when and where.
        let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
        let layer = gzip.write_all(&tar).and_then(|()| gzip.finish()).map_err(Error::io("layer"))?;
        let layer_descriptor = Descriptor::of(media_type::OCI_LAYER_GZIP, &layer);
        store.write(&layer)?;

        let platform = self.platform.clone().unwrap_or_default();
        let config = json!({
            "architecture": platform.architecture,
            "os": platform.os,
            "config": {"Labels": self.labels},
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        });
        let config_bytes = config.to_string().into_bytes();
        store.write(&config_bytes)?;

        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.to_owned()),
            config: Descriptor::of(media_type::OCI_CONFIG, &config_bytes),
            layers: vec![layer_descriptor],
            annotations: BTreeMap::new(),
        };
        let bytes = serde_json::to_vec(&manifest).map_err(|error| Error::content("manifest", error.to_string()))?;
        let descriptor = Descriptor::of(media_type::OCI_MANIFEST, &bytes);
        store.write(&bytes)?;
        let config: ImageConfig =
            serde_json::from_value(config).map_err(|error| Error::content("image configuration", error.to_string()))?;
        Ok(Image { digest: descriptor.digest.clone(), descriptor, manifest, config })
    }

    /// The files and the directories that lead to them, sorted, without owners and times.
    fn archive(&self) -> Result<Vec<u8>, Error> {
        let mut directories = BTreeSet::new();
        for path in self.files.keys() {
            let parts: Vec<_> = path.split('/').collect();
            if path.is_empty() || parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
                return Err(Error::UnsafePath { subject: "image".to_owned(), path: path.clone(), problem: "is no plain relative path" });
            }
            directories.extend((1..parts.len()).map(|count| parts[..count].join("/")));
        }
        let mut archive = tar::Builder::new(Vec::new());
        archive.mode(tar::HeaderMode::Deterministic);
        let mut append = |path: &str, kind: tar::EntryType, mode: u32, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, path, bytes).map_err(Error::io(path))
        };
        for directory in &directories {
            append(&format!("{directory}/"), tar::EntryType::Directory, 0o755, &[])?;
        }
        for (path, file) in &self.files {
            append(path, tar::EntryType::Regular, if file.executable { 0o755 } else { 0o644 }, &file.bytes)?;
        }
        archive.into_inner().map_err(Error::io("layer"))
    }
}
