//! Tests of the crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod approvals;
mod control_plane;
mod control_plane_plan;
mod decisions;
mod deletions;
mod quorum;
mod recorded;
mod support;
