//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scene;

mod advice;
mod annotations;
mod custom_resources;
mod dependencies;
mod explain;
mod explain_catalog;
mod fits;
mod phases;
mod plan;
mod plan_installed;
mod policies;
mod preview;
mod removal;
mod rollback;
