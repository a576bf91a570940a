//! `operators.coreos.com/v1alpha2`: OperatorGroup in its older form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::{LabelSelector, ObjectReference};

/// The namespaces that the operators of a namespace watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// Selects the namespaces by their labels; ignored if namespaces are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The namespaces by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_namespaces: Vec<String>,
    /// The account whose permissions limit what is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Leave the list of provided APIs as it is.
    #[serde(rename = "staticProvidedAPIs", default, skip_serializing_if = "Option::is_none")]
    pub static_provided_apis: Option<bool>,
}

/// The namespaces that were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// The namespaces; one empty name stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The account whose permissions limit what is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<ObjectReference>,
    /// When the namespaces were last found.
    pub last_updated: Time,
}
