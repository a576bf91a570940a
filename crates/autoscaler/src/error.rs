//! Errors of the autoscaler.

use mainstay_apply::WriteError;
use mainstay_autoscaler_core::target::TargetError;
use mainstay_objects::ObjectError;
use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the autoscaler has no client")]
    Connect(#[from] ConnectError),
    /// Another autoscaler scales the sets of the cluster.
    #[error("deployment {namespace}/{name} scales the machines of this cluster: nothing is done beside it")]
    Other {
        /// Its namespace.
        namespace: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A MachineAutoscaler cannot have its target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An object has no name or kind.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// A set has another size than the plan was made for.
    #[error("{group} has {now} machines and not {planned}: it is looked at again")]
    Resized {
        /// The set.
        group: String,
        /// Its size.
        now: u64,
        /// The size of the plan.
        planned: usize,
    },
    /// A set is gone.
    #[error("{0} is not found")]
    Gone(String),
}

impl Error {
    /// Returns whether an object changed since it was read: it is looked at again at once, and nothing is wrong.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}
