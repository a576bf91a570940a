//! What Go's library prints and accepts, where answers must be the same.
//!
//! Upstream's programs are written in Go, and what its library does shows: in messages that quote names, in JSON that is hashed or
//! compared byte by byte, in the order that an unstable sort leaves. Each such subject has its one home here, a module a subject;
//! what is done with it (which message, which struct) is the business of the crates that ask.

pub mod http_proxy;
pub mod json;
mod quote;
mod sort;
pub mod value;

pub use quote::{quote, quote_ascii, quoted_list};
pub use sort::sort_slice;
