//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod annotations;
mod apis;
mod approvals;
mod bad_input;
mod catalogs;
mod cluster_operator;
mod collision;
mod crashes;
mod embedded;
mod endpoint;
mod enforcement;
mod mirrors;
mod permissions;
mod poisons;
mod revisions;
mod signed_images;
mod starving;
mod support;
mod watches;
