//! ClusterExtension: from a package's name to applied objects.
//!
//! ```text
//!   observe ──Snapshot──► plan ──Need(facts)──► observe ──► plan ... ──Ready(Plan)──► act ──► status
//! ```
//!
//! `plan` and `status` are pure and live in [`mainstay_olm_v1_core`]; here facts are fetched, and a plan is executed with no decisions left, as
//! the extension's own ServiceAccount (OLM1-PERM-01). The same plan is shown before a change and done afterwards.

pub mod act;
pub mod catalogs;
pub mod controller;
pub mod lifecycle;
pub mod observe;
pub mod roles;
mod watches;
