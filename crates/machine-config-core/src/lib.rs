//! Decisions about the configuration of nodes, pure functions of facts that callers hand in.
//!
//! ```text
//!   pool                which nodes are a pool's, which are next, what the pool's status says
//!   registries          what nodes may pull, and from where
//!   toml                TOML as upstream writes it
//! ```
//!
//! A recorded answer of upstream's own code outranks the text of the specification. [`cases`] answers inputs in the form of those records.

pub mod cases;
pub mod pool;
pub mod registries;
pub mod toml;
