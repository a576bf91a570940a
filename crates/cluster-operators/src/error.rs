//! The errors of the loops.

use mainstay_apply::WriteError;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster is a real one.
    #[error("ClusterOperators are played in the embedded cluster only, and this cluster is {0}")]
    RealCluster(String),
    /// No client could be made.
    #[error("the cluster operators have no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object of a copy is none.
    #[error("an object cannot be read")]
    Object(#[from] serde_json::Error),
}
