//! The APIs that a ClusterServiceVersion serves and requires (OLM0-API-08, OLM0-API-09).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kubernetes::{IntOrString, LabelSelector, RuleWithOperations};

/// The custom resources of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomResourceDefinitions {
    /// Those that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<CrdDescription>,
    /// Those that others serve for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<CrdDescription>,
}

/// A custom resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CrdDescription {
    /// The name of its definition.
    pub name: String,
    /// The version that is meant.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of objects that are made for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResourceReference>,
    /// Fields of its status, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<Descriptor>,
    /// Fields of its spec, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<Descriptor>,
    /// Actions on it, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_descriptors: Vec<Descriptor>,
}

/// The aggregated APIs of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiServiceDefinitions {
    /// Those that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<ApiServiceDescription>,
    /// Those that others serve for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<ApiServiceDescription>,
}

/// A kind of an aggregated API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiServiceDescription {
    /// The plural name of its resource.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// The Deployment that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// The port at which it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of objects that are made for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResourceReference>,
    /// Fields of its status, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<Descriptor>,
    /// Fields of its spec, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<Descriptor>,
    /// Actions on it, for forms and pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_descriptors: Vec<Descriptor>,
}

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiResourceReference {
    /// The name of its definition, empty for built-in kinds.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its version.
    pub version: String,
}

/// A field of an object, for forms and pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Where the field is.
    pub path: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The ways in which it is shown.
    #[serde(rename = "x-descriptors", default, skip_serializing_if = "Vec::is_empty")]
    pub x_descriptors: Vec<String>,
    /// A value that is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub value: Option<String>,
}

/// A webhook of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDescription {
    /// The beginning of its name.
    pub generate_name: String,
    /// The work of the webhook: to validate, to change or to convert.
    #[serde(rename = "type")]
    pub r#type: WebhookType,
    /// The Deployment that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// The port of its Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535), extend("default" = 443))]
    pub container_port: Option<i32>,
    /// The port of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    /// The requests that it is asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    /// The consequence of a webhook that does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    /// The policy about requests that are equivalent to those of the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
    /// The objects that it is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// The other changes that it makes.
    pub side_effects: String,
    /// The seconds that it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// The versions of reviews that it understands.
    pub admission_review_versions: Vec<String>,
    /// The policy about a second question, after others made changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<String>,
    /// The path of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// The definitions whose objects it converts.
    #[serde(rename = "conversionCRDs", default, skip_serializing_if = "Vec::is_empty")]
    pub conversion_crds: Vec<String>,
}

/// The types of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum WebhookType {
    ValidatingAdmissionWebhook,
    MutatingAdmissionWebhook,
    ConversionWebhook,
}
