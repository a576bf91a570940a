//! InstallPlan (OLM0-API-19 to OLM0-API-21).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::ObjectReference;

/// The versions that one change of a namespace installs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanSpec {
    /// The catalog, in an older form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The namespace of the catalog, in an older form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,
    /// The versions that are installed together.
    pub cluster_service_version_names: Vec<String>,
    /// The approval of the change: `Automatic`, or `Manual`, for which it waits.
    pub approval: String,
    /// True if the change may be made.
    pub approved: bool,
    /// The number of the change in its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = null))]
    pub generation: Option<i64>,
}

/// The progress of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanStatus {
    /// The phase: `Planning`, `RequiresApproval`, `Installing`, `Complete` or `Failed`.
    pub phase: String,
    /// The conditions: the change was resolved, and made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<InstallPlanCondition>,
    /// The catalogs that the content comes from.
    pub catalog_sources: Vec<String>,
    /// The steps, one for each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// The bundles whose content is fetched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle_lookups: Vec<BundleLookup>,
    /// The account whose permissions limit the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,
    /// When the change began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The problem, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One aspect of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanCondition {
    /// Which aspect: `Resolved` or `Installed`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// The condition's status: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A step: one object that is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The version that the object belongs to.
    pub resolving: String,
    /// The object.
    pub resource: StepResource,
    /// True if the cluster may do without the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// The progress of the step.
    pub status: String,
}

/// The object of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepResource {
    /// The name of the catalog.
    pub source_name: String,
    /// The namespace of the catalog.
    pub source_namespace: String,
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its JSON text, or where the text is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// A bundle whose content is fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleLookup {
    /// The image of the bundle.
    pub path: String,
    /// The version that the bundle holds.
    pub identifier: String,
    /// The version that it replaces.
    pub replaces: String,
    /// The catalog that names it.
    pub catalog_source_ref: ObjectReference,
    /// The progress of the fetching.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<BundleLookupCondition>,
    /// Its properties, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
}

/// One aspect of fetching a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleLookupCondition {
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
    /// When it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
