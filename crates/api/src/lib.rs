//! Every custom resource type, one module per group and version.
//!
//! The CRD manifests below `manifests/` are written from these types by `cargo xtask manifests` and checked in; a test compares
//! them with the recorded definitions of upstream. Types hold no behaviour beyond accessors.

pub mod cluster_operator;
pub mod condition;
pub mod lifecycle;
mod manifest;
pub mod olm_v1;

pub use manifest::{Manifest, manifests};
