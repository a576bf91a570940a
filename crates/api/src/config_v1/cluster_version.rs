//! ClusterVersion (CVO-API-01 to CVO-API-08): which release a cluster is to run, and how far it is.
//!
//! A field whose feature gate is off at 4.19 is part of the type, so that a value is not lost on the way, and not part of the schema, so that
//! the API server prunes it (CVO-API-03, CVO-API-05).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::StatusCondition;
use crate::condition::Condition;

/// A ClusterVersion object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterVersion {
    /// Name, labels and the like.
    pub metadata: ObjectMeta,
    /// The release that is wanted.
    pub spec: ClusterVersionSpec,
    /// The release that is reached.
    pub status: ClusterVersionStatus,
}

/// The release that a cluster is to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterID"]), transform = without_defaults)]
pub struct ClusterVersionSpec {
    /// The cluster's identity towards the update service: a UUID of version 4.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// The release to update to; the cluster stays at its release while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<DesiredUpdate>,
    /// The update service's graph; empty for the default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    /// The channel whose updates are asked for; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The optional parts of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesSpec>,
    /// Stores of signatures, in place of those that the release names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub signature_stores: Option<Vec<SignatureStore>>,
    /// Objects that are left alone, or are no longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "group", "namespace", "name"]))]
    pub overrides: Vec<ComponentOverride>,
}

/// The rules of [`DesiredUpdate`]: expression and message (CVO-API-04).
pub const RULES_OF_DESIRED_UPDATE: [(&str, &str); 2] = [
    (
        "has(self.architecture) && has(self.image) ? (self.architecture == \"\" || self.image == \"\") : true",
        "cannot set both Architecture and Image",
    ),
    ("has(self.architecture) && self.architecture != \"\" ? self.version != \"\" : true", "Version must be set if Architecture is set"),
];

/// The rule of the whole object: expression and message (CVO-API-04).
pub const RULE_OF_CAPABILITIES: (&str, &str) = (
    "has(self.spec.capabilities) && has(self.spec.capabilities.additionalEnabledCapabilities) && \
     self.spec.capabilities.baselineCapabilitySet == 'None' && 'marketplace' in self.spec.capabilities.additionalEnabledCapabilities ? \
     'OperatorLifecycleManager' in self.spec.capabilities.additionalEnabledCapabilities || (has(self.status) && \
     has(self.status.capabilities) && has(self.status.capabilities.enabledCapabilities) && 'OperatorLifecycleManager' in \
     self.status.capabilities.enabledCapabilities) : true",
    "the `marketplace` capability requires the `OperatorLifecycleManager` capability, which is neither explicitly or implicitly enabled in \
     this cluster, please enable the `OperatorLifecycleManager` capability",
);

/// A release to update to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = update_rules, transform = without_defaults)]
pub struct DesiredUpdate {
    /// `Multi` for the payload of all architectures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Its semantic version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The pullspec of its image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Update although it cannot be verified or a precondition fails. What the payload holds then runs with every permission.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The architecture of a payload: `Multi` for all in one payload, or nothing for that of the payload in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum Architecture {
    Multi,
    #[serde(rename = "")]
    Unset,
}

/// The optional parts of a release that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults)]
pub struct CapabilitiesSpec {
    /// A named set; `vCurrent` while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_capability_set: Option<CapabilitySet>,
    /// Capabilities besides those of the set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_enabled_capabilities: Vec<Capability>,
}

/// The name of an optional part of a release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("enum" = ["openshift-samples", "baremetal", "marketplace", "Console", "Insights", "Storage", "CSISnapshot",
    "NodeTuning", "MachineAPI", "Build", "DeploymentConfig", "ImageRegistry", "OperatorLifecycleManager", "CloudCredential", "Ingress",
    "CloudControllerManager", "OperatorLifecycleManagerV1"]))]
pub struct Capability(pub String);

/// The name of a set of capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("enum" = ["None", "v4.11", "v4.12", "v4.13", "v4.14", "v4.15", "v4.16", "v4.17", "v4.18", "vCurrent"]))]
pub struct CapabilitySet(pub String);

/// A store of signatures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SignatureStore {
    /// Its address.
    pub url: String,
    /// The ConfigMap of namespace openshift-config with the CA that the store's certificate is of, in key ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<crate::platform_v1::ConfigMapName>,
}

/// An object that is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["group", "kind", "name", "namespace", "unmanaged"]), transform = without_defaults)]
pub struct ComponentOverride {
    /// Its kind.
    pub kind: String,
    /// Its API group; empty for the core group.
    pub group: String,
    /// Its namespace; ignored for cluster-wide kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// True if it is left alone.
    pub unmanaged: bool,
}

/// The release that a cluster runs, and what is known of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["availableUpdates", "desired", "observedGeneration", "versionHash"]), transform = without_defaults)]
pub struct ClusterVersionStatus {
    /// The accepted release, which is being reconciled.
    pub desired: Release,
    /// The releases that were being reconciled, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<UpdateHistory>,
    /// The generation of the spec that this status is of.
    pub observed_generation: i64,
    /// A fingerprint of the manifests that are applied.
    pub version_hash: String,
    /// The optional parts of the release.
    pub capabilities: CapabilitiesStatus,
    /// The state of the cluster's version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ClusterCondition>,
    /// The recommended updates; null while they are not known, empty if there are none.
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "x-nullable" = true))]
    pub available_updates: Option<Vec<Release>>,
    /// The updates that are recommended to some clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditional_updates: Vec<ConditionalUpdate>,
}

/// The optional parts of the release in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = without_defaults)]
pub struct CapabilitiesStatus {
    /// Those that are enabled, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub enabled_capabilities: Vec<Capability>,
    /// All that the release knows, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub known_capabilities: Vec<Capability>,
}

/// A condition of a ClusterVersion; the type is that of ClusterOperators.
pub type ClusterCondition = StatusCondition;

/// A release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["image", "version"]), transform = without_defaults)]
pub struct Release {
    /// The architecture of its payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub architecture: Option<Architecture>,
    /// Its semantic version.
    pub version: String,
    /// The pullspec of its image.
    pub image: String,
    /// What is said of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The channels that it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub channels: Vec<String>,
}

/// A release that was being reconciled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["completionTime", "image", "startedTime", "state", "verified"]), transform = without_defaults)]
pub struct UpdateHistory {
    /// How far it came.
    #[schemars(with = "String")]
    pub state: UpdateState,
    /// When it began.
    #[schemars(with = "Time")]
    pub started_time: Option<Time>,
    /// When it was completed or given up; null while it is going on.
    #[schemars(extend("x-nullable" = true))]
    pub completion_time: Option<Time>,
    /// Its semantic version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The pullspec of its image.
    pub image: String,
    /// True if the image's signature was verified.
    pub verified: bool,
    /// What was risked in taking it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub accepted_risks: String,
}

/// How far a release came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateState {
    /// Not said yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Every manifest was applied.
    Completed,
    /// Not every manifest was applied.
    Partial,
}

/// An update that is recommended to some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["release", "risks"]), transform = without_defaults)]
pub struct ConditionalUpdate {
    /// The release.
    pub release: Release,
    /// The risks of the update.
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub risks: Vec<ConditionalUpdateRisk>,
    /// Whether it is recommended to this cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A reason for which an update is not recommended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionalUpdateRisk {
    /// What is said of it.
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub url: String,
    /// Its name, in CamelCase.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What may happen.
    #[schemars(length(min = 1))]
    pub message: String,
    /// The clusters that it concerns; the first rule that can be evaluated counts.
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub matching_rules: Vec<ClusterMatchingRule>,
}

/// A selection of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClusterCondition")]
pub struct ClusterMatchingRule {
    /// `Always` or `PromQL`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Always", "PromQL"]))]
    pub kind: String,
    /// The query of a PromQL rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<PromQlCondition>,
}

/// A query of a cluster's metrics: 1 if the rule matches, 0 if not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromQlCondition {
    /// The query.
    pub promql: String,
}

/// Fields that are absent in an object are no defaults of its schema.
pub(super) fn without_defaults(schema: &mut Schema) {
    let fields = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    for field in fields.into_iter().flat_map(serde_json::Map::values_mut).filter_map(serde_json::Value::as_object_mut) {
        field.remove("default");
    }
}

fn update_rules(schema: &mut Schema) {
    let rules = RULES_OF_DESIRED_UPDATE.iter().map(|(rule, message)| serde_json::json!({"rule": rule, "message": message}));
    schema.insert("x-kubernetes-validations".into(), rules.collect());
}
