//! The service over HTTP, with a registry of its own on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod serving;
