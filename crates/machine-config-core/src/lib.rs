//! Decisions of the Machine Config Operator: what the MachineConfigs of a pool become together, whether a node can go from one to another in
//! place, and what that disturbs.
//!
//! ```text
//!   MachineConfigs ── validate ── merge ── name ──► rendered MachineConfig
//!   old, new ──┬── reconcilable ──► in place, or why not
//!              └── difference ── disruption (policy, registries.conf) ──► actions, drain, a reason for each
//! ```
//!
//! Everything is a function of its arguments: no client, no clock, no file. A reason is a value, upstream's sentence its `Display`.

pub mod cases;
pub mod difference;
pub mod disruption;
pub mod ignition;
pub mod kernel_arguments;
pub mod machine_config;
pub mod merge;
pub mod name;
pub mod policy;
pub mod reconcilable;
pub mod registries_conf;
mod toml;
pub mod validate;
