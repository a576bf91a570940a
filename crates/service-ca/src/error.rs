//! Why the service CA could not do what was to be done.

use mainstay_apply::WriteError;
use mainstay_runtime::ConnectError;

use crate::NAMESPACE;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client.
    #[error("the service CA has no client")]
    Connect(#[from] ConnectError),
    /// A certificate or key cannot be made.
    #[error("a certificate for {subject} cannot be made")]
    Make {
        /// For whom.
        subject: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A time is beyond what certificates can say.
    #[error("a certificate for {subject} cannot be made: its end is too far away")]
    Time {
        /// For whom.
        subject: String,
    },
    /// What is stored as CA is none.
    #[error("the signing key cannot be used: {problem}")]
    Authority {
        /// What is wrong.
        problem: String,
    },
    /// The namespace of the signing key is not there; it comes with the account and its rights, which this program does not give itself.
    #[error(
        "there is no namespace {NAMESPACE}, where the signing key is kept; mainstay deploy --components service-ca makes it with account and \
         rights, kubectl create namespace {NAMESPACE} makes it alone"
    )]
    NoHome,
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// The certificate of a Service was refused; its annotations say so too (COP-SCA-02).
    #[error("service {service}: {problem}")]
    Refused {
        /// Namespace and name.
        service: String,
        /// Why.
        problem: String,
    },
}
