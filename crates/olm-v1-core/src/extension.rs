//! ClusterExtension: what is to be done for one, why, and what people see of it.
//!
//! [`plan`] decides from a [`facts::Snapshot`] or names the facts that it lacks; everything else here reads its answer.

pub mod approval;
pub mod dependencies;
pub mod explain;
pub mod facts;
pub mod object;
pub mod owned;
pub mod parsed;
pub mod permissions;
pub mod plan;
pub mod policies;
pub mod preview;
pub mod record;
pub mod removal;
pub mod rollback;
pub mod status;
pub mod webhooks;

/// The field manager of everything that is applied for an extension (OLM1-CTRL-10).
pub const FIELD_MANAGER: &str = "operator-controller";
