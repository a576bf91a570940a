//! Field sets, managed fields, server-side apply and the patch formats.
//!
//! ```text
//!   JSON patch ── merge patch ── strategic merge patch      patch::*      what a PATCH makes of an object
//!   typed      ── compare, merge, validate, remove          typed         one walk over value + Schema
//!   fieldset   ── FieldsV1, set algebra                     fieldset      who may own what
//!   managed    ── update, apply, conflicts, time stamps     managed       metadata.managedFields
//!   diff       ── field-level differences for people        diff
//! ```
//!
//! Everything is a pure function over [`serde_json::Value`] and [`mainstay_schema::Schema`]; the clock comes in as a string.

pub mod change;
pub mod diff;
pub mod fieldset;
pub mod managed;
pub mod patch;
pub mod typed;

pub use change::{Change, Policy, change};
pub use diff::{FieldChange, diff};
pub use fieldset::{FieldSet, Path, PathElement};
pub use managed::{Applied, ApplyError, Conflicts, Managed, Manager, Operation, Write, apply, keep_times, update};
pub use patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
