//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broken;
mod checks;
mod common;
mod config;
mod normalised;
mod reading;
mod real;
mod recorded;
mod rendered;
mod validators;
