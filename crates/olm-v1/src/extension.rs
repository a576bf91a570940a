//! ClusterExtension: from a package's name to applied objects.
//!
//! ```text
//!   observe ──Snapshot──► plan ──Need(facts)──► observe ──► plan ... ──Ready(Plan)──► act ──► status
//! ```
//!
//! `plan` decides alone and does nothing; `act` executes a plan with no decisions left, as the extension's own ServiceAccount
//! (OLM1-PERM-01); `status` says what came of it. The same plan is shown before a change and done afterwards.

pub mod act;
pub mod approval;
pub mod catalogs;
pub mod controller;
pub mod dependencies;
pub mod explain;
pub mod facts;
pub mod lifecycle;
pub mod object;
pub mod observe;
pub mod owned;
mod parsed;
pub mod permissions;
pub mod plan;
pub mod policies;
pub mod preview;
pub mod record;
pub mod removal;
pub mod roles;
pub mod rollback;
pub mod status;
mod watches;
pub mod webhooks;
