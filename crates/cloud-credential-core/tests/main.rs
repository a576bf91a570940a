//! Tests of the decisions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values, and tests read better when they hand them on")]

mod plans;
mod rendered;
mod reports;
mod verified;
