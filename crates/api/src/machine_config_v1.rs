//! `machineconfiguration.openshift.io/v1`, and MachineConfiguration of `operator.openshift.io/v1`: the configuration of nodes' operating systems
//! (MACH-MC-01, MACH-MCP-01, MACH-NODE-06, MACH-DISR-06).

mod controller_config;
mod disruption;
mod generated;
mod node;
mod pool;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use controller_config::{ControllerConfigSpec, ControllerConfigStatus};
pub use disruption::{MachineConfigurationSpec, MachineConfigurationStatus};
pub use generated::{ContainerRuntimeConfigSpec, ContainerRuntimeConfigStatus, GeneratedStatus, KubeletConfigSpec};
pub use node::{MachineConfigNodeSpec, MachineConfigNodeStatus, PinnedImageSetSpec};
pub use pool::{MachineConfigPoolSpec, MachineConfigPoolStatus};

/// The content of a MachineConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// Image of the operating system.
    #[serde(rename = "osImageURL", default, skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
    /// Image of the extensions of the operating system.
    #[serde(rename = "baseOSExtensionsContainerImage", default, skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
    /// Ignition config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Value>,
    /// Arguments of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "x-nullable" = true))]
    pub kernel_arguments: Option<Vec<String>>,
    /// Extensions of the operating system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub extensions: Vec<String>,
    /// True if FIPS is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Type of the kernel: `default`, `realtime` or `64k-pages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,
}

/// A condition of a pool, or of an object that a MachineConfig is generated from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MachineConfigCondition")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Time of the last change of its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time", "x-nullable" = true))]
    pub last_transition_time: Option<String>,
    /// Reason of the last change, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason of the last change, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
