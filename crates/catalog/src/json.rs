//! JSON text, read and written without a tree in between.
//!
//! ```text
//!   text ── Cursor ──┬── skip, string, members      what typed views are made of
//!                    └── write::value               the same value in canonical order, on one line or indented
//! ```
//!
//! What is written is what Go's encoder writes without HTML escaping, because that is what `opm` and catalogd give (CATLG-10,
//! OLM1-CAT-07): keys sorted, the last of equal keys, numbers as 64-bit floats.

mod cursor;
mod number;
pub(crate) mod write;

pub(crate) use cursor::{Cursor, Syntax};
