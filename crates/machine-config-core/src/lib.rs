//! The Machine Config Operator's decisions: what the MachineConfigs of a pool become together, whether a node can go from one to another in place,
//! what that disturbs, which node is next, and what generated configurations hold.
//!
//! ```text
//!   MachineConfigs ── validate ── merge ── name ──► rendered MachineConfig
//!   old, new ──┬── reconcilable ──► in place, or why not
//!              └── difference ── disruption (policy, registries_conf) ──► actions, drain, a reason for each
//!   pool, nodes ── pool ──► which nodes are a pool's, which are next, what the pool's status says
//!   node, disk, configs ── daemon ──► the next step of a node: working, drain, files, actions, reboot, done, degraded
//!   old, new, disk ── layout ──► edits of a real disk: files, units, links, keys
//!   pool, MachineConfig, Accept header ── config_server ──► the Ignition config that a machine boots with
//!   Image, mirror sets ── registries       KubeletConfig ── kubelet       ContainerRuntimeConfig ── container_runtime      ──► files
//! ```
//!
//! Everything is a function of its arguments: no client, no clock, no file. A reason is a value, upstream's sentence its `Display`. A recorded answer
//! of upstream's own code outranks the text of the specification; [`cases`] answers inputs in the form of those records. TOML is written by [`toml`]
//! as upstream's encoder does, and read by `toml_reader` where upstream's words about mistakes count.

pub mod alerts;
pub mod base;
pub mod cases;
pub mod config_server;
pub mod container_runtime;
pub mod content;
pub mod daemon;
pub mod difference;
pub mod disruption;
pub mod explain;
pub mod generated;
pub mod ignition;
pub mod kernel_arguments;
pub mod kubelet;
pub mod layout;
pub mod machine_config;
pub mod merge;
pub mod name;
pub mod policy;
pub mod pool;
pub mod reconcilable;
pub mod registries;
pub mod registries_conf;
pub mod rollout;
pub mod toml;
mod toml_reader;
pub mod validate;

/// The namespace of the operator's parts, and of the disks of simulated nodes.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
