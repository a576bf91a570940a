//! Errors of reading a catalog or its index.

use crate::decode::Shape;

/// Reason why a file of a catalog could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct SourceError {
    /// Path of the file below the root of the catalog.
    pub path: String,
    /// The reader's message.
    pub reason: String,
}

/// Reason why a catalog was not loaded. One bad blob fails the whole load (OLM1-FBC-02), so each variant holds the blob's file and line.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The source could not provide a file.
    #[error("catalog cannot be read: {0}")]
    Source(#[from] SourceError),
    /// The bytes are not JSON.
    #[error("{path}:{line}: not valid JSON: {reason}")]
    Json {
        /// File below the root.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// The text is not YAML.
    #[error("{path}:{line}: not valid YAML: {reason}")]
    Yaml {
        /// File below the root.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// A document that is not a mapping.
    #[error(
        "{path}:{line}: a catalog file holds mappings with a `schema` each, found {found}; list the file in .indexignore if it is not part of the catalog"
    )]
    NotAMapping {
        /// File below the root.
        path: String,
        /// Line where the document begins.
        line: usize,
        /// Kind of the value.
        found: &'static str,
    },
    /// A blob without `schema` (CATLG-11).
    #[error("{path}:{line}: object '{object}' is missing root schema field")]
    MissingSchema {
        /// File below the root.
        path: String,
        /// Line where the blob begins.
        line: usize,
        /// The blob, shortened when long.
        object: String,
    },
    /// Two keys of one blob are equal when case is ignored (OLM1-FBC-06).
    #[error("{path}:{line}: duplicate keys for key \"{key}\": [{first} {second}]")]
    DuplicateKey {
        /// File below the root.
        path: String,
        /// Line where the blob begins.
        line: usize,
        /// Folded key.
        key: String,
        /// One spelling.
        first: String,
        /// The other spelling.
        second: String,
    },
    /// A field of a blob has a shape that its schema does not allow.
    #[error("{path}:{line}: {subject}: {shape}")]
    Shape {
        /// File below the root.
        path: String,
        /// Line where the blob begins.
        line: usize,
        /// Schema and name of the blob.
        subject: String,
        /// Field, expected and found.
        shape: Box<Shape>,
        /// Upstream's message, if its structs do not take the blob either.
        upstream: Option<String>,
    },
    /// A limit was exceeded.
    #[error("{path}: {what} exceeds the limit of {limit}")]
    Limit {
        /// File below the root, or the root.
        path: String,
        /// The part that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A pattern of an `.indexignore` file cannot be read.
    #[error("{path}:{line}: pattern `{pattern}` is not valid: {reason}")]
    Ignore {
        /// The `.indexignore` file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The pattern.
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// The consumer of the blobs could not write.
    #[error("error storing fbc: {0}")]
    Write(#[source] std::io::Error),
}

impl LoadError {
    /// Upstream's message, without the blob's file and line; `None` if upstream has none, or if Go's parsers have messages other than ours.
    pub fn upstream(&self) -> Option<String> {
        match self {
            Self::Shape { upstream, .. } => upstream.clone(),
            // Upstream adds a line end to the blob.
            Self::MissingSchema { object, .. } if !object.is_empty() => Some(format!("object '{object}\n' is missing root schema field")),
            Self::DuplicateKey { key, first, second, .. } => Some(format!("duplicate keys for key \"{key}\": [{first} {second}]")),
            _ => None,
        }
    }
}

/// Reason why an index cannot be used; it must be rebuilt from the JSON lines.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IndexError {
    /// The file is not an index.
    #[error("the file is no catalog index")]
    Magic,
    /// The index was made by another version of the program.
    #[error("the index has format {found}, this program reads format {expected}")]
    Version {
        /// Format of the file.
        found: u32,
        /// Format of this program.
        expected: u32,
    },
    /// The checksum does not match.
    #[error("the index is damaged: its checksum does not agree with its content")]
    Checksum,
    /// The index belongs to other content.
    #[error("the index was built for content of {indexed} bytes, the content has {actual}")]
    Content {
        /// Bytes when it was built.
        indexed: u64,
        /// Bytes now.
        actual: u64,
    },
    /// A section reaches beyond the end, or the file is too short.
    #[error("the index is cut short or its sections are out of bounds")]
    Bounds,
}
