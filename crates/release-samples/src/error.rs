//! The errors of making sample releases.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be written.
    #[error("{path} cannot be written", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// An image cannot be built or pushed.
    #[error(transparent)]
    Image(#[from] mainstay_oci::Error),
    /// A key cannot be made, or cannot sign.
    #[error("the key of the sample releases cannot be used")]
    Key(#[source] Box<pgp::errors::Error>),
    /// A checked-in CRD manifest is no YAML.
    #[error("a CRD manifest of this program cannot be read")]
    Manifest(#[from] mainstay_yaml::Error),
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

impl From<pgp::errors::Error> for Error {
    fn from(error: pgp::errors::Error) -> Self {
        Self::Key(Box::new(error))
    }
}
