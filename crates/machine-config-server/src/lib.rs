//! The config server (MACH-MCS-01): Ignition configs for machines at their first boot.
//!
//! ```text
//!   MachineConfigPools, MachineConfigs, ControllerConfig, the bootstrapper's token ── following ──► Snapshot
//!   GET /config/POOL, Accept ── routes ──► answer of the snapshot (made once for each pool, configuration and version)
//! ```
//!
//! The answers are `mainstay_machine_config_core::config_server`'s. A snapshot is immutable, and an answer that was made stays as long as
//! what it was made of. Machines have no credentials yet when they ask, so everybody who reaches the listener gets the answers, with what the
//! pool's files hold: the network is to keep pods and strangers from it (MACH-MCS-02).

mod error;
mod following;
mod manifests;
mod routes;
mod service;
mod snapshot;

pub use error::Error;
pub use manifests::{ACCOUNT, manifests};
pub use service::{Bound, Config, PLAIN_PORT, SECURE_PORT, Service};
