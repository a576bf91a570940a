//! `operators.coreos.com/v1alpha1`.

pub mod catalog_source;
pub mod cluster_service_version;
pub mod install_plan;
pub mod served;
pub mod subscription;
