//! Role-based access control as Kubernetes decides it, and its bootstrap policy.
//!
//! Everything here is a pure function of roles, bindings and a question. The embedded API server asks [`authorize`] on every
//! request; the ClusterExtension preflight asks [`rules_for`] and [`covers`] about a service account.
//!
//! ```text
//!   Attributes ──┐
//!                ├─ authorize ── Decision { allowed, reason }
//!   RoleView ────┤
//!                └─ rules_for ── covers ── escalation message
//!   bootstrap ── reconcile ── the roles and bindings every cluster has
//! ```

mod attributes;
mod cover;
mod rule;

pub use attributes::*;
pub use cover::{breakdown, compact, compact_string, covers, quoted_list};
pub use rule::{ALL, PolicyRule};
