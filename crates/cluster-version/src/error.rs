//! The errors of the operator.

use mainstay_apply::WriteError;
use mainstay_cluster_version_core::status::Recreated;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the Cluster Version Operator has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The ClusterVersion is another than the one that was looked at.
    #[error(transparent)]
    Recreated(#[from] Recreated),
    /// An object does not have the form of its kind.
    #[error("{object} cannot be read")]
    Object {
        /// The object.
        object: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

/// The reason why a release could not be retrieved.
#[derive(Debug, thiserror::Error)]
#[error("{}", mainstay_diagnostics::chain(&**.0))]
pub struct RetrieveError(Box<dyn std::error::Error + Send + Sync>);

impl RetrieveError {
    /// Wraps the error of a source.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
