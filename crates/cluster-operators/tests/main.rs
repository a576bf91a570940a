//! Tests of what stands for cluster operators.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values, and tests read better when they hand them on")]

mod base;
mod cluster;
mod config_plan;
mod loops;
mod migration;
mod player;
mod samples_plan;
mod states;
