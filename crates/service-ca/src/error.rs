//! The errors of the service CA.

use mainstay_apply::WriteError;
use mainstay_runtime::ConnectError;

use crate::NAMESPACE;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the service CA has no client")]
    Connect(#[from] ConnectError),
    /// A certificate or key could not be made.
    #[error("a certificate for {subject} cannot be made")]
    Make {
        /// Its subject.
        subject: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// A time is beyond the range of certificates.
    #[error("a certificate for {subject} cannot be made: its end is too far away")]
    Time {
        /// The subject of the certificate.
        subject: String,
    },
    /// The stored CA is not a valid CA.
    #[error("the signing key cannot be used: {problem}")]
    Authority {
        /// The problem.
        problem: String,
    },
    /// The namespace of the signing key is not found. It comes with the account and its permissions, which this program does not grant itself.
    #[error(
        "there is no namespace {NAMESPACE}, where the signing key is kept; mainstay deploy --components service-ca makes it with account and \
         permissions, kubectl create namespace {NAMESPACE} makes it alone"
    )]
    NoHome,
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// The certificate of a Service was refused; its annotations say so too (COP-SCA-02).
    #[error("service {service}: {problem}")]
    Refused {
        /// The namespace and name of the Service.
        service: String,
        /// The reason.
        problem: String,
    },
}
