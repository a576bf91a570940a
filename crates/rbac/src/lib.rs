//! Kubernetes' role-based access control, and its bootstrap policy.
//!
//! Everything here is a pure function of roles, bindings and a question. The embedded API server calls [`authorize`] on every
//! request; the ClusterExtension preflight calls [`rules_for`] and [`covers`] for a service account.
//!
//! ```text
//!   objects ── PolicyIndex (a RoleView) ──┐
//!                                         ├─ authorize ── Decision { allowed, reason } ── forbidden_message
//!   Attributes (who, verb, what) ─────────┤
//!                                         └─ rules_for ── covers ── role_refusals, binding_refusal
//!   bootstrap::objects ── reconcile ── the roles and bindings every cluster has
//! ```

mod aggregate;
mod attributes;
mod authorize;
pub mod bootstrap;
mod cover;
mod error;
mod escalation;
mod index;
mod reconcile;
mod risk;
mod rule;
mod view;

pub use aggregate::{aggregated_rules, selector_matches};
pub use attributes::{
    ANONYMOUS_USER, AUTHENTICATED_GROUP, Attributes, MASTERS_GROUP, UNAUTHENTICATED_GROUP, UserInfo, service_account_username,
    split_service_account_username,
};
pub use authorize::{Decision, GrantedRules, authorize, forbidden_message, group_resource, rules_for};
pub use cover::{breakdown, compact, compact_string, covers};
pub use error::Error;
pub use escalation::{Refusal, RoleWrite, binding_refusal, confirm_no_escalation, escalation_message, role_refusals};
pub use index::PolicyIndex;
pub use reconcile::{AUTOUPDATE_ANNOTATION, Reconciled, reconcile};
pub use risk::{Risk, risks};
pub use rule::{ALL, PolicyRule};
pub use view::{Binding, RBAC_GROUP, RoleRef, RoleView, Subject, parse_binding, parse_rules};
