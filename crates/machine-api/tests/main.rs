//! Tests of this crate, in one program: each crate has one, so that the workspace links few of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster_api;
mod operators;
mod providers;
mod support;
