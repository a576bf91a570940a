//! The crate's tests that need more than one module, or recorded answers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod changelog;
mod compose;
mod recorded;
mod rules;
