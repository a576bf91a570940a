//! The errors of the agent.

use mainstay_apply::WriteError;
use mainstay_machine_config_core::daemon::disk::DiskError;
use mainstay_machine_config_core::layout::{EditError, InstallError, LayoutError};
use mainstay_machine_config_core::machine_config::ObjectError;
use mainstay_runtime::ConnectError;

use crate::root::RootError;
use crate::transaction::TransactionError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The edits were not made.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The configuration cannot be on a disk.
    #[error("machineconfig {name}: {error}")]
    Layout {
        /// The MachineConfig.
        name: String,
        /// Why.
        error: LayoutError,
    },
    /// A unit cannot be enabled.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// Something is in the way.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A file of the agent cannot be read.
    #[error("{path}: {problem}")]
    Kept {
        /// The file.
        path: &'static str,
        /// The mistake.
        problem: KeptProblem,
    },
    /// Another agent works on the root.
    #[error("{0}: another node agent works on this root")]
    Locked(String),
    /// An earlier change was cut off.
    #[error("{0}: an earlier change was cut off; the next one that writes takes it back first")]
    CutOff(String),
    /// The configuration that was written cannot be read any more.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No client could be made.
    #[error("the node agent has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be read.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// An object lacks a part of its identity.
    #[error(transparent)]
    Object(#[from] mainstay_objects::ObjectError),
    /// A request to the cluster failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The reboot could not be begun.
    #[error("the reboot could not be begun: {0}")]
    Reboot(String),
    /// The node is not there.
    #[error("node {0}: the cluster has no such node; it is made by its kubelet, or by kubectl create")]
    NoNode(String),
}

/// The fault in a file of the agent.
#[derive(Debug, thiserror::Error)]
pub enum KeptProblem {
    /// It is no JSON of its form.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// It is no MachineConfig.
    #[error(transparent)]
    MachineConfig(#[from] ObjectError),
}

impl Error {
    /// Returns whether another write came between, so that another look is enough.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict() || error.reason() == Some(&mainstay_apply::Reason::AlreadyExists))
    }
}
