//! Contents of files, and the limits of a rendered config (MACH-MC-08).

use std::io::Read as _;

use mainstay_ignition::data_url::{self, DataUrlError};
use mainstay_ignition::{Config, Struct};

/// The largest content of a file, unpacked.
pub const MAX_FILE: usize = 1 << 20;
/// The largest rendered config, as text.
pub const MAX_CONFIG: usize = 3 << 20;

/// The reason why a config cannot be written to a running node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The content is elsewhere.
    #[error("file {path}: contents.source {scheme}: only data URLs can be written to a running node")]
    Source {
        /// The file.
        path: String,
        /// The beginning of the source.
        scheme: String,
    },
    /// The data URL is broken.
    #[error("couldn't decode file {path:?}: {error}")]
    DataUrl {
        /// The file.
        path: String,
        /// The mistake.
        error: DataUrlError,
    },
    /// The compressed content is broken.
    #[error("couldn't decode file {path:?}: gzip: {error}")]
    Gzip {
        /// The file.
        path: String,
        /// The mistake.
        error: String,
    },
    /// The content is too large.
    #[error("file {path} has more than {MAX_FILE} bytes")]
    FileTooLarge {
        /// The file.
        path: String,
    },
    /// The config is too large.
    #[error("the rendered config has {0} bytes; at most {MAX_CONFIG} are rolled out")]
    ConfigTooLarge(usize),
    /// A volume is to be encrypted.
    #[error("storage.luks: encrypted volumes cannot be made on a running node: {0}")]
    Luks(String),
}

/// The content of a file; empty if nothing is said of it.
///
/// # Errors
/// The content is elsewhere, broken or too large.
pub fn content(file: &Struct) -> Result<Vec<u8>, ContentError> {
    let path = || file.text_or_empty("path").to_owned();
    let Some(contents) = file.child("contents") else { return Ok(Vec::new()) };
    let source = contents.text_or_empty("source");
    if source.is_empty() {
        return Ok(Vec::new());
    }
    if !source.starts_with("data:") {
        let scheme = source.split_once("://").map_or(source, |(scheme, _)| scheme);
        return Err(ContentError::Source { path: path(), scheme: scheme.chars().take(40).collect() });
    }
    let packed = data_url::decode(source).map_err(|error| ContentError::DataUrl { path: path(), error })?;
    if contents.text_or_empty("compression") != "gzip" {
        return if packed.len() > MAX_FILE { Err(ContentError::FileTooLarge { path: path() }) } else { Ok(packed) };
    }
    let mut content = Vec::new();
    let limit = MAX_FILE as u64 + 1;
    let read = flate2::read::MultiGzDecoder::new(packed.as_slice()).take(limit).read_to_end(&mut content);
    read.map_err(|error| ContentError::Gzip { path: path(), error: error.to_string() })?;
    if content.len() > MAX_FILE { Err(ContentError::FileTooLarge { path: path() }) } else { Ok(content) }
}

/// Checks that a merged config can be written to running nodes.
///
/// # Errors
/// See [`ContentError`].
pub fn check(config: &Config) -> Result<(), ContentError> {
    let size = config.to_json().len();
    if size > MAX_CONFIG {
        return Err(ContentError::ConfigTooLarge(size));
    }
    if let Some(volume) = config.structs("storage", "luks").next() {
        return Err(ContentError::Luks(volume.text_or_empty("name").to_owned()));
    }
    config.files().try_for_each(|file| content(file).map(drop))
}
