//! ClusterExtension: from the name of a package to applied objects.
//!
//! ```text
//!   observe ──Snapshot──► plan ──Need(facts)──► observe ──► plan ... ──Ready(Plan)──► act ──► status
//! ```
//!
//! `plan` and `status` are pure and live in [`mainstay_olm_v1_core`]. This module fetches facts and executes a plan without further decisions, as the
//! extension's own ServiceAccount (OLM1-PERM-01). The plan shown before a change is the plan that is executed.

pub mod act;
pub mod catalogs;
pub mod controller;
pub mod lifecycle;
pub mod observe;
pub mod roles;
mod watches;
