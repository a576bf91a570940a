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

mod go;
pub mod patch;

pub use patch::{PatchError, json_patch, merge_patch, strategic_merge_patch};
