//! A whole payload: its files read, checked and filtered (CVO-REL-04 to CVO-REL-06).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::Value;

use crate::capability::Capabilities;
use crate::files::{Files, Folder};
use crate::include::{Exclusion, Filter, Gates};
use crate::manifest::{self, Manifest, ManifestError, ManifestId};
use crate::metadata::{ImageReferences, Metadata, MetadataError};
use crate::template::{self, TemplateError, Values};

const METADATA: &str = "release-metadata";
const REFERENCES: &str = "image-references";
/// The most problems that an error names.
const MAX_PROBLEMS: usize = 20;

/// The circumstances under which a payload is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The pull spec of the release.
    pub image: &'a str,
    /// The profile of the cluster.
    pub profile: &'a str,
    /// The identifier of the installation whose exclusions count.
    pub exclude_identifier: &'a str,
    /// The feature set of the cluster; empty for the default one.
    pub feature_set: &'a str,
    /// The capabilities that this program knows; a manifest that names another one is left out.
    pub known_capabilities: Option<&'a Capabilities>,
    /// The place as messages name it: a folder or an image.
    pub place: &'a str,
}

/// A payload that was loaded.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The description that the release gives of itself.
    pub metadata: Metadata,
    /// Its images.
    pub references: ImageReferences,
    /// The pull spec.
    pub image: String,
    /// The fingerprint of the manifests (CVO-REL-06).
    pub version_hash: String,
    /// The manifests that passed the filters of loading, in load order.
    pub manifests: Vec<Manifest>,
    /// The manifests that did not.
    pub excluded: Vec<(Manifest, Exclusion)>,
}

/// A payload that cannot be loaded; nothing of it may be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A folder or file is missing.
    #[error("{place}: {missing} is missing")]
    Missing {
        /// The place.
        place: String,
        /// The path in the image.
        missing: String,
    },
    /// The description of the release cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The two files name different versions.
    #[error("Version from image-references ({references}) differs from release-metadata ({metadata})")]
    Version {
        /// The version of `image-references`.
        references: String,
        /// The version of `release-metadata`.
        metadata: String,
    },
    /// Manifests cannot be read.
    #[error("Error loading manifests from {place}: {}", aggregate(.problems, *.more))]
    Manifests {
        /// The place.
        place: String,
        /// The first problems, in the order of files.
        problems: Vec<Problem>,
        /// The number of problems beyond those.
        more: usize,
    },
}

/// A manifest file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Its template cannot be filled in.
    #[error("preprocess {file}: {error}")]
    Template {
        /// The file.
        file: String,
        /// The reason.
        error: TemplateError,
    },
    /// Its objects cannot be read.
    #[error("parse {file}: {error}")]
    Manifest {
        /// The file.
        file: String,
        /// The reason.
        error: ManifestError,
    },
}

/// Problems as Kubernetes lists them.
fn aggregate(problems: &[Problem], more: usize) -> String {
    let mut texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    if let [one] = &*texts { one.clone() } else { format!("[{}]", texts.join(", ")) }
}

/// Two included manifests about the same object; both are applied, in order (CVO-INC-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The object.
    pub id: ManifestId,
    /// The files, in load order.
    pub files: Vec<String>,
}

impl Payload {
    /// Loads a payload.
    pub fn load(files: &Files, load: Load<'_>) -> Result<Self, LoadError> {
        let missing = |missing: &str| LoadError::Missing { place: load.place.to_owned(), missing: missing.to_owned() };
        if !files.has(Folder::Release) {
            return Err(missing(Folder::Release.name()));
        }
        let file = |name: &str| files.release(name).ok_or_else(|| missing(&format!("{}/{name}", Folder::Release.name())));
        let (metadata, references) = (file(METADATA)?, file(REFERENCES)?);
        let (metadata, references) = (Metadata::parse(metadata)?, ImageReferences::parse(references)?);
        if references.name != metadata.version_text {
            return Err(LoadError::Version { references: references.name, metadata: metadata.version_text });
        }
        let filter = Filter {
            exclude_identifier: Some(load.exclude_identifier),
            feature_set: Some(load.feature_set),
            profile: Some(load.profile),
            capabilities: load.known_capabilities,
            allow_unknown_capabilities: false,
            overrides: &[],
            gates: Gates::default(),
        };
        let values = Values { release_image: load.image, cluster_profile: load.profile };
        let mut loaded = Self {
            metadata,
            references,
            image: load.image.to_owned(),
            version_hash: String::new(),
            manifests: Vec::new(),
            excluded: Vec::new(),
        };
        let mut problems = Vec::new();
        for (folder, name, content) in files.ordered().filter(|(_, name, _)| is_manifest(name)) {
            match read(folder, name, content, values) {
                Err(problem) => problems.push(problem),
                Ok(manifests) => {
                    for manifest in manifests {
                        if let Some(exclusion) = filter.exclusion(&manifest) {
                            loaded.excluded.push((manifest, exclusion));
                        } else {
                            loaded.manifests.push(manifest);
                        }
                    }
                }
            }
        }
        if !problems.is_empty() {
            let more = problems.len().saturating_sub(MAX_PROBLEMS);
            problems.truncate(MAX_PROBLEMS);
            return Err(LoadError::Manifests { place: load.place.to_owned(), problems, more });
        }
        loaded.version_hash = fingerprint(&loaded.manifests);
        Ok(loaded)
    }

    /// Holds the manifests compressed, and forgets the excluded ones: for a release that stays in memory.
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.excluded = Vec::new();
        self.manifests.iter_mut().for_each(Manifest::pack);
        self
    }

    /// Reads every manifest of a payload in load order, without any filter.
    pub fn all(files: &Files, values: Values<'_>, place: &str) -> Result<Vec<Manifest>, LoadError> {
        let (mut manifests, mut problems) = (Vec::new(), Vec::new());
        for (folder, name, content) in files.ordered().filter(|(_, name, _)| is_manifest(name)) {
            match read(folder, name, content, values) {
                Ok(more) => manifests.extend(more),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            return Ok(manifests);
        }
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        Err(LoadError::Manifests { place: place.to_owned(), problems, more })
    }

    /// Returns the objects that several included manifests are about (CVO-INC-05).
    pub fn duplicates(&self) -> Vec<Duplicate> {
        let mut files = BTreeMap::<&ManifestId, Vec<String>>::new();
        for manifest in &self.manifests {
            files.entry(manifest.id()).or_default().push(manifest.file().to_owned());
        }
        files.into_iter().filter(|(_, files)| files.len() > 1).map(|(id, files)| Duplicate { id: id.clone(), files }).collect()
    }
}

fn read(folder: Folder, name: &str, content: &[u8], values: Values<'_>) -> Result<Vec<Manifest>, Problem> {
    let manifest = |error| Problem::Manifest { file: name.to_owned(), error };
    if folder == Folder::Release {
        return manifest::parse(name, content).map_err(manifest);
    }
    let text = std::str::from_utf8(content).map_err(|_| manifest(ManifestError::Encoding))?;
    match template::render(text, values) {
        Ok(text) => manifest::parse(name, text.as_bytes()).map_err(manifest),
        Err(error) => rewritten(name, content, values).ok_or_else(|| Problem::Template { file: name.to_owned(), error }),
    }
}

/// Reads a template that `release extract` wrote: as YAML written anew, which may break an action over lines. Its values are templates of their
/// own.
fn rewritten(name: &str, content: &[u8], values: Values<'_>) -> Option<Vec<Manifest>> {
    let mut manifests = manifest::parse(name, content).ok()?;
    let mut is_whole = true;
    for manifest in &mut manifests {
        manifest.edit(|object| is_whole &= render_texts(object, values));
    }
    is_whole.then_some(manifests)
}

/// Replaces all texts of a value; false if one of them is no template.
fn render_texts(value: &mut Value, values: Values<'_>) -> bool {
    match value {
        Value::String(text) => template::render(text, values).map(|rendered| *text = rendered).is_ok(),
        Value::Array(items) => items.iter_mut().all(|item| render_texts(item, values)),
        Value::Object(fields) => fields.values_mut().all(|field| render_texts(field, values)),
        _ => true,
    }
}

pub(crate) fn is_manifest(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
}

/// Returns the fingerprint of manifests (CVO-REL-06): FNV-1 with 64 bits, in base64 for URLs.
pub fn fingerprint<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for manifest in manifests {
        for byte in manifest.raw().bytes() {
            hash = hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
        }
    }
    URL_SAFE.encode(hash.to_be_bytes())
}
