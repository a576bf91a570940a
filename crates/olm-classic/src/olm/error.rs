//! Errors of the OLM operator.

use mainstay_apply::WriteError;
use mainstay_objects::ObjectError;
use mainstay_olm_classic_core::operator_group::InvalidTargets;
use mainstay_runtime::{AccountError, ConnectError, KindError};

use super::certificates::CertificateError;

/// Why a reconcile failed, or the controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client can be made.
    #[error("the OLM operator cannot connect")]
    Connect(#[from] ConnectError),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The service account of an OperatorGroup cannot be used.
    #[error("the service account of the operator group cannot be used")]
    Account(#[from] AccountError),
    /// The server could not say which kinds it serves.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A certificate cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The targets of an OperatorGroup cannot be said.
    #[error("operatorgroup {group}: {source}")]
    Targets {
        /// The group.
        group: String,
        /// The problem.
        #[source]
        source: InvalidTargets,
    },
    /// The server did not answer a question.
    #[error("the API server cannot be asked for {what}")]
    Ask {
        /// The object that was asked for.
        what: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// Objects of a CSV that is being deleted are still there.
    #[error("csv {csv}: waiting for {kind} to delete")]
    Remains {
        /// The CSV.
        csv: String,
        /// The kind of the objects that are left.
        kind: &'static str,
    },
    /// An object of a cache cannot be written as JSON.
    #[error("an object cannot be encoded")]
    Encode(#[from] serde_json::Error),
    /// An object lacks a part of its identity.
    #[error(transparent)]
    Object(#[from] ObjectError),
}
