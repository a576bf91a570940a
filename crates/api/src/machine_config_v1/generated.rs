//! KubeletConfig and ContainerRuntimeConfig, which MachineConfigs are generated from (MACH-MC-06).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Condition;
use crate::kubernetes::{LabelSelector, Quantity};

/// Settings of the kubelets of pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigSpec {
    /// True if reserved resources are calculated on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_sizing_reserved: Option<bool>,
    /// Level of the kubelet's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<i32>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
    /// Fields of the kubelet's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true))]
    pub kubelet_config: Option<Value>,
    /// TLS versions and ciphers of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}

/// TLS versions and ciphers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecurityProfile {
    /// Name of the profile.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Old", "Intermediate", "Modern", "Custom"]))]
    pub kind: Option<String>,
    /// Marks the profile Old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    pub old: Option<NoSettings>,
    /// Marks the profile Intermediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    pub intermediate: Option<NoSettings>,
    /// Marks the profile Modern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    pub modern: Option<NoSettings>,
    /// Versions and ciphers of the profile Custom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    pub custom: Option<CustomTls>,
}

/// A profile without settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoSettings {}

/// Versions and ciphers of one's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomTls {
    /// Ciphers by their names in OpenSSL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ciphers: Vec<String>,
    /// The least version.
    #[serde(rename = "minTLSVersion", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]))]
    pub min_tls_version: Option<String>,
}

/// Settings of the container runtimes of pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigSpec {
    /// The settings.
    pub container_runtime_config: ContainerRuntimeSettings,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// Settings of a container runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeSettings {
    /// The most processes of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<i64>,
    /// Level of CRI-O's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// The largest size of a container's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size_max: Option<Quantity>,
    /// Size of a container's root file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay_size: Option<Quantity>,
    /// Runtime of containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_runtime: Option<String>,
}

/// The state of a KubeletConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Outcomes, the last one at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The state of a ContainerRuntimeConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Outcomes, the last one at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<Condition>,
}
