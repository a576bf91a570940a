//! Mirrors of registries, by digest and by tag (COP-G-06), and their older form.

use mainstay_cluster_version_core::stand_in::{Candidate, SIMULATED};
use serde_json::{Value, json};

const OWNER: &str = "config-operator";
/// The host and port of a registry.
const HOST: &str =
    r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?";
/// The repository in it.
const PATH: &str = r"(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?";
/// All hosts of a domain.
const WILDCARD: &str = r"\*(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+";

/// Returns the definitions.
pub(super) fn definitions() -> [Candidate; 3] {
    let text = || json!({"type": "string"});
    let mirrors = json!({
        "type": "array",
        "items": {
            "type": "object", "required": ["source"],
            "properties": {"source": text(), "mirrors": {"type": "array", "items": text()}},
        },
    });
    let older = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "properties": {"repositoryDigestMirrors": mirrors}},
    }});
    let by = |kind: &str, plural: &str, short: &str, field: &str| {
        let names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(), "shortNames": [short],
        });
        definition("config.openshift.io", "v1", &names, &set(field))
    };
    let names = json!({
        "kind": "ImageContentSourcePolicy", "listKind": "ImageContentSourcePolicyList", "plural": "imagecontentsourcepolicies",
        "singular": "imagecontentsourcepolicy",
    });
    [
        by("ImageDigestMirrorSet", "imagedigestmirrorsets", "idms", "imageDigestMirrors"),
        by("ImageTagMirrorSet", "imagetagmirrorsets", "itms", "imageTagMirrors"),
        definition("operator.openshift.io", "v1alpha1", &names, &older),
    ]
}

/// The schema of a set of mirrors.
fn set(field: &str) -> Value {
    let place = format!("^({HOST}){PATH}$");
    let mirror = json!({
        "type": "object", "required": ["source"],
        "properties": {
            "mirrorSourcePolicy": {"type": "string", "enum": ["NeverContactSource", "AllowContactingSource"]},
            "mirrors": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "pattern": place}},
            "source": {"type": "string", "pattern": format!("^{WILDCARD}$|{place}")},
        },
    });
    let mut spec = json!({"type": "object", "properties": {}});
    spec["properties"][field] = json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": mirror});
    json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": {"type": "object"}}})
}

fn definition(group: &str, version: &str, names: &Value, schema: &Value) -> Candidate {
    let plural = names["plural"].as_str().unwrap_or_default();
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {SIMULATED: "true"}},
        "spec": {
            "group": group, "scope": "Cluster", "names": names,
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    Candidate { operator: OWNER.to_owned(), object }
}
