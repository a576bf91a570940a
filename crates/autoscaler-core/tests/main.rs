//! Tests of the crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod growing;
mod properties;
mod shrinking;
mod status;
mod support;
mod targets;
