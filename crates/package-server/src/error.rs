//! Errors that keep the package server from running.

/// A failure of the package server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection to the cluster.
    #[error("the cluster cannot be asked")]
    Connect(#[from] mainstay_runtime::ConnectError),
    /// No listener.
    #[error("the package server cannot listen")]
    Listen(#[from] mainstay_serve::Error),
    /// No certificate.
    #[error("the serving certificate of the package server cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// An object that registers the API was not written.
    #[error("the aggregated API cannot be registered")]
    Register(#[from] mainstay_apply::WriteError),
}
