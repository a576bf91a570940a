//! Cluster API as a provider: a machine's instance is a Machine of `cluster.x-k8s.io`, which the infrastructure's own controller makes real
//! (MACH-PROV-11).
//!
//! ```text
//!   config   the provider spec: the cluster, the template of the infrastructure, the Kubernetes version, the user data
//!   objects  what is made of it: the bootstrap Secret, a clone of the template, the Machine of Cluster API
//!   account  what a Machine of Cluster API says about the instance
//! ```
//!
//! All three objects have the namespace of the machine and a name that begins with its name, and carry its UID as a label: an object of that name
//! without the label belongs to another owner and is never touched.

pub mod account;
pub mod config;
pub mod objects;

use serde_json::Value;

pub use account::instance;
pub use config::{Config, ConfigError};
pub use objects::CloneError;

/// The group of the provider spec.
pub const GROUP: &str = "capi.mainstay.dev";
/// The kind of the provider spec.
pub const KIND: &str = "ClusterAPIProviderConfig";
/// The group of Cluster API.
pub const CLUSTER_API: &str = "cluster.x-k8s.io";
/// The group of infrastructure templates and of what is cloned from them.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// Label of the objects of a machine: its UID.
pub const UID_LABEL: &str = "capi.mainstay.dev/machine-uid";
/// Annotation of a Machine of Cluster API whose node Cluster API does not drain: the drain and the hooks are the Machine API's.
pub const EXCLUDE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
/// Annotation of a Machine of Cluster API whose health checks leave it alone: those of the Machine API look after it.
pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";

/// A version of Cluster API's kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1beta2`, since Cluster API 1.11.
    V1Beta2,
    /// `v1beta1`.
    V1Beta1,
}

impl Version {
    /// The known versions, the newest first.
    pub const ALL: [Self; 2] = [Self::V1Beta2, Self::V1Beta1];

    /// Returns group and version, as objects name them.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1Beta2 => "cluster.x-k8s.io/v1beta2",
            Self::V1Beta1 => "cluster.x-k8s.io/v1beta1",
        }
    }
}

/// Returns whether an object was made for the machine of a UID.
pub fn belongs(object: &Value, uid: &str) -> bool {
    !uid.is_empty() && object.pointer("/metadata/labels").and_then(|labels| labels.get(UID_LABEL)).is_some_and(|label| label == uid)
}
