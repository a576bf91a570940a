//! The errors of the loop.

use mainstay_apply::WriteError;
use mainstay_objects::ObjectError;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the cloud credential operator has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object has no kind or name.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// A request cannot be granted; its conditions say so too.
    #[error("credentialsrequest {request}: {problem}")]
    Refused {
        /// Namespace and name of the request.
        request: String,
        /// The problem.
        problem: String,
    },
}
