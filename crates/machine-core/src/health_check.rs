//! MachineHealthChecks: which machines are unhealthy, whether that is too many, and what is done about them (MACH-MHC-01 to MACH-MHC-05).
//!
//! ```text
//!   check      ── what a MachineHealthCheck asks for
//!   target     ── is a machine unhealthy, or when could it be
//!   plan       ── one reconcile: the short circuit, status, events, remediations
//!   remediate  ── what is done about one machine
//!   external   ── requests to other controllers, made from a template
//! ```

pub mod check;
pub mod external;
pub mod plan;
pub mod remediate;
pub mod target;
