//! ControlPlaneMachineSets: which failure domain each index of the control plane has, and the provider spec that its machine is made with
//! (MACH-CPMS-02).
//!
//! ```text
//!   failure_domain ── a place, by platform
//!   mapping        ── index -> failure domain
//!   provider_spec  ── a machine's provider spec: its place is read, or another one is written
//!   specs          ── tables of the structs that specs pass through
//! ```

pub mod failure_domain;
pub mod mapping;
pub mod provider_spec;
mod specs;
