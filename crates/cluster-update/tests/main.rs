//! The screens against recorded ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod explain;
mod recorded;
mod risks;
