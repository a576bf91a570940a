//! Install records: revisions in Secrets of the system namespace (OLM1-CTRL-11, OLM1-GEN-04).
//!
//! ```text
//!   Secret NAME.vN      labels: extension uid, revision, state      data: first chunk of the gzipped record
//!   Secret NAME.vN.1..  further chunks, each under 1 MiB, at most ten in all
//! ```

mod releases;
mod secrets;

use mainstay_lifecycle::revision::NotesError;

pub use releases::{RELEASES, releases};
pub use secrets::{begins, is_in, patch, read, secret_name, secrets};

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "olm.operatorframework.io/install-record.v1";
/// The label that holds the extension's uid.
pub const EXTENSION_LABEL: &str = "lifecycle.mainstay.dev/extension-uid";

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A chunk is missing.
    #[error("install record {secret}: chunk {chunk} of {chunks} is missing")]
    Chunk {
        /// The first Secret.
        secret: String,
        /// The number of the chunk, from 0.
        chunk: usize,
        /// The number of chunks that the record should have.
        chunks: usize,
    },
    /// A Secret is not an install record.
    #[error("install record {secret}: {problem}")]
    Form {
        /// The Secret.
        secret: String,
        /// The problem.
        problem: String,
    },
    /// The notes of the revision cannot be read.
    #[error("install record {secret}: {source}")]
    Notes {
        /// The first Secret.
        secret: String,
        /// The cause.
        source: NotesError,
    },
    /// The content is damaged.
    #[error("install record {secret} cannot be read")]
    Content {
        /// The Secret.
        secret: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The record does not fit into ten chunks.
    #[error("the install record has {bytes} bytes, compressed; at most {} fit", secrets::ROOM)]
    TooLarge {
        /// The compressed size, in bytes.
        bytes: usize,
    },
}

impl RecordError {
    /// The first Secret of the record at fault; none if nothing is stored yet.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Chunk { secret, .. } | Self::Form { secret, .. } | Self::Notes { secret, .. } | Self::Content { secret, .. } => {
                Some(secret)
            }
            Self::TooLarge { .. } => None,
        }
    }
}
