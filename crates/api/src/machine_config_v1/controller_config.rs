//! ControllerConfig: what of a cluster the configuration of its nodes depends on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kubernetes::ObjectReference;

/// Facts about the cluster. Further fields of the kind are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ControllerConfigSpec {
    /// Image of the release.
    pub release_image: String,
    /// Image of the operating system.
    #[serde(rename = "baseOSContainerImage")]
    pub base_os_container_image: String,
    /// Image of its extensions.
    #[serde(rename = "baseOSExtensionsContainerImage", default, skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,
    /// Image of the operating system in its older form.
    #[serde(rename = "osImageURL", default, skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
    /// The authority that kubelets trust.
    #[serde(rename = "kubeAPIServerServingCAData")]
    #[schemars(extend("format" = "byte"))]
    pub kube_api_server_serving_ca_data: String,
    /// The authority of the cluster.
    #[serde(rename = "rootCAData")]
    #[schemars(extend("format" = "byte"))]
    pub root_ca_data: String,
    /// Certificates that the user trusts.
    #[schemars(required, extend("format" = "byte", "x-nullable" = true))]
    pub additional_trust_bundle: Option<String>,
    /// Certificates of the cloud.
    #[serde(rename = "cloudProviderCAData")]
    #[schemars(required, extend("format" = "byte", "x-nullable" = true))]
    pub cloud_provider_ca_data: Option<String>,
    /// Configuration of the cloud.
    pub cloud_provider_config: String,
    /// Address of the cluster's DNS.
    #[serde(rename = "clusterDNSIP")]
    pub cluster_dns_ip: String,
    /// Families of addresses.
    pub ip_families: String,
    /// The Secret with credentials of registries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<ObjectReference>,
    /// Images of components by name.
    pub images: std::collections::BTreeMap<String, String>,
    /// The Infrastructure of the cluster.
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true))]
    pub infra: Value,
    /// The DNS of the cluster.
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true))]
    pub dns: Value,
    /// The proxy that nodes use.
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true, "x-nullable" = true))]
    pub proxy: Value,
    /// A change of the network.
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true, "x-nullable" = true))]
    pub network: Value,
}

/// The state of the MachineConfigs that are made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ControllerConfigCondition>,
    /// Certificates that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub controller_certificates: Vec<ControllerCertificate>,
}

/// A condition of a ControllerConfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Time of the last change of its status.
    #[schemars(required, extend("format" = "date-time", "x-nullable" = true))]
    pub last_transition_time: Option<String>,
    /// Reason of the last change, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason of the last change, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A certificate of a ControllerConfig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCertificate {
    /// Its subject.
    pub subject: String,
    /// Its signer.
    pub signer: String,
    /// Bundle that it is in.
    pub bundle_file: String,
    /// Its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}
