//! The cost of expressions, in cel-go's units: the worst case before they run, which bounds the rules that a CRD may carry, and the real
//! cost of a run, which stops it (KAPI-CRD-03).
//!
//! ```text
//!   Schema ── decl: how long can each value get? ──┐
//!   checked syntax tree ── estimate, calls ────────┴── Range: least and most
//!   values ── charge: what this call took ── Evaluation's meter
//! ```
//!
//! Refusals say how many times over a limit an expression is, so these numbers are upstream's to the unit; `tests/data/cost.json` has
//! the counts of Kubernetes' own environment.

pub(crate) mod calls;
pub(crate) mod charge;
pub(crate) mod decl;
pub(crate) mod estimate;
pub(crate) mod range;

/// The most that one expression may take when it runs; about a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// The most that all expressions about one object may take.
pub const RUNTIME_BUDGET: u64 = 10_000_000;

/// The most that the match conditions of one webhook or policy may take.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// The most that one rule of a CRD may be estimated at, for all places that it applies to.
pub(crate) const RULE_ESTIMATE_LIMIT: u64 = 10_000_000;

/// The most that all rules of one schema may be estimated at.
pub(crate) const SCHEMA_ESTIMATE_LIMIT: u64 = 100_000_000;

/// Reading a variable, or a field.
pub(crate) const SELECT: u64 = 1;
/// Making a list.
pub(crate) const LIST: u64 = 10;
/// Making a map.
pub(crate) const MAP: u64 = 30;
/// A character that is walked over.
pub(crate) const CHARACTER: f64 = 0.1;
/// A character of a pattern.
pub(crate) const PATTERN: f64 = 0.25;
/// An authorization check.
pub(crate) const CHECK: u64 = 350_000;
