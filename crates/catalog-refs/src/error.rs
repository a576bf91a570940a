//! Errors of opening references. Texts that `opm` has are `opm`'s.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mainstay_catalog::{LoadError, SourceError};

use crate::kind::Kind;

/// An error of another library.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A reference that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that does not exist.
    #[error("{0}: no such file or directory")]
    NoFile(String),
    /// A file or directory that cannot be read.
    #[error("{path}: {reason}")]
    Io {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A file of a type that is no catalog's.
    #[error("ref {reference:?} has unsupported file type: {found}")]
    FileType {
        /// The file.
        reference: String,
        /// Its type by its content.
        found: String,
    },
    /// A kind of reference that the command does not accept.
    #[error("{}", not_allowed(.reference, *.kind))]
    NotAllowed {
        /// The reference.
        reference: String,
        /// Its kind.
        kind: Kind,
    },
    /// An image that cannot be pulled.
    #[error("failed to pull image {reference:?}")]
    Pull {
        /// The image.
        reference: String,
        /// The reason.
        #[source]
        source: BoxError,
    },
    /// An image that cannot be unpacked.
    #[error("failed to unpack image {reference:?}")]
    Unpack {
        /// The image.
        reference: String,
        /// The reason.
        #[source]
        source: BoxError,
    },
    /// An image whose labels do not tell its kind.
    #[error("{}", unknown_image(.reference, .labels))]
    UnknownImage {
        /// The image.
        reference: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A bundle that cannot be read.
    #[error(transparent)]
    Bundle(#[from] mainstay_bundle::ReadError),
    /// A bundle whose embedded CSV cannot be migrated.
    #[error("migrate: bundle {bundle:?}: {problem}")]
    Migrate {
        /// The bundle.
        bundle: String,
        /// The problem with its CSV.
        problem: String,
    },
    /// The files of a catalog cannot be listed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An invalid blob.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An index database that cannot be read.
    #[error("{reference}")]
    Database {
        /// The database.
        reference: String,
        /// The reason.
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// Returns the error of the image, if the image is the cause.
    pub fn image(&self) -> Option<&mainstay_oci::Error> {
        match self {
            Self::Pull { source, .. } | Self::Unpack { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the error and its causes on one line, as `opm` prints them.
    pub fn to_line(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

fn not_allowed(reference: &str, kind: Kind) -> String {
    match kind {
        Kind::BUNDLE_DIRECTORY => format!("cannot render bundle directory {reference:?}: not allowed"),
        kind => format!("cannot render {kind}: not allowed"),
    }
}

fn unknown_image(reference: &str, labels: &BTreeMap<String, String>) -> String {
    let mut text = format!("render {reference:?}: image type could not be determined");
    if labels.is_empty() {
        text.push_str(": image has no labels");
    } else {
        text.push_str(", found labels");
        for (key, value) in labels {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {key}={value}");
        }
    }
    text
}
