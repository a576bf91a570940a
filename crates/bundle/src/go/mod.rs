//! The changes that Go's typed structs make to an object on its way from a manifest to JSON.
//!
//! Upstream reads a bundle into Go structs and writes those structs out again. On the way unknown fields are dropped, quantities take their
//! canonical form, empty optional fields vanish, and structs without `omitempty` appear although the author did not write them. Names of
//! generated roles are hashes of such JSON, and objects are compared with what upstream applied, so the same has to happen here: by the rules
//! of Go's encoder over a table of type facts (`types.txt`), never field by field.
//!
//! ```text
//!   types.txt ── types ──┐
//!   manifest Value ── conform ── Value as Go would write it ── json ── bytes in Go's field order
//! ```

mod conform;
mod fold;
mod json;
mod scalars;
mod types;

pub use conform::{Mismatch, conform};
pub use fold::{fold, lenient, member};
pub use json::{compact_raw, to_plain_string_as, to_string, to_string_as};
pub(crate) use scalars::base64;
