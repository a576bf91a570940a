//! Errors of the store.

use std::path::{Path, PathBuf};

use mainstay_catalog::{IndexError, LoadError};

/// The reason for which the store could not complete an operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The text is no digest.
    #[error("{text:?} is not an image digest; expected <algorithm>:<hex>, for example sha256:0123…")]
    Digest {
        /// The text.
        text: String,
    },
    /// The file system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The catalog could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An index that was just built cannot be opened.
    #[error("index of {}: {source}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: IndexError,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
