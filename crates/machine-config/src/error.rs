//! The errors of the operator.

use mainstay_apply::WriteError;
use mainstay_drain::DrainError;
use mainstay_objects::ObjectError;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the Machine Config Operator has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A node cannot be cordoned or drained.
    #[error(transparent)]
    Drain(#[from] DrainError),
    /// An object cannot be read.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// An object lacks a part of its identity.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The disk of a simulated node cannot be read.
    #[error("the disk of node {node} cannot be read: {problem}")]
    Disk {
        /// The node.
        node: String,
        /// The problem.
        problem: String,
    },
    /// The cluster has a Machine Config Operator of its own.
    #[error(
        "deployment {namespace}/{name} runs here: this cluster has a Machine Config Operator of its own, and two would undo each other's work"
    )]
    Other {
        /// Its namespace.
        namespace: &'static str,
        /// Its name.
        name: &'static str,
    },
}

impl Error {
    /// Returns whether another write came between, so that another look is enough.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict() || error.reason() == Some(&mainstay_apply::Reason::AlreadyExists))
    }
}
