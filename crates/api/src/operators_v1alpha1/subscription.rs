//! Subscription (OLM0-API-15 to OLM0-API-18).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::{
    Affinity, EnvFromSource, EnvVar, LabelSelector, ObjectReference, ResourceRequirements, Toleration, Volume, VolumeMount,
};

/// The package that a namespace is to have, and from where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// The name of the CatalogSource.
    pub source: String,
    /// The namespace of the CatalogSource.
    pub source_namespace: String,
    /// The name of the package.
    pub name: String,
    /// The channel that is followed; the package's default channel if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The exact version that is installed first.
    #[serde(rename = "startingCSV", default, skip_serializing_if = "Option::is_none")]
    pub starting_csv: Option<String>,
    /// `Automatic`, or `Manual` for changes that wait for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_approval: Option<String>,
    /// Settings of the Deployments of the installed version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,
}

/// Settings of the Deployments of an installed version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionConfig {
    /// The pods that are meant; accepted and not evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of the nodes on which the pods may run, in place of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// More taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// The resources of each container, in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// More sources of environment variables of each container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFromSource>,
    /// Environment variables of each container; they win over its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Volumes of the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Mounts of each container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// The affinity of the pods; each part that is set replaces that of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// More annotations of Deployments and pods; existing ones win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The progress of a Subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// The newest version that was chosen.
    #[serde(rename = "currentCSV", default, skip_serializing_if = "Option::is_none")]
    pub current_csv: Option<String>,
    /// The version that is installed.
    #[serde(rename = "installedCSV", default, skip_serializing_if = "Option::is_none")]
    pub installed_csv: Option<String>,
    /// The InstallPlan, in an older form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installplan: Option<InstallPlanReference>,
    /// The relation of the installed version to the newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The reason of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The generation of the InstallPlan that installs the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = null))]
    pub install_plan_generation: Option<i64>,
    /// The InstallPlan that installs the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<ObjectReference>,
    /// The catalogs that were used, and whether they could be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalog_health: Vec<CatalogHealth>,
    /// The obstacles to progress, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SubscriptionCondition>,
    /// When the status was last written.
    pub last_updated: Time,
}

/// A reference to an InstallPlan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanReference {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uuid: String,
}

/// The health of a catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogHealth {
    /// The catalog.
    pub catalog_source_ref: ObjectReference,
    /// When this was last found.
    pub last_updated: Time,
    /// True if it could be used.
    pub healthy: bool,
}

/// One aspect of a Subscription that is out of order while its status is `True`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionCondition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub r#type: String,
    /// The condition's status: `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
