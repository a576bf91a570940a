//! Lists of releases in files: in place of a registry (CVO-OSUS-12).
//!
//! Each entry is a `release-metadata` document, or `{"image": PULLSPEC, "arch": amd64, "metadata": DOCUMENT}`. A file holds one entry, a list of them,
//! or one a line.

use serde_json::Value;

use crate::labels;
use crate::release::{InvalidReleaseMetadata, Release, ReleaseMetadata};

const MAX_BYTES: usize = 256 << 20;
const MAX_RELEASES: usize = 50_000;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRelease {
    /// The pullspec, if the entry names one.
    pub image: Option<String>,
    /// The architecture, if the entry names one.
    pub architecture: Option<String>,
    /// The document.
    pub metadata: ReleaseMetadata,
}

/// Why a list cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReleaseList {
    /// It is too large.
    #[error("the list has more than {limit} {what}")]
    TooLarge {
        /// The limit that is exceeded.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// It is no JSON.
    #[error("the list is no JSON: {0}")]
    Json(String),
    /// An entry has a field of a wrong type.
    #[error("entry {entry}: field {field}: expected text")]
    Field {
        /// Its number, from 1.
        entry: usize,
        /// The field.
        field: &'static str,
    },
    /// The document of an entry cannot be read.
    #[error("entry {entry}: {source}")]
    Metadata {
        /// Its number, from 1.
        entry: usize,
        /// The problem.
        source: InvalidReleaseMetadata,
    },
}

/// Reads a list.
pub fn read_release_list(text: &[u8]) -> Result<Vec<ListedRelease>, InvalidReleaseList> {
    if text.len() > MAX_BYTES {
        return Err(InvalidReleaseList::TooLarge { what: "bytes", limit: MAX_BYTES });
    }
    let mut releases = Vec::new();
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        let value = value.map_err(|error| InvalidReleaseList::Json(error.to_string()))?;
        let entries = if let Value::Array(entries) = value { entries } else { vec![value] };
        for entry in &entries {
            if releases.len() == MAX_RELEASES {
                return Err(InvalidReleaseList::TooLarge { what: "entries", limit: MAX_RELEASES });
            }
            releases.push(read(entry, releases.len() + 1)?);
        }
    }
    Ok(releases)
}

fn read(value: &Value, entry: usize) -> Result<ListedRelease, InvalidReleaseList> {
    let metadata = |value| ReleaseMetadata::read(value).map_err(|source| InvalidReleaseList::Metadata { entry, source });
    if value.get("kind").is_some() {
        return Ok(ListedRelease { image: None, architecture: None, metadata: metadata(value)? });
    }
    let text = |field| match &value[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(InvalidReleaseList::Field { entry, field }),
    };
    Ok(ListedRelease { image: text("image")?, architecture: text("arch")?, metadata: metadata(&value["metadata"])? })
}

impl ListedRelease {
    /// The release; `architecture` is that of entries that name none, unless they call themselves releases for several. `None` for a part of a
    /// release for several architectures.
    pub fn into_release(self, architecture: &str) -> Option<Release> {
        let own = self.architecture.unwrap_or_else(|| {
            let multi = self.metadata.is_multi();
            if multi { labels::MULTI.to_owned() } else { architecture.to_owned() }
        });
        let payload = self.image.unwrap_or_default();
        let digest = payload.split_once('@').map(|(_, digest)| digest.to_owned()).unwrap_or_default();
        Release::of_image(payload, &digest, &own, self.metadata)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DOCUMENT: &str = r#"{"kind": "cincinnati-metadata-v0", "version": "4.11.9"}"#;

    /// CVO-OSUS-12: a list in each of its forms.
    #[test]
    fn forms() {
        let entry = format!(r#"{{"image": "r@sha256:1", "arch": "arm64", "metadata": {DOCUMENT}}}"#);
        for (text, count) in [
            (String::new(), 0),
            (DOCUMENT.to_owned(), 1),
            (entry.clone(), 1),
            (format!("[{DOCUMENT}, {entry}]"), 2),
            (format!("{DOCUMENT}\n{entry}\n"), 2),
        ] {
            assert_eq!(read_release_list(text.as_bytes()).unwrap().len(), count, "{text}");
        }
        let releases: Vec<Release> = read_release_list(format!("[{DOCUMENT}, {entry}]").as_bytes())
            .unwrap()
            .into_iter()
            .filter_map(|listed| listed.into_release("amd64"))
            .collect();
        assert_eq!(releases[0].metadata.version.to_string(), "4.11.9+amd64");
        assert_eq!((releases[1].metadata.version.to_string().as_str(), releases[1].payload.as_str()), ("4.11.9+arm64", "r@sha256:1"));
        assert_eq!(releases[1].metadata.metadata[labels::MANIFEST_REF], "sha256:1");
    }

    #[test]
    fn refused() {
        let words = |text: &str| read_release_list(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(words("[1]"), "entry 1: field kind: expected text");
        assert_eq!(words(r#"{"image": 1}"#), "entry 1: field image: expected text");
        assert!(words("{").starts_with("the list is no JSON"));
    }
}
