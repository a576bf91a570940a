//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod advice;
mod annotations;
mod apis;
mod approvals;
mod bad_input;
mod catalogs;
mod cluster_operator;
mod collision;
#[path = "../../bundle/tests/common/mod.rs"]
mod common;
mod crashes;
mod custom_resources;
mod dependencies;
mod embedded;
mod endpoint;
mod explain;
mod fits;
mod held;
mod jobs;
mod mirrors;
mod phases;
mod plan;
mod poisons;
mod policies;
mod preview;
mod removal;
mod revisions;
mod rights;
mod rollback;
mod scene;
mod signed_images;
mod starving;
mod support;
mod watches;
