//! MachineConfigPools: which nodes belong to one, which of them get the wanted configuration next, and what its status says
//! (MACH-MCP-03 to MACH-MCP-13).
//!
//! ```text
//!   membership ── of which pool is a node
//!   node       ── what a node and its daemon say
//!   limit      ── how many may be unavailable
//!   candidates ── who could be next, how many may be; their order; who is
//!   plan       ── one pass over a pool: taints, and whom to target
//!   status     ── counts and conditions
//! ```
//!
//! Pools without images that are built on the cluster are known; a node with annotations of such an image counts as not done.

pub mod candidates;
pub mod limit;
pub mod membership;
pub mod node;
pub mod plan;
pub mod status;

use mainstay_objects::IntOrString;

/// Name of the pool of control-plane nodes.
pub const MASTER: &str = "master";
/// Name of the pool that every other pool inherits from.
pub const WORKER: &str = "worker";

/// A pool, as far as targeting needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The rendered configuration that its nodes should have; empty before the first rendering.
    pub target: String,
    /// The number of nodes that may be unavailable; one if absent.
    pub max_unavailable: Option<IntOrString>,
    /// True if nothing is targeted.
    pub paused: bool,
}
