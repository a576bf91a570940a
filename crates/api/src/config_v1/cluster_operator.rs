//! ClusterOperator (CVO-CO-01 to CVO-CO-06): how an operator of the cluster itself is. What operators of ours report is in
//! [`crate::cluster_operator`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::cluster_version::without_defaults;
use crate::condition::Status;

/// A ClusterOperator object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterOperator {
    /// Name, labels and the like.
    pub metadata: ObjectMeta,
    /// Nothing.
    pub spec: ClusterOperatorSpec,
    /// The state of the operator.
    pub status: ClusterOperatorStatus,
}

/// Nothing is configured here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterOperatorSpec {}

/// The state of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults)]
pub struct ClusterOperatorStatus {
    /// The operator's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,
    /// The versions of its operands; `operator` is the version that all operands have reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OperandVersion>,
    /// The objects that are of interest when something is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,
    /// Whatever else the operator tells.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(extend("type" = "object", "x-nullable" = true, "x-kubernetes-preserve-unknown-fields" = true))]
    pub extension: Value,
}

/// A condition of a ClusterOperator or a ClusterVersion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["lastTransitionTime", "status", "type"]))]
pub struct StatusCondition {
    /// Which aspect, in CamelCase.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds; what is neither True nor False is read as Unknown.
    #[serde(deserialize_with = "status")]
    #[schemars(with = "String")]
    pub status: Status,
    /// When the status changed last.
    #[schemars(with = "Time")]
    pub last_transition_time: Option<Time>,
    /// Why, in CamelCase, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = null))]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = null))]
    pub message: String,
}

fn status<'de, D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
    Ok(match String::deserialize(from)?.as_str() {
        "True" => Status::True,
        "False" => Status::False,
        _ => Status::Unknown,
    })
}

/// The version of an operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name", "version"]), transform = without_defaults)]
pub struct OperandVersion {
    /// The operand.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// An object that is of interest when something is wrong.
///
/// Manifests of releases leave fields out that the API requires: they are read, and are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["group", "name", "resource"]), transform = without_defaults)]
pub struct RelatedObject {
    /// Its API group; empty for the core group.
    pub group: String,
    /// The plural of its kind.
    pub resource: String,
    /// Its namespace; empty for cluster-wide kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}
