//! A bundle as the data of a ConfigMap, from which classic OLM unpacks it (CATLG-48, `opm alpha bundle extract`).

use std::collections::BTreeMap;

use crate::bundle::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::labels::{MANIFESTS, MEDIA_TYPE, METADATA};
use crate::read::{InvalidDocument, Limits, Tree};
use crate::validators::gzip_base64;

/// The annotation that names the image the content came from.
pub const SOURCE_IMAGE: &str = "olm.sourceImage";
/// The annotation of the content's encoding, and its only value.
pub const ENCODING: (&str, &str) = ("olm.contentEncoding", "gzip+base64");
/// The file whose entries become annotations of the ConfigMap.
const ANNOTATIONS: &str = "annotations.yaml";

/// The form of the content in the ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As text, in `data`.
    Plain,
    /// Compressed, in `binaryData`.
    Gzip,
}

/// The content of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The annotations. `None` if the bundle has no file of them; then those of the ConfigMap stay.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `data`.
    pub data: BTreeMap<String, String>,
    /// `binaryData`, before the base64 that every ConfigMap has.
    pub binary_data: BTreeMap<String, Vec<u8>>,
    /// Files whose names cannot be keys, and the keys they have instead.
    pub translated: Vec<(String, String)>,
}

/// Content that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigMapError {
    /// More bytes than allowed.
    #[error("bundle files exceeded {limit} bytes limit")]
    TooLarge {
        /// The allowed bytes.
        limit: u64,
    },
    /// The annotations cannot be read.
    #[error("{file}: {problem}")]
    Annotations {
        /// The file.
        file: String,
        /// The problem.
        #[source]
        problem: InvalidDocument,
    },
}

/// The content of the files of `manifests`, then of those of `metadata`, each given by name.
pub fn content<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    encoding: Encoding,
    limit: u64,
) -> Result<Content, ConfigMapError> {
    let mut content = Content::default();
    let mut total = 0_u64;
    for (name, bytes) in files {
        if name == ANNOTATIONS {
            content.annotations = Some(annotations(name, bytes)?);
            continue;
        }
        let packed = match encoding {
            Encoding::Plain => bytes.to_vec(),
            Encoding::Gzip => gzip_base64(bytes).into_bytes(),
        };
        total += packed.len() as u64;
        if total > limit {
            return Err(ConfigMapError::TooLarge { limit });
        }
        let key = key(name);
        if key != name {
            content.translated.push((name.to_owned(), key.clone()));
        }
        match encoding {
            Encoding::Plain => content.data.insert(key, String::from_utf8_lossy(&packed).into_owned()).map(String::into_bytes),
            Encoding::Gzip => content.binary_data.insert(key, packed),
        };
    }
    if encoding == Encoding::Gzip {
        let annotations = content.annotations.get_or_insert_default();
        annotations.insert(ENCODING.0.to_owned(), ENCODING.1.to_owned());
    }
    Ok(content)
}

/// The six annotations that describe the bundle; those that the file does not have are empty.
fn annotations(name: &str, bytes: &[u8]) -> Result<BTreeMap<String, String>, ConfigMapError> {
    let refuse = |problem: InvalidDocument| ConfigMapError::Annotations { file: name.to_owned(), problem };
    let tree = Tree::gather([(name, bytes)], Limits::default()).map_err(|error| refuse(InvalidDocument(error.to_string())))?;
    let document = tree.first_document(bytes).map_err(refuse)?;
    let mut found = crate::validators::texts(&document["annotations"]).map_err(refuse)?;
    let keys = [MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL];
    Ok(keys.into_iter().map(|key| (key.to_owned(), found.remove(key).unwrap_or_default())).collect())
}

/// A file's name as a key: only letters, digits, `-`, `_` and `.` stay.
fn key(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read as _;

    use base64::Engine as _;

    use super::*;

    const FILES: [(&str, &[u8]); 3] = [
        ("a:b.yaml", b"kind: X\n"),
        ("annotations.yaml", b"annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n"),
        ("d.yaml", b"d: 1\n"),
    ];

    /// CATLG-48: names become keys, annotations go to the ConfigMap itself, the limit counts what is written.
    #[test]
    fn files_become_keys() {
        let plain = content(FILES, Encoding::Plain, 13).unwrap();
        assert_eq!(
            plain.data,
            BTreeMap::from([("a-b.yaml".to_owned(), "kind: X\n".to_owned()), ("d.yaml".to_owned(), "d: 1\n".to_owned())])
        );
        assert_eq!(plain.translated, [("a:b.yaml".to_owned(), "a-b.yaml".to_owned())]);
        let annotations = plain.annotations.unwrap();
        assert_eq!((annotations.len(), annotations[PACKAGE].as_str(), annotations[CHANNELS].as_str()), (6, "p", ""));
        assert_eq!(content(FILES, Encoding::Plain, 12), Err(ConfigMapError::TooLarge { limit: 12 }));

        let packed = content(FILES, Encoding::Gzip, 1 << 20).unwrap();
        assert!(packed.data.is_empty());
        assert_eq!(packed.annotations.unwrap()[ENCODING.0], ENCODING.1);
        let bytes = base64::engine::general_purpose::STANDARD.decode(&packed.binary_data["d.yaml"]).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "d: 1\n");
    }
}
