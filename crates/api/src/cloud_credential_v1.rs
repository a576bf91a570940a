//! `cloudcredential.openshift.io/v1`: CredentialsRequest (OLM0-TOKEN-01, OLM0-TOKEN-02, COP-CRED-01), and `operator.openshift.io/v1`: CloudCredential.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A component's or an operator's request for a Secret that opens the cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRequestSpec {
    /// The Secret to be written.
    pub secret_ref: SecretReference,
    /// The permissions in the cloud, in the words of one provider: the kind of this object chooses the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend(
        "additionalProperties" = null,
        "x-kubernetes-preserve-unknown-fields" = true
    ))]
    pub provider_spec: Option<serde_json::Value>,
    /// The service accounts that use the credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_account_names: Vec<String>,
    /// The path at which the service account token is mounted in the pods that use the credentials. Defaults to `/var/run/secrets/openshift/serviceaccount/token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_token_path: Option<String>,
}

/// A reference to the Secret of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// API version of the referent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// A part of the referent, as a field path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// Kind of the referent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Version of the referent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// UID of the referent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRequestStatus {
    /// True once the credentials have been set up in the cloud and in the Secret.
    pub provisioned: bool,
    /// The time of the last sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_timestamp: Option<Time>,
    /// The generation of the request at the last sync.
    pub last_sync_generation: i64,
    /// The resource version of the root Secret at the last sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_cloud_creds_secret_resource_version: Option<String>,
    /// The resource version of Infrastructure at the last sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_infrastructure_resource_version: Option<String>,
    /// The provider's notes on what it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend(
        "additionalProperties" = null,
        "x-kubernetes-preserve-unknown-fields" = true
    ))]
    pub provider_status: Option<serde_json::Value>,
    /// The conditions of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<CredentialsRequestCondition>,
}

/// A condition of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsRequestCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The time of the last probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// The time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Reason of the last change, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Settings of the cloud credential operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CloudCredentialSpec {
    /// Mode in which credentials are made; empty leaves it to the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_mode: Option<CredentialsMode>,
}

/// The ways in which credentials are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum CredentialsMode {
    #[default]
    #[serde(rename = "")]
    Default,
    Manual,
    Mint,
    Passthrough,
}

/// The state of the cloud credential operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CloudCredentialStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
