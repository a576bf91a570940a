//! The Machine Config Operator's decisions from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod daemon;
mod generated;
mod pools;
mod properties;
mod recorded;
mod support;
