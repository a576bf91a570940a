//! Why a graph could not be built, or a listener not opened.

use std::path::PathBuf;

use mainstay_update_graph::graph_data::GraphDataError;
use mainstay_update_graph::{BuildError, InvalidReleaseList, InvalidReleaseMetadata};

/// An error of the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than allowed, or there are too many.
    #[error("{}: more than {limit} {what}", .path.display())]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// The limit that is exceeded.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A registry or an image.
    #[error(transparent)]
    Image(#[from] mainstay_oci::Error),
    /// A list of releases.
    #[error("{}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: InvalidReleaseList,
    },
    /// A release's own document.
    #[error("{subject}: release-metadata")]
    Metadata {
        /// The release.
        subject: String,
        /// The cause.
        #[source]
        source: InvalidReleaseMetadata,
    },
    /// A release without the pullspec of its image.
    #[error("{0}: the image of the release is not known; give it beside the document")]
    NoImage(String),
    /// A place of releases that is written wrongly.
    #[error("{0}: releases are given as REGISTRY/REPOSITORY, dir:PATH, oci:PATH=REPOSITORY or list:FILE")]
    Place(String),
    /// Graph-data.
    #[error("graph-data")]
    GraphData(#[source] GraphDataError),
    /// Graph-data was found nowhere in an archive or an image.
    #[error("{0}: no graph-data in it: a folder with the file version and the folder channels is expected")]
    NoGraphData(String),
    /// The graph.
    #[error("graph")]
    Build(#[source] BuildError),
    /// A listener.
    #[error(transparent)]
    Listen(#[from] mainstay_serve::Error),
    /// A value cannot be written as JSON.
    #[error("JSON")]
    Json(#[source] serde_json::Error),
    /// Work in another thread broke off.
    #[error("the work broke off")]
    Broken(#[from] tokio::task::JoinError),
}

impl Error {
    /// An error about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |source| Self::Io { path, source }
    }
}
