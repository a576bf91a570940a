//! Every custom resource type, one module per group and version.
//!
//! The CRD manifests below `manifests/` are written from these types by `cargo xtask manifests` and checked in; a test compares
//! them with the recorded definitions of upstream. Types hold no behaviour beyond accessors. Manifests of OLM classic embed types of Kubernetes (see [`kubernetes`]) and
//! lie in `manifests/classic`.

pub mod classic;
pub mod cloud_credential_v1;
pub mod cluster_operator;
pub mod condition;
pub mod config_v1;
pub mod kubernetes;
pub mod lifecycle;
pub mod machine;
pub mod machine_config;
pub mod machine_config_v1;
mod manifest;
pub mod olm_v1;
pub mod operators_v1;
pub mod operators_v1alpha1;
pub mod operators_v1alpha2;
pub mod operators_v2;
pub mod platform;
pub mod platform_v1;
pub mod release;

pub use classic::{classic_definitions, classic_manifests};
pub use machine::{machine_definitions, machine_manifests};
pub use machine_config::{machine_config_definitions, machine_config_manifests};
pub use manifest::{Manifest, manifests};
pub use platform::{platform_definitions, platform_manifests};
pub use release::{release_definitions, release_manifests};
