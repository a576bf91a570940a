//! The content of a bundle in its ConfigMap: written as `opm alpha bundle extract -z` does, and read as OLM reads it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use crate::steps::{self, Loaded};

/// The limit of what a ConfigMap holds, in bytes.
const LIMIT: usize = 1 << 20;
/// The limit of a file after decompression, in bytes.
const LARGEST: u64 = 16 << 20;
const ENCODING: &str = "olm.contentEncoding";
const GZIP: &str = "gzip+base64";
const SOURCE_IMAGE: &str = "olm.sourceImage";
const ANNOTATIONS: &str = "annotations.yaml";
/// The annotations of a bundle that its ConfigMap has as well.
const COPIED: [&str; 6] = [
    "operators.operatorframework.io.bundle.manifests.v1",
    "operators.operatorframework.io.bundle.mediatype.v1",
    "operators.operatorframework.io.bundle.metadata.v1",
    "operators.operatorframework.io.bundle.package.v1",
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
];

/// Bundle that does not fit a ConfigMap, or ConfigMap that holds none.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A folder is missing.
    #[error("open /bundle/{0}: no such file or directory")]
    NoFolder(&'static str),
    /// The annotations are no YAML object.
    #[error("metadata/{ANNOTATIONS}: {0}")]
    Annotations(String),
    /// The files are too large together.
    #[error("bundle files exceeded {LIMIT} bytes limit")]
    TooLarge,
    /// A file cannot be compressed or decompressed.
    #[error("{0}: {1}")]
    Gzip(String, #[source] std::io::Error),
    /// An entry is no base64.
    #[error("error decoding gzip-encoded bundle data: {0}")]
    Base64(String),
}

/// Fills a ConfigMap with the files of a bundle, by their paths.
pub fn fill(config_map: &Value, image: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<Value, ContentError> {
    let mut filled = config_map.clone();
    let (mut data, mut total) = (Map::new(), 0_usize);
    let mut annotations: Option<Map<String, Value>> = None;
    for folder in ["manifests/", "metadata/"] {
        let mut inside = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(folder)?, bytes))).peekable();
        if inside.peek().is_none() {
            return Err(ContentError::NoFolder(folder));
        }
        for (name, bytes) in inside.filter(|(name, _)| !name.contains('/')) {
            if name == ANNOTATIONS {
                annotations = Some(copied(bytes)?);
                continue;
            }
            let packed = pack(bytes).map_err(|error| ContentError::Gzip(name.to_owned(), error))?;
            total += packed.len();
            if total > LIMIT {
                return Err(ContentError::TooLarge);
            }
            // The API writes binary data as base64 once more.
            data.insert(key(name), json!(STANDARD.encode(packed)));
        }
    }
    let mut all = annotations.or_else(|| config_map["metadata"]["annotations"].as_object().cloned()).unwrap_or_default();
    all.insert(SOURCE_IMAGE.to_owned(), json!(image));
    all.insert(ENCODING.to_owned(), json!(GZIP));
    filled["metadata"]["annotations"] = Value::Object(all);
    filled["binaryData"] = Value::Object(data);
    if let Some(fields) = filled.as_object_mut() {
        fields.remove("data");
    }
    Ok(filled)
}

/// Reads the bundle in a ConfigMap; one that was not filled has no objects.
pub fn load(config_map: &Value) -> Result<Loaded, ContentError> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    if config_map["metadata"]["annotations"][ENCODING] == GZIP {
        for (name, value) in config_map["binaryData"].as_object().into_iter().flatten() {
            let bad = |error: base64::DecodeError| ContentError::Base64(format!("{name}: {error}"));
            let packed = STANDARD.decode(value.as_str().unwrap_or_default()).map_err(bad)?;
            let packed = STANDARD.decode(packed).map_err(bad)?;
            let mut bytes = Vec::new();
            let read = GzDecoder::new(&*packed).take(LARGEST).read_to_end(&mut bytes);
            read.map_err(|error| ContentError::Gzip(name.clone(), error))?;
            files.insert(name.clone(), bytes);
        }
    } else {
        for (name, value) in config_map["data"].as_object().into_iter().flatten() {
            files.insert(name.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec());
        }
    }
    Ok(steps::load(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))))
}

fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?).into_bytes())
}

/// The key of a file: what a key cannot contain becomes `~`.
fn key(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if allowed(c) { c } else { '~' }).collect()
}

fn copied(bytes: &[u8]) -> Result<Map<String, Value>, ContentError> {
    let text = String::from_utf8_lossy(bytes);
    let value: Value = mainstay_yaml::parse(&text).map_err(|error| ContentError::Annotations(error.to_string()))?;
    let of = |name: &&str| ((*name).to_owned(), json!(value["annotations"][*name].as_str().unwrap_or_default()));
    Ok(COPIED.iter().map(of).collect())
}
