//! What `oc adm release info` shows of a release (CVO-RELI-01, CVO-RELI-02).
//!
//! ```text
//!   Files, ReleaseImage ── Info ──┬─ screen      the description, with one of several tables of images
//!                                 ├─ document    -o json, in the order of upstream's fields
//!                                 ├─ contents    --contents
//!                                 ├─ difference  two releases (CVO-RELI-03)
//!                                 └─ changelog   the commits between them
//! ```

mod changelog;
mod components;
mod difference;
mod document;
mod screen;

use std::collections::BTreeMap;

use mainstay_golang::value;
use serde_json::{Map, Value};

pub use changelog::{CodeChange, History, bugs_json};
pub use components::{Component, LabelError, components, parse_versions};
pub use difference::Difference;
pub(crate) use document::{Doc, references as image_stream};
pub use screen::{Clock, Columns, short_duration};

use crate::files::{Files, Folder};
use crate::image::ReleaseImage;

const METADATA: &str = "release-metadata";
const REFERENCES: &str = "image-references";
pub(crate) const SOURCE_COMMIT: &str = "io.openshift.build.commit.id";
pub(crate) const SOURCE_LOCATION: &str = "io.openshift.build.source-location";

/// A release, as far as it is shown.
#[derive(Clone, Debug)]
pub struct Info<'a> {
    /// The release as it was asked for.
    pub asked: &'a str,
    /// The files of the payload.
    pub files: &'a Files,
    /// The image; none for a folder and a plain tar stream.
    pub image: Option<&'a ReleaseImage>,
    /// `release-metadata`.
    pub metadata: Option<Metadata>,
    /// `image-references`.
    pub references: Value,
    /// The versions of components by name.
    pub components: BTreeMap<String, Component>,
    /// The images of the release by name, where they were looked at.
    pub images: Option<BTreeMap<String, ReleaseImage>>,
    /// Oddities, sorted.
    pub warnings: Vec<String>,
    /// Oddities that are told on standard error.
    pub notices: Vec<String>,
}

/// `release-metadata` as it is written; nothing is judged.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of the file")]
pub struct Metadata {
    pub kind: String,
    pub version: String,
    pub previous: Option<Vec<String>>,
    pub next: Vec<String>,
    pub metadata: Map<String, Value>,
}

/// A payload that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// Files that cannot be read.
    #[error("release image could not be read: {}", listed(.0))]
    Unreadable(Vec<FileError>),
    /// There is no list of images.
    #[error("release image did not contain an image-references file")]
    NoReferences,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// `image-references` is neither YAML nor JSON.
    #[error("unable to load release image-references: {0}")]
    References(mainstay_yaml::Error),
    /// `image-references` is no text.
    #[error("unable to load release image-references: the file is not UTF-8")]
    Encoding,
    /// `image-references` is of another kind.
    #[error("unrecognized image-references in release payload")]
    Kind,
    /// `release-metadata` is no JSON, or a field has another type.
    #[error("invalid release metadata: {0}")]
    Metadata(String),
}

/// The image that was asked for is not in the release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no image tag {} exists in the release image {release}", mainstay_golang::quote(.name))]
pub struct NoImage {
    name: String,
    release: String,
}

fn listed(errors: &[FileError]) -> String {
    match errors {
        [only] => only.to_string(),
        several => std::iter::once("\n\n".to_owned()).chain(several.iter().map(|error| format!("* {error}\n"))).collect(),
    }
}

impl<'a> Info<'a> {
    /// Reads what is shown of a payload.
    pub fn read(asked: &'a str, files: &'a Files, image: Option<&'a ReleaseImage>) -> Result<Self, InfoError> {
        let (mut errors, mut references, mut metadata) = (Vec::new(), None, None);
        if let Some(content) = files.release(REFERENCES) {
            match read_references(content) {
                Ok(read) => references = Some(read),
                Err(error) => errors.push(error),
            }
        }
        if let Some(content) = files.release(METADATA) {
            match Metadata::read(content) {
                Ok(read) => metadata = Some(read),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(InfoError::Unreadable(errors));
        }
        let references = references.ok_or(InfoError::NoReferences)?;
        let read = components(&references);
        Ok(Self {
            asked,
            files,
            image,
            metadata,
            references,
            components: read.components,
            images: None,
            warnings: read.warnings,
            notices: read.notices,
        })
    }

    /// Adds the images of the release that were looked at, and why others were not.
    pub fn with_images(&mut self, images: BTreeMap<String, ReleaseImage>, warnings: impl IntoIterator<Item = String>) {
        self.images = Some(images);
        self.warnings.extend(warnings);
        self.warnings.sort();
    }

    /// Returns the version, or the name of the list of images.
    pub fn name(&self) -> &str {
        match &self.metadata {
            Some(metadata) => &metadata.version,
            None => self.references["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }

    /// Returns the names and pull specs of the images.
    pub fn tags(&self) -> impl Iterator<Item = Tag<'_>> {
        self.references["spec"]["tags"].as_array().into_iter().flatten().map(Tag)
    }

    /// Returns the pull spec of an image.
    pub fn image_for(&self, name: &str) -> Result<&str, NoImage> {
        let found = self.tags().filter(|tag| tag.name() == name).find_map(|tag| tag.image().filter(|image| !image.is_empty()));
        found.ok_or_else(|| NoImage { name: name.to_owned(), release: self.asked.to_owned() })
    }

    /// Returns the manifests by name.
    pub fn manifests(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let files: &'a Files = self.files;
        files.in_folder(Folder::Release).filter(|(name, _)| crate::payload::is_manifest(name) && !is_description(name))
    }

    /// Returns the number of entries that are neither manifests nor the release's description. An image has one for the folder itself.
    pub fn other_files(&self) -> usize {
        let others = self.files.in_folder(Folder::Release).filter(|(name, _)| !crate::payload::is_manifest(name) && !is_description(name));
        others.count() + usize::from(self.image.is_some())
    }

    /// Returns all files behind each other, each below its name (`--contents`).
    pub fn contents(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let described = [REFERENCES, METADATA].into_iter().filter_map(|name| Some((name, self.files.release(name)?)));
        for (name, content) in described.chain(self.manifests()) {
            out.extend_from_slice(format!("# {name}\n").as_bytes());
            out.extend_from_slice(content);
            if !content.is_empty() && !content.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
        out
    }

    /// Returns the digest by which a cluster is told about the image: of the list of platforms, if there is one.
    pub fn digest(&self) -> &str {
        self.image.map_or("", |image| image.listed.as_str())
    }

    /// Returns the pull spec by digest.
    pub fn pull_spec(&self) -> String {
        let name = self.asked.split_once('@').map_or(self.asked, |(name, _)| name);
        // A colon before the last slash is a port's.
        let name = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => name,
            _ => name,
        };
        if self.digest().is_empty() { name.to_owned() } else { format!("{name}@{}", self.digest()) }
    }

    /// Returns the system and the processors.
    pub fn platform(&self) -> String {
        let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let Some(image) = self.image else { return "unknown/unknown".to_owned() };
        let one = format!("{}/{}", known(image.os()), known(image.architecture()));
        if image.listed == image.digest { one } else { format!("multi ({one})") }
    }
}

/// An entry of `image-references`.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a>(pub &'a Value);

impl<'a> Tag<'a> {
    /// Returns its name.
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Returns the pull spec; none for an entry that is no image of a registry.
    pub fn image(self) -> Option<&'a str> {
        let from = &self.0["from"];
        (from["kind"] == "DockerImage").then(|| from["name"].as_str().unwrap_or_default())
    }

    /// Returns the digest of a pull spec that has one.
    pub fn digest(self) -> Option<&'a str> {
        self.image()?.split_once('@').map(|(_, digest)| digest)
    }

    /// Returns the digest, or the pull spec as it is.
    pub(crate) fn digest_or_image(self) -> &'a str {
        self.digest().or(self.image()).unwrap_or_default()
    }

    /// Returns the address of the source code; empty if it is not known.
    pub fn source_location(self) -> &'a str {
        self.annotation(SOURCE_LOCATION)
    }

    /// Returns the commit of the source code; empty if it is not known.
    pub fn source_commit(self) -> &'a str {
        self.annotation(SOURCE_COMMIT)
    }

    /// Returns an annotation; empty if there is none.
    pub fn annotation(self, key: &str) -> &'a str {
        self.0["annotations"][key].as_str().unwrap_or_default()
    }
}

fn is_description(name: &str) -> bool {
    name == METADATA || name == REFERENCES
}

/// Reads `image-references`.
///
/// # Errors
/// It is no ImageStream.
pub fn references(content: &[u8]) -> Result<Value, FileError> {
    read_references(content)
}

pub(crate) fn read_references(content: &[u8]) -> Result<Value, FileError> {
    let text = std::str::from_utf8(content).map_err(|_| FileError::Encoding)?;
    let document = mainstay_yaml::parse(text).map_err(FileError::References)?;
    if document["kind"] == "ImageStream" && document["apiVersion"] == "image.openshift.io/v1" { Ok(document) } else { Err(FileError::Kind) }
}

impl Metadata {
    /// Reads the file.
    pub fn read(content: &[u8]) -> Result<Self, FileError> {
        let document: Value = serde_json::from_slice(content).map_err(|error| FileError::Metadata(error.to_string()))?;
        let wrong = |field: &str, found: &Value, wanted: &str| {
            FileError::Metadata(format!(
                "json: cannot unmarshal {} into Go struct field CincinnatiMetadata.{field} of type {wanted}",
                value::json_type(found)
            ))
        };
        let text = |field: &str| match &document[field] {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(wrong(field, other, "string")),
        };
        let list = |field: &str| match &document[field] {
            Value::Null => Ok(None),
            Value::Array(items) => {
                let item = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| wrong(field, item, "string"));
                items.iter().map(item).collect::<Result<Vec<_>, _>>().map(Some)
            }
            other => Err(wrong(field, other, "[]string")),
        };
        let metadata = match &document["metadata"] {
            Value::Null => Map::new(),
            Value::Object(all) => all.clone(),
            other => return Err(wrong("metadata", other, "map[string]interface {}")),
        };
        Ok(Self {
            kind: text("kind")?,
            version: text("version")?,
            previous: list("previous")?,
            next: list("next")?.unwrap_or_default(),
            metadata,
        })
    }
}
