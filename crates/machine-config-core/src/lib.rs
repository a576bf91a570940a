//! Decisions about the configuration of nodes, pure functions of facts that callers hand in.
//!
//! ```text
//!   pool                which nodes are a pool's, which are next, what the pool's status says
//!   registries          what nodes may pull, and from where
//!   kubelet             a user's settings over the kubelet's configuration
//!   container_runtime   a user's settings of CRI-O and of storage
//!   toml                TOML as upstream writes it
//! ```
//!
//! A recorded answer of upstream's own code outranks the text of the specification. [`cases`] answers inputs in the form of those records.

pub mod cases;
pub mod container_runtime;
pub mod kubelet;
pub mod pool;
pub mod registries;
pub mod toml;
