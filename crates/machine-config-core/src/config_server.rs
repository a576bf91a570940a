//! The config server: what a machine gets at its first boot (MACH-MCS-01).
//!
//! ```text
//!   Accept header ── accept ──► version
//!   pool ── config_of ──► rendered MachineConfig ── content ──► Ignition config of that version
//! ```

mod accept;
mod content;
mod route;

pub use accept::{UnsupportedVersion, version_for};
pub use content::{Bootstrap, ContentError, Inputs, ignition_config};
pub use route::{Route, route};

use mainstay_ignition::Spec;
use serde_json::Value;

/// Versions of Ignition configs that are served, oldest first.
pub const SERVED: [Spec; 6] = [Spec::V2_2, Spec::V3_1, Spec::V3_2, Spec::V3_3, Spec::V3_4, Spec::V3_5];

/// Returns the name of the rendered MachineConfig that new machines of a pool boot with: the newest if a node has it already, else the one that
/// the pool's nodes have, so that a configuration that breaks nodes is not given to new ones.
pub fn config_of(pool: &Value) -> Option<&str> {
    let is_proven = pool["status"]["updatedMachineCount"].as_i64().is_some_and(|count| count > 0);
    let part = if is_proven { "spec" } else { "status" };
    pool[part]["configuration"]["name"].as_str().filter(|name| !name.is_empty())
}
