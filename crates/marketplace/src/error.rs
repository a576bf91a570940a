//! The errors of the marketplace.

use mainstay_apply::WriteError;
use mainstay_objects::ObjectError;
use mainstay_olm_classic_core::hub::ReleaseError;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the marketplace has no client")]
    Connect(#[from] ConnectError),
    /// The release is no version.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object has no kind or name.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Default catalogs are not as they should be; the status of the OperatorHub says why.
    #[error("catalogsources {}: {message}", names.join(", "))]
    Catalogs {
        /// Their names.
        names: Vec<String>,
        /// The problem of the first.
        message: String,
    },
}
