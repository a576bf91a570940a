//! JSON text, read and written without a tree in between.
//!
//! ```text
//!   text ── Cursor ──┬── skip, string, members      the base of typed views
//!                    └── write::value               the same value in canonical order, on one line or indented
//! ```
//!
//! The output equals that of Go's encoder without HTML escaping, because `opm` and catalogd write in that form (CATLG-10,
//! OLM1-CAT-07): keys sorted, the last of equal keys, numbers as 64-bit floats.

mod cursor;
mod number;
pub(crate) mod write;

pub(crate) use cursor::{Cursor, Syntax};
