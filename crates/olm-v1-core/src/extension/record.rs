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
        /// Counted from 0.
        chunk: usize,
        /// How many there should be.
        chunks: usize,
    },
    /// A Secret is no install record.
    #[error("install record {secret}: {problem}")]
    Form {
        /// The Secret.
        secret: String,
        /// What is wrong.
        problem: String,
    },
    /// What became of the revision cannot be read.
    #[error("install record {secret}: {source}")]
    Notes {
        /// The first Secret.
        secret: String,
        /// Why.
        source: NotesError,
    },
    /// The content is damaged.
    #[error("install record {secret} cannot be read")]
    Content {
        /// The Secret.
        secret: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Too much for ten chunks.
    #[error("the install record has {bytes} bytes, compressed; at most {} fit", secrets::ROOM)]
    TooLarge {
        /// The compressed size.
        bytes: usize,
    },
}

impl RecordError {
    /// The first Secret of the record that is at fault; none where nothing is stored yet.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Chunk { secret, .. } | Self::Form { secret, .. } | Self::Notes { secret, .. } | Self::Content { secret, .. } => {
                Some(secret)
            }
            Self::TooLarge { .. } => None,
        }
    }
}
