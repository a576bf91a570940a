//! The output and input rules of Go's library, for answers that must be the same.
//!
//! Upstream's programs are written in Go, and the habits of its library are visible: in messages that quote names, in JSON that is hashed or
//! compared byte by byte, in hashes that are written as numbers, in the order that an unstable sort leaves. Each such subject has one module
//! here; its use (which message, which struct) belongs to the crates that call it.

mod big_int;
mod duration;
mod gzip;
pub mod http_proxy;
mod integer;
pub mod json;
pub mod json_reader;
mod quote;
mod sort;
mod tabs;
pub mod typed;
pub mod url;
pub mod value;

pub use big_int::big_int_text;
pub use duration::{DurationError, duration_text, parse_duration};
pub use gzip::gzip_best;
pub use integer::{IntegerError, IntegerProblem, atoi};
pub use quote::{quote, quote_ascii, quoted_list};
pub use sort::sort_slice;
pub use tabs::Tabs;
