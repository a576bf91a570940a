//! What can go wrong with the store.

use std::path::{Path, PathBuf};

use mainstay_catalog::{IndexError, LoadError};

/// Why the store could not do what it was asked.
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
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The catalog could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An index that was just built can not be opened.
    #[error("index of {}: {source}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: IndexError,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
