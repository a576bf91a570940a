//! Tests of proxy and trusted certificates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values, and tests read better when they hand them on")]

mod cases;
mod embedded;
mod pure;
