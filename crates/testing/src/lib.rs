//! Shared parts of the tests of several crates: the recorded data beside the project, and a small operator of our own. Never part of the program.
//!
//! The crate depends on no other crate of the project, so that each may use it in its own unit tests.
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a test that cannot read its input fails")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

pub mod bundles;
pub mod crd_pairs;
pub mod data;
pub mod prometheus;
pub mod transcripts;
pub mod widgets;
