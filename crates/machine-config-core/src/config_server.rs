//! The config server: what a machine gets at its first boot (MACH-MCS-01).
//!
//! ```text
//!   Accept header ── accept ──► version
//!   pool ── config_of ──► rendered MachineConfig ── content ──► Ignition config of that version ── first_boot ──► what the machine reads of it
//! ```

mod accept;
mod content;
mod first_boot;
mod route;

pub use accept::{UnsupportedVersion, version_for};
pub use content::{Bootstrap, ContentError, Inputs, ignition_config};
pub use first_boot::{FirstBoot, FirstBootError, pool_of_role};
pub use route::{Route, route};

use mainstay_ignition::Spec;
use serde_json::Value;

/// Versions of Ignition configs that are served, oldest first.
pub const SERVED: [Spec; 6] = [Spec::V2_2, Spec::V3_1, Spec::V3_2, Spec::V3_3, Spec::V3_4, Spec::V3_5];

/// Returns the name of the rendered MachineConfig that new machines of a pool boot with: the newest if a node has it already, else the one that
/// the pool's nodes have, so that a configuration that breaks nodes is not given to new ones. A pool that never had one gives the newest.
pub fn config_of(pool: &Value) -> Option<&str> {
    let is_proven = pool["status"]["updatedMachineCount"].as_i64().is_some_and(|count| count > 0);
    let of = |part: &str| pool[part]["configuration"]["name"].as_str().filter(|name| !name.is_empty());
    if is_proven { of("spec") } else { of("status").or_else(|| of("spec")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// MACH-MCS-01: new machines get the newest configuration once a node has it, and until then the one that nodes have, if there is one.
    #[test]
    fn the_configuration_of_new_machines() {
        let pool = |status: &str, updated: i64| json!({"spec": {"configuration": {"name": "new"}}, "status": {"configuration": {"name": status}, "updatedMachineCount": updated}});
        assert_eq!(config_of(&pool("old", 0)), Some("old"));
        assert_eq!(config_of(&pool("old", 1)), Some("new"));
        assert_eq!(config_of(&pool("", 0)), Some("new"));
        assert_eq!(config_of(&json!({})), None);
    }
}
