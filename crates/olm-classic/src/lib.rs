//! OLM classic's controllers (`docs/spec/olm-classic.md`): two that run without each other, as upstream's do (OLM0-API-01).
//!
//! ```text
//!   catalog operator (`catalog`)                         OLM operator (`olm`)
//!   CatalogSource ── content ──┐                         OperatorGroup ── targets, roles ──┐
//!   Subscription ── resolve ───┴─► InstallPlan ── objects ──►  CSV ── Deployments, roles, certificates, copies
//! ```
//!
//! They meet in objects alone. Decisions are in `olm-classic-core`; these modules observe, act and wake.

pub mod catalog;
pub mod olm;
pub mod report;
