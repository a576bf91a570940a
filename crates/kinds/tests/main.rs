//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod devices;
mod documents;
mod facts;
mod operators;
mod recorded;
mod tables;
mod transcripts;
mod updates;
mod validation;
mod versions;
#[allow(dead_code, reason = "xtask uses all of it, the tests only the generation")]
#[path = "../../../xtask/src/facts.rs"]
mod xtask_facts;
