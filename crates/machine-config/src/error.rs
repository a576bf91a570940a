//! The errors of the operator.

use mainstay_apply::WriteError;
use mainstay_drain::DrainError;
use mainstay_machine_config_core::container_runtime::{RuntimeError, StorageError};
use mainstay_machine_config_core::content::ContentError;
use mainstay_machine_config_core::generated::NameError;
use mainstay_machine_config_core::ignition::ConvertError;
use mainstay_machine_config_core::kubelet::{FilesError, KubeletError};
use mainstay_machine_config_core::machine_config::ObjectError as MachineConfigError;
use mainstay_machine_config_core::merge::RenderError;
use mainstay_objects::ObjectError;
use mainstay_runtime::ConnectError;
use mainstay_schema::quantity::QuantityError;

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
    /// The progress of a node cannot be reported.
    #[error(transparent)]
    Report(#[from] mainstay_node_agent::Error),
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
        let (Self::Write(write) | Self::Report(mainstay_node_agent::Error::Write(write))) = self else { return false };
        write.is_conflict() || write.reason() == Some(&mainstay_apply::Reason::AlreadyExists)
    }
}

/// The reason for which a KubeletConfig or ContainerRuntimeConfig gives no files, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesRefusal {
    #[error("KubeletConfig's tlsSecurityProfile is not carried out by this version of mainstay")]
    TlsProfile,
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("{field}: {source}")]
    Size { field: &'static str, source: QuantityError },
    #[error("could not get original kubelet config: {0}")]
    Original(#[source] mainstay_yaml::Error),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The reason for which a source has no MachineConfigs, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceRefusal {
    #[error("Error: {0}")]
    Files(#[from] FilesRefusal),
    #[error("Error: {kind} {name} does not match any MachineConfigPools")]
    NoPool { kind: &'static str, name: String },
    #[error("could not get kubelet config key: {0}")]
    KubeletName(#[source] NameError),
    #[error("could not get ctrcfg key: {0}")]
    RuntimeName(#[source] NameError),
}

/// The reason for which a pool has no rendered MachineConfig, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderRefusal {
    #[error("no MachineConfigs found matching selector {0}")]
    NoneSelected(serde_json::Value),
    #[error("machineconfig {name} {source}")]
    Unreadable { name: String, source: MachineConfigError },
    #[error("ControllerConfig: {0}")]
    Controller(#[source] serde_json::Error),
    #[error("could not generate rendered MachineConfig: {0}")]
    Render(#[from] RenderError),
    #[error("no MachineConfigs found")]
    None,
    #[error("could not generate rendered MachineConfig: {0}")]
    Ignition(#[from] ConvertError),
    #[error("could not generate rendered MachineConfig: {0}")]
    Content(#[from] ContentError),
    #[error("could not generate rendered MachineConfig: {0}")]
    Unreconcilable(String),
}
