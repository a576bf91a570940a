//! Tests of the crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod generated;
mod pools;
mod recorded;
mod support;
