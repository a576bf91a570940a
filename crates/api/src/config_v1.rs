//! `config.openshift.io/v1`: OperatorHub (OLM0-API-32), ClusterVersion (CVO-API-01), ClusterOperator (CVO-CO-01) and FeatureGate.

mod cluster_operator;
mod cluster_version;
mod feature_gate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cluster_operator::{ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus, OperandVersion, RelatedObject, StatusCondition};
pub use cluster_version::{
    Architecture, CapabilitiesSpec, CapabilitiesStatus, Capability, CapabilitySet, ClusterCondition, ClusterMatchingRule, ClusterVersion,
    ClusterVersionSpec, ClusterVersionStatus, ComponentOverride, ConditionalUpdate, ConditionalUpdateRisk, PromQlCondition, Release,
    SignatureStore, UpdateHistory, UpdateState,
};
pub use cluster_version::{DesiredUpdate, RULE_OF_CAPABILITIES, RULES_OF_DESIRED_UPDATE};
pub use feature_gate::{CustomFeatureGates, FeatureGateSpec, FeatureGateStatus, FeatureGatesOfVersion, FeatureName, NamedFeatureGate};

/// Which default catalogs the cluster has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorHubSpec {
    /// Disable all default catalogs that are not named below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_all_default_sources: Option<bool>,
    /// Default catalogs by name, in place of the setting above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<HubSource>,
}

/// A default catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubSource {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// True if it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// The default catalogs and what was done with each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorHubStatus {
    /// The catalogs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<HubSourceStatus>,
}

/// The state of a default catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubSourceStatus {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// True if it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// `Success` or `Error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
