//! Tests of the sample releases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod endpoint;
mod platform;
mod published;
mod signing;
