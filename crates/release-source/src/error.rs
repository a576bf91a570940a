//! Failures to read a payload.

use std::path::PathBuf;
use std::time::Duration;

use mainstay_oci::ErrorKind;
use mainstay_release::FilesError;

use crate::folder::MAX_ENTRIES;

/// A payload that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or folder cannot be read.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A text that names a file or folder, and there is none.
    #[error("{0}: no such file or folder")]
    NoFile(String),
    /// A folder has more entries than are looked at.
    #[error("{}: more than {MAX_ENTRIES} entries", .0.display())]
    Entries(PathBuf),
    /// It is larger than any payload.
    #[error(transparent)]
    Size(#[from] FilesError),
    /// No client of registries can be made.
    #[error("the settings of registries cannot be used")]
    Settings(#[source] Box<mainstay_oci::Error>),
    /// The image is not available, not admitted, or beyond a limit.
    #[error("image {image:?}")]
    Image {
        /// The image as it was asked for.
        image: String,
        /// The reason.
        #[source]
        error: Box<mainstay_oci::Error>,
    },
    /// The content differs from its digest (CVO-RELX-04).
    #[error("image {image:?} has other content than its digest says; it may have been tampered with")]
    Tampered {
        /// The image as it was asked for.
        image: String,
        /// Both digests, and whose they are.
        #[source]
        error: Box<mainstay_oci::Error>,
    },
    /// A link in a folder of the payload leads elsewhere.
    #[error("{subject}: {path:?} is a link to no file of the payload")]
    Link {
        /// The image or stream.
        subject: String,
        /// The link.
        path: String,
    },
    /// Neither folder is there.
    #[error("{0}: is no release payload: there is no release-manifests in it")]
    NoPayload(String),
    /// It took too long.
    #[error("image {image:?} was not read within {deadline:?}")]
    Deadline {
        /// The image as it was asked for.
        image: String,
        /// The time that was allowed.
        deadline: Duration,
    },
    /// The image's configuration is no JSON.
    #[error("image {image:?}: its configuration cannot be read: {error}")]
    Config {
        /// The image as it was asked for.
        image: String,
        /// The reason.
        error: serde_json::Error,
    },
}

impl ReadError {
    pub(crate) fn image(image: &str, error: mainstay_oci::Error) -> Self {
        let (image, error) = (image.to_owned(), Box::new(error));
        if error.kind() == ErrorKind::DigestMismatch { Self::Tampered { image, error } } else { Self::Image { image, error } }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }

    /// Returns the failure of the registry or of the image's content.
    pub fn cause(&self) -> Option<&mainstay_oci::Error> {
        match self {
            Self::Settings(error) | Self::Image { error, .. } | Self::Tampered { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The error of a client that cannot be made.
impl From<mainstay_oci::Error> for ReadError {
    fn from(error: mainstay_oci::Error) -> Self {
        Self::Settings(Box::new(error))
    }
}
