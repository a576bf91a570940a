//! The node agent: MachineConfigs on a directory tree or a real host (MACH-NODE-08 to MACH-NODE-14).
//!
//! ```text
//!   tree, MachineConfig ── mainstay_machine_config_core::layout ──► edits ── transaction ──► tree
//!   node, tree, configs ── mainstay_machine_config_core::daemon ──► step ── agent ──► tree, services, reboot, report
//! ```
//!
//! [`root`] keeps everything within the root. [`transaction`] makes edits one, failures and kills in between included. [`node`] is the tree as a node's disk;
//! [`agent`] the loop before a cluster. [`boot`] fetches what a machine boots with. [`report`] tells the cluster of a step; the daemons of simulated nodes tell it by the same code.

pub mod agent;
pub mod boot;
mod error;
mod gather;
pub mod node;
pub mod report;
pub mod root;
pub mod services;
mod state;
pub mod transaction;
mod view;

pub use error::Error;
pub use node::{Change, Tree};
pub use root::{Root, RootError, Steps};
pub use services::Services;
