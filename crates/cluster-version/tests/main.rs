//! Tests of the Cluster Version Operator against the real API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values, and tests read better when they hand them on")]

mod cluster;
mod faults;
mod pods;
mod real;
mod releases;
mod rules;
mod updates;
