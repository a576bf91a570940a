//! Tests of the decisions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod plans;
mod rendered;
mod reports;
mod verified;
