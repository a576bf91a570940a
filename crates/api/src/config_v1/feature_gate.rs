//! FeatureGate: which features of a release are on (CVO-INC-04).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_version::without_defaults;
use crate::condition::Condition;

const NAME: &str = r"^([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+\.?$";

/// The features that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults, extend("x-kubernetes-validations" = [
    {"rule": "has(oldSelf.featureSet) ? has(self.featureSet) : true", "message": ".spec.featureSet cannot be removed"}]))]
pub struct FeatureGateSpec {
    /// A named set; empty for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", ""], "x-kubernetes-validations" = [
        {"rule": "oldSelf == 'CustomNoUpgrade' ? self == 'CustomNoUpgrade' : true", "message": "CustomNoUpgrade may not be changed"},
        {"rule": "oldSelf == 'TechPreviewNoUpgrade' ? self == 'TechPreviewNoUpgrade' : true", "message": "TechPreviewNoUpgrade may not be changed"},
        {"rule": "oldSelf == 'DevPreviewNoUpgrade' ? self == 'DevPreviewNoUpgrade' : true", "message": "DevPreviewNoUpgrade may not be changed"}]))]
    pub feature_set: Option<String>,
    /// Features by name, for the set CustomNoUpgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    pub custom_no_upgrade: Option<CustomFeatureGates>,
}

/// Features by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults)]
pub struct CustomFeatureGates {
    /// Those that are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<FeatureName>,
    /// Those that are off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<FeatureName>,
}

/// The name of a feature.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = NAME))]
pub struct FeatureName(pub String);

/// The features of the releases that the cluster knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults)]
pub struct FeatureGateStatus {
    /// The state of the features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The features by version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
    pub feature_gates: Vec<FeatureGatesOfVersion>,
}

/// The features of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults, extend("required" = ["version"]))]
pub struct FeatureGatesOfVersion {
    /// Its version.
    pub version: String,
    /// Those that are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<NamedFeatureGate>,
    /// Those that are off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<NamedFeatureGate>,
}

/// A feature by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedFeatureGate {
    /// Its name.
    pub name: FeatureName,
}
