//! `release-metadata` and `image-references` (CVO-REL-02, CVO-REL-03).

use mainstay_golang::{quote, value};
use mainstay_versions::Version;
use serde_json::Value;

/// The kind of `release-metadata`.
const KIND: &str = "cincinnati-metadata-v0";
/// The key of the architecture.
const ARCHITECTURE: &str = "release.openshift.io/architecture";
/// The key of the channels.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
/// The key of the errata page.
const URL: &str = "url";

/// The description that a release gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The version.
    pub version: Version,
    /// The version as it is written.
    pub version_text: String,
    /// The versions that may update to it.
    pub previous: Vec<String>,
    /// The versions that it may update to.
    pub next: Vec<String>,
    /// The errata page.
    pub url: Option<String>,
    /// The channels, sorted.
    pub channels: Vec<String>,
    /// The processors that it is for.
    pub architecture: Architecture,
    /// Entries that have another type than they should; they count as absent.
    pub warnings: Vec<String>,
}

/// The processors that a release is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// One, which the release does not name: that of the program that runs.
    Single,
    /// Several.
    Multi,
}

/// A file that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// `release-metadata` is not JSON, or a field has another type.
    #[error("unmarshal Cincinnati metadata: {0}")]
    Unreadable(String),
    /// Another kind.
    #[error("unrecognized Cincinnati metadata kind {}", quote(.0))]
    Kind(String),
    /// No version.
    #[error("missing required Cincinnati metadata version")]
    NoVersion,
    /// The version is not a semantic one.
    #[error("Cincinnati metadata version {} is not a valid semantic version: {error}", quote(.version))]
    Version {
        /// The version.
        version: String,
        /// The rule that it breaks.
        error: mainstay_versions::Error,
    },
    /// An architecture other than `multi`.
    #[error("Architecture from release-metadata ({version}) contains invalid value: {}. Valid value is \"multi\".", quote(.value))]
    Architecture {
        /// The version.
        version: String,
        /// The value.
        value: String,
    },
    /// An architecture that is no text.
    #[error("Architecture from release-metadata ({version}) is not a string: {value}")]
    ArchitectureType {
        /// The version.
        version: String,
        /// The value.
        value: String,
    },
    /// `image-references` is not JSON or YAML.
    #[error("unmarshal image-references: {0}")]
    References(mainstay_yaml::Error),
    /// `image-references` is of another kind.
    #[error("image-references is a {0}, not a v1 ImageStream")]
    ReferencesKind(String),
    /// A file is not UTF-8.
    #[error("{0} is not UTF-8")]
    Encoding(&'static str),
}

impl Metadata {
    /// Reads `release-metadata`.
    pub fn parse(content: &[u8]) -> Result<Self, MetadataError> {
        let document: Value = serde_json::from_slice(content).map_err(|error| MetadataError::Unreadable(error.to_string()))?;
        let text = |field: &'static str| match &document[field] {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text.as_str()),
            other => Err(wrong_type(field, other)),
        };
        let (kind, version) = (text("kind")?, text("version")?);
        let list = |field: &'static str| match &document[field] {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong_type(field, item)))
                .collect::<Result<Vec<_>, _>>(),
            other => Err(wrong_type(field, other)),
        };
        let (previous, next) = (list("previous")?, list("next")?);
        // Go finds this field in any case.
        let extra = document.as_object().and_then(|all| all.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case("metadata")));
        let extra = match extra {
            None | Some((_, Value::Null)) => Value::Null,
            Some((_, object @ Value::Object(_))) => object.clone(),
            Some((_, other)) => return Err(wrong_type("metadata", other)),
        };
        if kind != KIND {
            return Err(MetadataError::Kind(kind.to_owned()));
        }
        if version.is_empty() {
            return Err(MetadataError::NoVersion);
        }
        let parsed = Version::parse(version).map_err(|error| MetadataError::Version { version: version.to_owned(), error })?;
        let architecture = match &extra[ARCHITECTURE] {
            Value::Null if extra.get(ARCHITECTURE).is_none() => Architecture::Single,
            Value::String(text) if text == "multi" => Architecture::Multi,
            Value::String(text) => return Err(MetadataError::Architecture { version: version.to_owned(), value: text.clone() }),
            other => return Err(MetadataError::ArchitectureType { version: version.to_owned(), value: value::plain(other) }),
        };
        let mut warnings = Vec::new();
        let mut optional = |key: &str, name: &str| match extra.get(key) {
            None => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                warnings.push(format!("{name} from release-metadata ({version}) is not a string: {}", value::plain(other)));
                None
            }
        };
        let url = optional(URL, "URL");
        let mut channels: Vec<String> =
            optional(CHANNELS, "channel list").map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default();
        channels.sort();
        Ok(Self { version: parsed, version_text: version.to_owned(), previous, next, url, channels, architecture, warnings })
    }
}

fn wrong_type(field: &str, found: &Value) -> MetadataError {
    MetadataError::Unreadable(format!("field {field} has a value of type {}", value::json_type(found)))
}

/// The images of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReferences {
    /// The name of the release.
    pub name: String,
    /// When the list was made, as it is written.
    pub created: Option<String>,
    /// The images, in the order of the file.
    pub images: Vec<ImageReference>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Its name in the release.
    pub name: String,
    /// Its pull spec; empty if it has none.
    pub image: String,
    /// Where it comes from, by annotation.
    pub annotations: std::collections::BTreeMap<String, String>,
}

impl ImageReferences {
    /// Reads `image-references`.
    pub fn parse(content: &[u8]) -> Result<Self, MetadataError> {
        let text = std::str::from_utf8(content).map_err(|_| MetadataError::Encoding("image-references"))?;
        let document = mainstay_yaml::parse(text).map_err(MetadataError::References)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        if kind != "ImageStream" || !matches!(&*version, "image.openshift.io/v1" | "v1") {
            return Err(MetadataError::ReferencesKind(format!("{version} {kind}").trim().to_owned()));
        }
        let images = document["spec"]["tags"].as_array().into_iter().flatten().map(|tag| ImageReference {
            name: text(&tag["name"]),
            image: if tag["from"]["kind"] == "DockerImage" { text(&tag["from"]["name"]) } else { String::new() },
            annotations: tag["annotations"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| value.as_str().map(|value| (key.clone(), value.to_owned())))
                .collect(),
        });
        Ok(Self {
            name: text(&document["metadata"]["name"]),
            created: document["metadata"]["creationTimestamp"].as_str().map(str::to_owned),
            images: images.collect(),
        })
    }

    /// Returns the image of a name.
    pub fn image(&self, name: &str) -> Option<&ImageReference> {
        self.images.iter().find(|image| image.name == name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-REL-02: what is accepted, and each refusal in its words.
    #[test]
    fn metadata() {
        let read = |text: &str| Metadata::parse(text.as_bytes());
        let good = r#"{"kind": "cincinnati-metadata-v0", "version": "4.11.9", "previous": ["4.10.22"], "metadata":
            {"url": "https://errata.example/2", "io.openshift.upgrades.graph.release.channels": "b,a", "release.openshift.io/architecture": "multi"}}"#;
        let metadata = read(good).unwrap();
        assert_eq!((metadata.version_text.as_str(), metadata.channels.join(" ").as_str()), ("4.11.9", "a b"));
        assert_eq!((metadata.architecture, metadata.previous.len(), metadata.next.len()), (Architecture::Multi, 1, 0));
        let other = read(r#"{"kind": "cincinnati-metadata-v0", "version": "1.0.0", "metadata": {"url": 7}}"#).unwrap();
        assert_eq!((other.url, other.warnings), (None, vec!["URL from release-metadata (1.0.0) is not a string: 7".to_owned()]));
        for (text, expected) in [
            ("{}", "unrecognized Cincinnati metadata kind \"\""),
            (r#"{"kind": "cincinnati-metadata-v0"}"#, "missing required Cincinnati metadata version"),
            (
                r#"{"kind": "cincinnati-metadata-v0", "version": "4.11"}"#,
                "Cincinnati metadata version \"4.11\" is not a valid semantic version: No Major.Minor.Patch elements found",
            ),
            (
                r#"{"kind": "cincinnati-metadata-v0", "version": "4.1.0", "metadata": {"release.openshift.io/architecture": "arm64"}}"#,
                "Architecture from release-metadata (4.1.0) contains invalid value: \"arm64\". Valid value is \"multi\".",
            ),
            (
                r#"{"kind": "cincinnati-metadata-v0", "version": "4.1.0", "metadata": {"release.openshift.io/architecture": true}}"#,
                "Architecture from release-metadata (4.1.0) is not a string: true",
            ),
            (r#"{"kind": 1}"#, "unmarshal Cincinnati metadata: field kind has a value of type number"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(read("{").unwrap_err().to_string().starts_with("unmarshal Cincinnati metadata: "));
    }

    /// CVO-REL-03: the images by name, and another kind.
    #[test]
    fn references() {
        let text = r#"{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "4.11.9"}, "spec": {"tags": [
            {"name": "demo", "annotations": {"io.openshift.build.commit.id": "12"}, "from": {"kind": "DockerImage", "name": "r.test/a@sha256:dd"}}]}}"#;
        let references = ImageReferences::parse(text.as_bytes()).unwrap();
        assert_eq!(references.image("demo").unwrap().image, "r.test/a@sha256:dd");
        assert_eq!((references.name.as_str(), references.image("other")), ("4.11.9", None));
        let other = ImageReferences::parse(br#"{"kind": "Pod", "apiVersion": "v1"}"#).unwrap_err();
        assert_eq!(other.to_string(), "image-references is a v1 Pod, not a v1 ImageStream");
    }
}
