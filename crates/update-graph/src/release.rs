//! Release metadata: what a release says about itself and its neighbours (CVO-REL-02, CVO-OSUS-11).

use std::collections::BTreeMap;

use mainstay_versions::Version;
use serde::Serialize;
use serde_json::Value;

use crate::labels;

/// The largest document, in bytes.
const MAX_BYTES: usize = 4 << 20;
const MAX_NEIGHBOURS: usize = 50_000;
const KIND: &str = "cincinnati-metadata-v0";

/// A `release-metadata` document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReleaseMetadata {
    /// The version.
    pub version: Version,
    /// Versions that can be updated to this release.
    pub previous: Vec<Version>,
    /// Versions that this release can be updated to.
    pub next: Vec<Version>,
    /// Labels.
    pub metadata: BTreeMap<String, String>,
}

/// A release with its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The pullspec of the image by digest; empty if it is not known.
    pub payload: String,
    /// The document; its version has the architecture as build part.
    pub metadata: ReleaseMetadata,
}

/// Why a document is no release metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReleaseMetadata {
    /// It is too large.
    #[error("the document is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// It is no JSON.
    #[error("the document is no JSON: {0}")]
    Json(String),
    /// A field is missing or of the wrong type.
    #[error("field {field}: expected {expected}")]
    Field {
        /// Its name.
        field: String,
        /// The form that is expected.
        expected: &'static str,
    },
    /// The kind is not the one that is known.
    #[error("unrecognized Cincinnati metadata kind {}", mainstay_golang::quote(.0))]
    Kind(String),
    /// A version cannot be read.
    #[error("field {field}: {} is not a valid semantic version: {source}", mainstay_golang::quote(.text))]
    Version {
        /// The field.
        field: &'static str,
        /// The text.
        text: String,
        /// The problem.
        source: mainstay_versions::Error,
    },
}

impl ReleaseMetadata {
    /// Reads a document.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidReleaseMetadata> {
        if text.len() > MAX_BYTES {
            return Err(InvalidReleaseMetadata::TooLarge);
        }
        let value: Value = serde_json::from_slice(text).map_err(|error| InvalidReleaseMetadata::Json(error.to_string()))?;
        Self::read(&value)
    }

    /// Reads a document that is JSON already.
    pub fn read(value: &Value) -> Result<Self, InvalidReleaseMetadata> {
        let wrong = |field: &str, expected| InvalidReleaseMetadata::Field { field: field.to_owned(), expected };
        let kind = value["kind"].as_str().ok_or_else(|| wrong("kind", "text"))?;
        if kind != KIND {
            return Err(InvalidReleaseMetadata::Kind(kind.to_owned()));
        }
        let version = |field, text: &str| {
            Version::parse(text).map_err(|source| InvalidReleaseMetadata::Version { field, text: text.to_owned(), source })
        };
        let neighbours = |field: &'static str| match &value[field] {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) if items.len() <= MAX_NEIGHBOURS => {
                items.iter().map(|item| version(field, item.as_str().ok_or_else(|| wrong(field, "a list of versions"))?)).collect()
            }
            Value::Array(_) => Err(wrong(field, "at most 50000 versions")),
            _ => Err(wrong(field, "a list of versions")),
        };
        let metadata = match &value["metadata"] {
            Value::Null => BTreeMap::new(),
            Value::Object(labels) => {
                let label = |(key, value): (&String, &Value)| {
                    let text = value.as_str().ok_or_else(|| wrong(&format!("metadata[{key}]"), "text"))?;
                    Ok((key.clone(), text.to_owned()))
                };
                labels.iter().map(label).collect::<Result<_, _>>()?
            }
            _ => return Err(wrong("metadata", "texts by name")),
        };
        Ok(Self {
            version: version("version", value["version"].as_str().ok_or_else(|| wrong("version", "text"))?)?,
            previous: neighbours("previous")?,
            next: neighbours("next")?,
            metadata,
        })
    }

    /// The document as JSON.
    pub fn to_json(&self) -> Value {
        let texts = |versions: &[Version]| versions.iter().map(ToString::to_string).collect::<Vec<_>>();
        serde_json::json!({
            "kind": KIND, "version": self.version.to_string(), "previous": texts(&self.previous), "next": texts(&self.next),
            "metadata": self.metadata,
        })
    }

    /// Returns true if the release calls itself one for several architectures.
    pub fn is_multi(&self) -> bool {
        self.metadata.get(labels::RELEASE_ARCHITECTURE).is_some_and(|value| value == labels::MULTI)
    }
}

impl Release {
    /// The release of an image: its version gets the architecture as build part, and the labels name architecture and digest. `None` for a part
    /// of a release for several architectures, which is no release of its own.
    pub fn of_image(payload: String, digest: &str, architecture: &str, mut metadata: ReleaseMetadata) -> Option<Self> {
        if metadata.is_multi() && architecture != labels::MULTI {
            return None;
        }
        metadata.version = with_build(&metadata.version, architecture);
        if !digest.is_empty() {
            metadata.metadata.insert(labels::MANIFEST_REF.to_owned(), digest.to_owned());
        }
        metadata.metadata.insert(labels::ARCHITECTURE.to_owned(), architecture.to_owned());
        Some(Self { payload, metadata })
    }
}

/// The version with another build part; none if it is empty. A text that cannot be a build part leaves the version as it is.
pub(crate) fn with_build(version: &Version, build: &str) -> Version {
    let plain = without_build(version);
    if build.is_empty() { plain } else { Version::parse(&format!("{plain}+{build}")).unwrap_or_else(|_| version.clone()) }
}

/// The version without its build part.
pub(crate) fn without_build(version: &Version) -> Version {
    let text = version.to_string();
    // What stands before the build part is a version.
    text.split_once('+').map_or_else(|| version.clone(), |(plain, _)| Version::parse(plain).unwrap_or_else(|_| version.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// CVO-REL-02: what is no release metadata, and why.
    #[test]
    fn refused_documents() {
        for (text, words) in [
            ("x", "the document is no JSON: expected value at line 1 column 1"),
            ("{}", "field kind: expected text"),
            (r#"{"kind": "v1"}"#, "unrecognized Cincinnati metadata kind \"v1\""),
            (r#"{"kind": "cincinnati-metadata-v0"}"#, "field version: expected text"),
            (
                r#"{"kind": "cincinnati-metadata-v0", "version": "4"}"#,
                "field version: \"4\" is not a valid semantic version: No Major.Minor.Patch elements found",
            ),
            (
                r#"{"kind": "cincinnati-metadata-v0", "version": "4.0.0", "previous": ["x"]}"#,
                "field previous: \"x\" is not a valid semantic version: No Major.Minor.Patch elements found",
            ),
            (r#"{"kind": "cincinnati-metadata-v0", "version": "4.0.0", "next": 1}"#, "field next: expected a list of versions"),
            (r#"{"kind": "cincinnati-metadata-v0", "version": "4.0.0", "metadata": {"a": 1}}"#, "field metadata[a]: expected text"),
        ] {
            assert_eq!(ReleaseMetadata::parse(text.as_bytes()).unwrap_err().to_string(), words);
        }
    }

    /// CVO-OSUS-11: the architecture becomes the build part; a part of a release for several is skipped.
    #[test]
    fn releases_of_images() {
        let document =
            r#"{"kind": "cincinnati-metadata-v0", "version": "4.11.9", "metadata": {"release.openshift.io/architecture": "multi"}}"#;
        let metadata = ReleaseMetadata::parse(document.as_bytes()).unwrap();
        assert_eq!(Release::of_image(String::new(), "", "amd64", metadata.clone()), None);
        let release = Release::of_image("r@sha256:1".to_owned(), "sha256:1", "multi", metadata).unwrap();
        assert_eq!(release.metadata.version.to_string(), "4.11.9+multi");
        assert_eq!(release.metadata.metadata[labels::MANIFEST_REF], "sha256:1");
        assert_eq!(release.metadata.metadata[labels::ARCHITECTURE], "multi");
    }
}
