//! Manifests, indexes and image configurations, OCI and Docker v2 schema 2 alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Error;

/// Media types.
pub mod media_type {
    /// An OCI image manifest.
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// An OCI index of manifests.
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// An OCI image configuration.
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A layer as a tar archive.
    pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// A layer as a tar archive compressed by gzip.
    pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// A layer as a tar archive compressed by zstd.
    pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
    /// A Docker image manifest.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// A Docker list of manifests.
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// A Docker image configuration.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// A layer of a Docker image as a tar archive.
    pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
    /// A layer of a Docker image, compressed by gzip.
    pub const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    /// A layer of a Docker image, compressed by zstd, as some tools write it.
    pub const DOCKER_LAYER_ZSTD: &str = "application/vnd.docker.image.rootfs.diff.tar.zstd";
    /// Layers that can be unpacked.
    pub const LAYERS: [&str; 6] = [OCI_LAYER, OCI_LAYER_GZIP, OCI_LAYER_ZSTD, DOCKER_LAYER, DOCKER_LAYER_GZIP, DOCKER_LAYER_ZSTD];
    /// Media types that a registry may answer a request for an image with.
    pub const ACCEPTED: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
}

const MAX_LAYERS: usize = 512;
const MAX_ENTRIES: usize = 512;

/// Media type, digest and size of some content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its type.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The platform that it is for, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Free notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// The descriptor of bytes.
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// A platform: operating system, architecture and variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`
    pub os: String,
    /// `amd64`, `arm64`, ... as Go names them.
    pub architecture: String,
    /// `v8`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl std::str::FromStr for Platform {
    type Err = Error;

    /// `linux/arm64/v8`, as container tools write it.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('/').collect();
        let plain =
            |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'.' || c == b'_' || c == b'-');
        match parts.as_slice() {
            [os, architecture, variant @ ..] if variant.len() <= 1 && parts.iter().all(plain) => Ok(Self {
                os: (*os).to_owned(),
                architecture: (*architecture).to_owned(),
                variant: variant.first().map(|variant| (*variant).to_owned()),
            }),
            _ => Err(Error::content(format!("platform {text:?}"), "is not written OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT")),
        }
    }
}

impl Default for Platform {
    /// Linux on this program's architecture.
    fn default() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(out, "/{variant}"))
    }
}

/// An image's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// Its own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The image configuration.
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// Free notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A list of manifests for several platforms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// Its own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests.
    pub manifests: Vec<Descriptor>,
}

/// The parts of an image configuration that this crate uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The machine's architecture.
    #[serde(default)]
    pub architecture: String,
    /// The machine's system.
    #[serde(default)]
    pub os: String,
    /// The architecture's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Settings for running the image.
    #[serde(default, deserialize_with = "null_as_default")]
    pub config: RunConfig,
}

impl ImageConfig {
    /// Returns the platform of the image.
    pub fn platform(&self) -> Platform {
        Platform { os: self.os.clone(), architecture: self.architecture.clone(), variant: self.variant.clone() }
    }
}

/// Settings for running an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunConfig {
    /// The labels.
    #[serde(rename = "Labels", default, deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// The program.
    #[serde(rename = "Entrypoint", default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Its arguments.
    #[serde(rename = "Cmd", default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl Manifest {
    /// Refuses layers that are no archives, or that lie outside of the registry (foreign layers).
    pub(crate) fn check_layers(&self, subject: &str) -> Result<(), Error> {
        for layer in &self.layers {
            let kind = layer.media_type.as_str();
            let problem = if kind.contains("foreign") || kind.contains("nondistributable") {
                "may not be distributed (a foreign layer), so it cannot be read from the registry"
            } else if media_type::LAYERS.contains(&kind) {
                continue;
            } else {
                "is no archive of files, so this is not an image of files"
            };
            return Err(Error::content(subject, format!("layer {} of type {kind:?} {problem}", layer.digest)));
        }
        Ok(())
    }
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A manifest or an index.
#[derive(Debug)]
pub enum Document {
    /// An image of one platform.
    Image(Box<Manifest>),
    /// A list of images.
    Index(Index),
}

/// Parses a manifest or index; its bytes have been checked against their digest.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<Document, Error> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| Error::content(subject, format!("manifest is no JSON: {error}")))?;
    if value["schemaVersion"] != 2 {
        return Err(Error::content(subject, format!("manifest schema version {} is not supported", value["schemaVersion"])));
    }
    // The content decides, so that a wrong media type cannot make one document mean two things.
    let is_index = value.get("manifests").is_some();
    if is_index && value.get("layers").is_some() {
        return Err(Error::content(subject, "manifest is both an image and an index"));
    }
    let refuse = |error: serde_json::Error| Error::content(subject, format!("manifest cannot be read: {error}"));
    if is_index {
        let index: Index = serde_json::from_value(value).map_err(refuse)?;
        limit(subject, "number of manifests", index.manifests.len(), MAX_ENTRIES)?;
        return Ok(Document::Index(index));
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(refuse)?;
    limit(subject, "number of layers", manifest.layers.len(), MAX_LAYERS)?;
    Ok(Document::Image(Box::new(manifest)))
}

fn limit(subject: &str, what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    if found <= limit { Ok(()) } else { Err(Error::Limit { subject: subject.to_owned(), what, limit: limit as u64 }) }
}

impl Index {
    /// Selects the manifest for the platform: the same variant first, else any variant; a single manifest without a platform fits all.
    pub fn select(&self, subject: &str, platform: &Platform) -> Result<&Descriptor, Error> {
        let same = |entry: &&Descriptor| {
            entry.platform.as_ref().is_some_and(|other| other.os == platform.os && other.architecture == platform.architecture)
        };
        let exact = |entry: &&Descriptor| entry.platform.as_ref().is_some_and(|other| other.variant == platform.variant);
        let fitting = || self.manifests.iter().filter(same);
        let sole = match self.manifests.as_slice() {
            [only] if only.platform.is_none() => Some(only),
            _ => None,
        };
        fitting().find(exact).or_else(|| fitting().next()).or(sole).ok_or_else(|| {
            let offered: Vec<_> = self.manifests.iter().filter_map(|entry| entry.platform.as_ref()).map(ToString::to_string).collect();
            Error::content(subject, format!("no image for platform {platform}; the index offers [{}]", offered.join(" ")))
        })
    }
}
