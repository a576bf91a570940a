//! The settings that a cluster has from the start: definitions and objects that an installer, or an operator which is played here, would make
//! (COP-G-06, COP-G-07, COP-G-14).
//!
//! ```text
//!   ClusterOperators of the release ─► candidates ─► created once, unless the release brings the same
//! ```
//!
//! A candidate belongs to a ClusterOperator: where a capability is off, nothing of its operator is made (COP-G-05).

mod definitions;
mod mirrors;
mod objects;
mod schemas;

use mainstay_cluster_version_core::stand_in::Candidate;

pub use definitions::definitions;
pub use objects::objects;

/// Returns all definitions and objects, definitions first.
///
/// # Errors
/// A checked-in definition is no YAML.
pub fn candidates() -> Result<Vec<Candidate>, mainstay_yaml::Error> {
    Ok(definitions()?.into_iter().chain(objects()).collect())
}
