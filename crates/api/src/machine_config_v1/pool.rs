//! MachineConfigPool: nodes that share a configuration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::kubernetes::{IntOrString, LabelSelector, ObjectReference};

/// The configuration that the nodes of a pool are to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// The MachineConfigs of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,
    /// The nodes of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// True if no node gets a new configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Number or share of the nodes that may be unavailable; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// The rendered MachineConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// Images that the nodes keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<PinnedImageSetRef>,
}

/// A rendered MachineConfig, and those that it was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PoolConfiguration {
    /// Version of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Part of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The MachineConfigs that it was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub source: Vec<ObjectReference>,
}

/// The name of a PinnedImageSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetRef {
    /// The name.
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9]))*$"
        )
    )]
    pub name: String,
}

/// The state of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The rendered MachineConfig that all nodes have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_count: Option<i32>,
    /// Number of nodes that have the wanted configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_machine_count: Option<i32>,
    /// Number of those that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_machine_count: Option<i32>,
    /// Number of nodes that are not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_machine_count: Option<i32>,
    /// Number of nodes that report a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_machine_count: Option<i32>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<Condition>,
    /// Ends of certificates that nodes have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cert_expirys: Vec<CertExpiry>,
    /// The work of other controllers on the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["poolSynchronizerType"]))]
    pub pool_synchronizers_status: Vec<PoolSynchronizerStatus>,
}

/// The end of a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertExpiry {
    /// Bundle that the certificate is in.
    pub bundle: String,
    /// Its subject.
    pub subject: String,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Time>,
}

/// Progress of a controller over the nodes of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.machineCount >= self.updatedMachineCount", "message": "machineCount must be greater than or equal to updatedMachineCount"},
    {"rule": "self.machineCount >= self.availableMachineCount", "message": "machineCount must be greater than or equal to availableMachineCount"},
    {"rule": "self.machineCount >= self.unavailableMachineCount", "message": "machineCount must be greater than or equal to unavailableMachineCount"},
    {"rule": "self.machineCount >= self.readyMachineCount", "message": "machineCount must be greater than or equal to readyMachineCount"},
    {"rule": "self.availableMachineCount >= self.readyMachineCount", "message": "availableMachineCount must be greater than or equal to readyMachineCount"}]))]
pub struct PoolSynchronizerStatus {
    /// The controller.
    #[schemars(length(max = 256), extend("enum" = ["PinnedImageSets"]))]
    pub pool_synchronizer_type: String,
    /// Number of nodes.
    #[schemars(range(min = 0))]
    pub machine_count: i64,
    /// Number of nodes that it is done with.
    #[schemars(range(min = 0))]
    pub updated_machine_count: i64,
    /// Number of those that are ready.
    #[schemars(range(min = 0))]
    pub ready_machine_count: i64,
    /// Number of nodes that are available.
    #[schemars(range(min = 0))]
    pub available_machine_count: i64,
    /// Number of nodes that are not.
    #[schemars(range(min = 0))]
    pub unavailable_machine_count: i64,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-kubernetes-validations" = [
        {"rule": "self >= oldSelf || (self == 0 && oldSelf > 0)", "message": "observedGeneration must not move backwards except to zero"}]))]
    pub observed_generation: Option<i64>,
}
