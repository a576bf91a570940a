//! ControlPlaneMachineSets: which machines the control plane has by index, and which are replaced (MACH-CPMS-01 to MACH-CPMS-06).
//!
//! ```text
//!   object         ── the ControlPlaneMachineSet, and a new machine of it
//!   members        ── machines by index: ready, outdated ──► health ── states in which nothing is done
//!   plan           ── the next steps
//!   status         ── numbers and conditions
//!   generate       ── an inactive object from the machines as they are
//!
//!   failure_domain ── a place, by platform
//!   mapping        ── index -> failure domain
//!   provider_spec  ── a machine's provider spec: its place is read, or another one is written; two are compared
//!   specs          ── tables of the structs that specs pass through
//! ```

mod difference;
pub mod failure_domain;
pub mod generate;
pub mod health;
pub mod mapping;
pub mod members;
pub mod object;
pub mod plan;
pub mod provider_spec;
mod specs;
pub mod status;
