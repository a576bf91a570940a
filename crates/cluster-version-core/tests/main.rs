//! Tests of the crate.
#![allow(clippy::needless_pass_by_value)]
mod apply;
mod errors;
mod health;
mod history;
mod payload_pod;
mod plan;
mod preconditions;
mod readiness;
mod recorded;
mod retrieval;
mod status;
mod support;
mod upgradeable;
mod wanted;
