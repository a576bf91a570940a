//! Images from files, with or without a base: one new layer, always the same bytes for the same files.
//!
//! ```text
//!   base (manifest and configuration; its layers need not be here) ─┐
//!   files, labels, entry point ... ── ImageBuilder ─────────────────┴── Image ──┐
//!                                     one for each platform ────────────────────┴── ImageIndex
//! ```
//!
//! The layers of a base are only named by the new manifest: [`crate::Client::push_built`] has the registry mount them, or copies them.

mod config;
mod layer;

use std::collections::{BTreeMap, BTreeSet};

pub use layer::Compression;

use crate::client::{Image, MAX_CONFIG};
use crate::error::Error;
use crate::manifest::{Descriptor, ImageConfig, Index, Manifest, Platform, media_type};
use crate::store::BlobStore;

/// One file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// True if the file is executable.
    pub executable: bool,
}

impl From<Vec<u8>> for ImageFile {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, executable: false }
    }
}

/// The kind of manifest that is written (CATLG-51).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// OCI.
    #[default]
    Oci,
    /// Docker's version 2, schema 2.
    Docker,
}

/// Builder of an image.
#[derive(Debug, Clone, Default)]
pub struct ImageBuilder {
    base: Option<Image>,
    files: BTreeMap<String, ImageFile>,
    emptied: BTreeSet<String>,
    settings: config::Settings,
    platform: Option<Platform>,
    compression: Compression,
    format: Format,
}

/// Images of the same content for several platforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageIndex {
    /// The index's own descriptor; its bytes are in the store.
    pub descriptor: Descriptor,
    /// The images, in the order of the index.
    pub images: Vec<Image>,
}

impl ImageBuilder {
    /// An empty image.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds on an image, as `FROM` does: its layers lie below, its configuration is inherited. [`crate::Client::inspect`] returns the parts that
    /// are needed.
    #[must_use]
    pub fn base(mut self, base: Image) -> Self {
        self.base = Some(base);
        self
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

    /// Hides the base's content below a directory.
    #[must_use]
    pub fn emptied(mut self, directory: impl Into<String>) -> Self {
        self.emptied.insert(directory.into().trim_matches('/').to_owned());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.labels.insert(key.into(), value.into());
        self
    }

    /// Adds labels.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.labels.extend(labels);
        self
    }

    /// Sets the program, and removes the base's command.
    #[must_use]
    pub fn entrypoint<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.settings.entrypoint = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the command.
    #[must_use]
    pub fn command<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.settings.command = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.settings.user = Some(user.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn working_directory(mut self, directory: impl Into<String>) -> Self {
        self.settings.working_directory = Some(directory.into());
        self
    }

    /// Exposes a port, written `50051/tcp`; without a protocol it is TCP's.
    #[must_use]
    pub fn port(mut self, port: impl Into<String>) -> Self {
        let port = port.into();
        self.settings.ports.insert(if port.contains('/') { port } else { format!("{port}/tcp") });
        self
    }

    /// Sets the platform of the image; otherwise that of the base, or Linux on this program's architecture.
    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Sets the compression of the new layer.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Says when and how the image was made, in place of what the base says of itself: its time, history and labels.
    #[must_use]
    pub fn origin(mut self, created: impl Into<String>, comment: impl Into<String>) -> Self {
        self.settings.origin = Some(config::Origin { created: created.into(), comment: comment.into() });
        self
    }

    /// Sets the kind of manifest that is written.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Returns the new layer alone, as a compressed archive.
    ///
    /// # Errors
    /// A path is no plain relative one.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        Ok(layer::layer(&self.files, &self.emptied, self.compression)?.bytes)
    }

    /// Builds the image into the store, which must hold the configuration of the base.
    pub fn build(&self, store: &BlobStore) -> Result<Image, Error> {
        if self.format == Format::Docker && self.compression == Compression::Zstd {
            return Err(Error::content("image", "a Docker manifest has no zstd layers; use gzip, or an OCI manifest"));
        }
        let (mut config, mut layers) = match &self.base {
            None => (config::fresh(&self.settings, &self.platform.clone().unwrap_or_default()), Vec::new()),
            Some(base) => {
                let subject = format!("base image {}", base.digest);
                base.manifest.check_layers(&subject)?;
                let text = store.read(&base.manifest.config.digest, MAX_CONFIG)?;
                let layers = base.manifest.layers.iter().map(|layer| self.format.layer(layer)).collect::<Result<Vec<_>, _>>()?;
                (config::inherited(&subject, &text, &self.settings, layers.len())?, layers)
            }
        };
        // On a base, labels alone need no layer.
        if self.base.is_none() || !self.files.is_empty() || !self.emptied.is_empty() {
            let layer = layer::layer(&self.files, &self.emptied, self.compression)?;
            store.write(&layer.bytes)?;
            config::add_layer(&mut config, &layer.diff);
            layers.push(self.format.layer(&Descriptor::of(self.compression.media_type(), &layer.bytes))?);
        }
        if let Some(origin) = &self.settings.origin {
            origin.replace(&mut config, &self.settings.labels);
        }
        let config_bytes = config.to_string().into_bytes();
        store.write(&config_bytes)?;

        let (manifest_type, config_type) = self.format.media_types();
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(manifest_type.to_owned()),
            config: Descriptor::of(config_type, &config_bytes),
            layers,
            annotations: BTreeMap::new(),
        };
        let bytes = serde_json::to_vec(&manifest).map_err(|error| Error::content("manifest", error.to_string()))?;
        let descriptor = Descriptor::of(manifest_type, &bytes);
        store.write(&bytes)?;
        let config: ImageConfig =
            serde_json::from_value(config).map_err(|error| Error::content("image configuration", error.to_string()))?;
        Ok(Image { digest: descriptor.digest.clone(), descriptor, manifest, config })
    }
}

impl Format {
    /// The media types of a manifest and of a configuration.
    fn media_types(self) -> (&'static str, &'static str) {
        match self {
            Self::Oci => (media_type::OCI_MANIFEST, media_type::OCI_CONFIG),
            Self::Docker => (media_type::DOCKER_MANIFEST, media_type::DOCKER_CONFIG),
        }
    }

    /// The layer under this format's media type; the bytes are the same in both.
    fn layer(self, layer: &Descriptor) -> Result<Descriptor, Error> {
        let compression = match layer.media_type.as_str() {
            media_type::OCI_LAYER_GZIP | media_type::DOCKER_LAYER_GZIP => Compression::Gzip,
            media_type::OCI_LAYER_ZSTD | media_type::DOCKER_LAYER_ZSTD => Compression::Zstd,
            _ => Compression::None,
        };
        let media_type = match (self, compression) {
            (Self::Oci, compression) => compression.media_type(),
            (Self::Docker, Compression::Gzip) => media_type::DOCKER_LAYER_GZIP,
            (Self::Docker, Compression::None) => media_type::DOCKER_LAYER,
            (Self::Docker, Compression::Zstd) => {
                return Err(Error::content(
                    format!("layer {}", layer.digest),
                    "is compressed by zstd, which a Docker manifest does not have",
                ));
            }
        };
        Ok(Descriptor { media_type: media_type.to_owned(), ..layer.clone() })
    }
}

impl ImageIndex {
    /// Makes the index of images that are in the store; Docker's list when the first of them is Docker's.
    pub fn build(images: Vec<Image>, store: &BlobStore) -> Result<Self, Error> {
        let docker = images.first().is_some_and(|image| image.descriptor.media_type == media_type::DOCKER_MANIFEST);
        let media_type = if docker { media_type::DOCKER_LIST } else { media_type::OCI_INDEX };
        let entry = |image: &Image| Descriptor { platform: Some(image.config.platform()), ..image.descriptor.clone() };
        let index = Index { schema_version: 2, media_type: Some(media_type.to_owned()), manifests: images.iter().map(entry).collect() };
        let bytes = serde_json::to_vec(&index).map_err(|error| Error::content("index", error.to_string()))?;
        store.write(&bytes)?;
        Ok(Self { descriptor: Descriptor::of(media_type, &bytes), images })
    }
}
