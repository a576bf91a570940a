//! Payloads from every place, and their signatures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod places;
mod signatures;
