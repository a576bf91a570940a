//! MachineConfigNode, the progress of a node in steps, and PinnedImageSet, images that nodes keep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

const SUBDOMAIN: &str = "!format.dns1123Subdomain().validate(self).hasValue()";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
     alphanumeric character.";

/// A name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("maxLength" = 253, "x-kubernetes-validations" = [{"rule": SUBDOMAIN, "message": SUBDOMAIN_MESSAGE}]))]
pub struct Name(pub String);

/// An object by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedObject {
    /// The name.
    pub name: Name,
}

/// A node, its pool, and the configuration that it is to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeSpec {
    /// The node.
    pub node: NamedObject,
    /// Its pool.
    pub pool: NamedObject,
    /// The wanted configuration.
    pub config_version: WantedVersion,
}

/// A wanted configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WantedVersion {
    /// Its name.
    pub desired: Name,
}

/// The configuration that a node has, and the one that it is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigVersions {
    /// The one that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Name>,
    /// The one that it is to have.
    pub desired: Name,
}

/// The progress of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeStatus {
    /// The steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-kubernetes-validations" = [
        {"rule": "self >= oldSelf", "message": "observedGeneration must not decrease"}]))]
    pub observed_generation: Option<i64>,
    /// The configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_version: Option<ConfigVersions>,
    /// Images that the node keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<PinnedImages>,
}

/// The progress of a node with images that it keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.desiredGeneration) && has(self.currentGeneration) ? self.desiredGeneration >= self.currentGeneration : true",
     "message": "desired generation must be greater than or equal to the current generation"},
    {"rule": "has(self.lastFailedGeneration) && has(self.desiredGeneration) ? self.desiredGeneration >= self.lastFailedGeneration : true",
     "message": "desired generation must be greater than or equal to the last failed generation"},
    {"rule": "has(self.lastFailedGeneration) ? has(self.lastFailedGenerationError) : true",
     "message": "last failed generation error must be defined on image pull and pin failure"}]))]
pub struct PinnedImages {
    /// Name of the PinnedImageSet.
    pub name: Name,
    /// Generation whose images the node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-kubernetes-validations" = [
        {"rule": "self >= oldSelf", "message": "currentGeneration must not decrease"}]))]
    pub current_generation: Option<i32>,
    /// Generation whose images the node is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-kubernetes-validations" = [
        {"rule": "self >= oldSelf", "message": "desiredGeneration must not decrease"}]))]
    pub desired_generation: Option<i32>,
    /// Generation that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-kubernetes-validations" = [
        {"rule": "self >= oldSelf", "message": "lastFailedGeneration must not decrease"}]))]
    pub last_failed_generation: Option<i32>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub last_failed_generation_error: Option<String>,
}

/// Images that nodes keep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetSpec {
    /// The images.
    #[schemars(length(min = 1, max = 500), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_images: Vec<PinnedImage>,
}

/// An image by digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedImage {
    /// Its reference.
    #[schemars(length(min = 1, max = 447), extend("x-kubernetes-validations" = [
        {"rule": r"(self.split('@').size() == 2 && self.split('@')[1].matches('^sha256:[a-f0-9]{64}$'))",
         "message": "the OCI Image reference must end with a valid '@sha256:<digest>' suffix, where '<digest>' is 64 characters long"},
        {"rule": r"(self.split('@')[0].matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
         "message": "the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme"}]))]
    pub name: String,
}
