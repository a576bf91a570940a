//! The Machine Config Operator's decisions from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod properties;
mod recorded;
