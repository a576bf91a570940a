//! The sample ImageStreams of a release.

use mainstay_cluster_version_core::stand_in::SIMULATED;
use serde_json::{Value, json};

/// The label of a sample that the operator manages: `true`, or `false` once it is skipped.
pub const MANAGED: &str = "samples.operator.openshift.io/managed";
/// The annotation with the version of the release that a sample fits.
pub const VERSION: &str = "samples.operator.openshift.io/version";
/// The names of the samples.
pub const NAMES: [&str; 3] = ["sample-batch", "sample-hello", "sample-widgets"];
/// The namespace of the samples.
pub(super) const NAMESPACE: &str = "openshift";
/// The registry of the samples where the configuration names none.
const REGISTRY: &str = "registry.example";

/// Returns the samples of a release; an empty registry is the usual one.
pub fn streams(registry: &str, version: &str) -> Vec<Value> {
    let registry = if registry.is_empty() { REGISTRY } else { registry };
    // A release of the next minor version has a tag of its own.
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let stream = |name: &str| {
        json!({
            "apiVersion": "image.openshift.io/v1", "kind": "ImageStream",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": {MANAGED: "true"},
                "annotations": {VERSION: version, SIMULATED: "true", "openshift.io/display-name": format!("{name} (simulated)")},
            },
            "spec": {
                "lookupPolicy": {"local": false},
                "tags": [
                    {
                        "name": minor, "from": {"kind": "DockerImage", "name": format!("{registry}/mainstay-samples/{name}:{minor}")},
                        "importPolicy": {"importMode": "Legacy"}, "referencePolicy": {"type": "Local"},
                    },
                    {
                        "name": "latest", "from": {"kind": "ImageStreamTag", "name": minor},
                        "importPolicy": {"importMode": "Legacy"}, "referencePolicy": {"type": "Local"},
                    },
                ],
            },
        })
    };
    NAMES.map(stream).into()
}
