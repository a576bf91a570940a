//! The Machine Config Operator (MACH-MC-01 to MACH-MC-08, MACH-MCP-01 to MACH-MCP-13, MACH-NODE-01 to MACH-NODE-08, MACH-OPER-01 to MACH-OPER-03).
//!
//! ```text
//!   cluster ──► base: pools, ControllerConfig, MachineConfiguration, MachineConfigs 00-*, 01-*
//!   KubeletConfig, ContainerRuntimeConfig ──► generated ─┐
//!   Image, mirror sets ─────────────────────► registries ┴─► MachineConfigs 99-* ──► render ──► rendered-POOL-HASH, pool.spec.configuration
//!   pool, nodes ──► pools: desiredConfig, taints, status of the pool
//!   node ──► daemon (simulated nodes): disk, drain request, actions, reboot ──► drains: cordon, evictions, uncordoning
//!   pools ──► report: ClusterOperator machine-config
//! ```
//!
//! The decisions are `mainstay_machine_config_core`'s; this crate observes, acts and wakes. All state lies in the cluster: the disk of a simulated
//! node is ConfigMap `simulated-disk-NODE` of this namespace, with the configuration that was written last and each file by its digest, so a
//! restart at any moment goes on from there, and an edit of that ConfigMap is a change on the node's disk.

mod base;
mod controller;
mod daemon;
mod disk;
mod drains;
mod error;
mod generated;
mod manifests;
mod metrics;
mod places;
mod pools;
mod registries;
mod release;
mod render;
mod report;

pub use controller::{Config, run};
pub use disk::{disk_name, read_disk};
pub use error::Error;
pub use manifests::{ACCOUNT, LEASE, NAMESPACE, manifests};
