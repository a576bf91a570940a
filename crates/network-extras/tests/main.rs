//! Tests of proxy and trusted certificates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;
mod embedded;
mod pure;
