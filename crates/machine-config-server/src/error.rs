//! The errors of the server.

use mainstay_runtime::ConnectError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the config server has no client")]
    Connect(#[from] ConnectError),
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] mainstay_serve::Error),
}

/// The reason why a pool's config cannot be answered.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The pool has no configuration yet.
    #[error("the pool has no configuration yet")]
    NoConfiguration,
    /// The MachineConfig is not there.
    #[error("could not fetch config {0}")]
    NoMachineConfig(String),
    /// The ControllerConfig is not there.
    #[error("could not get controllerconfig")]
    NoControllerConfig,
    /// The config cannot be written.
    #[error(transparent)]
    Content(#[from] mainstay_machine_config_core::config_server::ContentError),
    /// The work broke off.
    #[error("the work broke off: {0}")]
    BrokenOff(String),
}
