//! Tests of the crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod approvals;
mod control_plane;
mod decisions;
mod recorded;
mod support;
