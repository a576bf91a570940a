//! What a release takes for granted and a cluster of this program lacks: namespaces that an installer or an operator makes, and kinds that an
//! operator serves (CVO-SIM-01, COP-G-10). They are made only where operators are played, and say so.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_kinds::{Gvk, registry};
use serde_json::{Value, json};

/// The annotation of everything that is played.
pub const SIMULATED: &str = "mainstay.dev/simulated";

/// The objects that stand in for what the manifests need and none of them makes: definitions first, then namespaces.
pub fn stand_ins(manifests: impl IntoIterator<Item: Borrow<Value>>) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is = |manifest: &Value, group: &str, kind: &str| {
        manifest["kind"] == kind && manifest["apiVersion"].as_str().is_some_and(|version| Gvk::of(version, kind).group == group)
    };
    let mut kinds: BTreeMap<(String, String), BTreeMap<String, bool>> = BTreeMap::new();
    let mut defined: BTreeSet<(String, String)> = BTreeSet::new();
    let (mut needed, mut made): (BTreeSet<String>, BTreeSet<String>) = (BTreeSet::new(), BTreeSet::new());
    for manifest in manifests {
        let manifest = manifest.borrow();
        let is_deleted = manifest["metadata"]["annotations"].get(crate::deletion::DELETE).is_some();
        if is_deleted {
            continue;
        }
        if is(manifest, "", "Namespace") {
            made.insert(text(&manifest["metadata"]["name"]));
        } else if is(manifest, "apiextensions.k8s.io", "CustomResourceDefinition") {
            let spec = &manifest["spec"];
            defined.insert((text(&spec["group"]), text(&spec["names"]["kind"])));
        }
        let namespace = text(&manifest["metadata"]["namespace"]);
        let gvk = Gvk::of(&text(&manifest["apiVersion"]), &text(&manifest["kind"]));
        if registry().resource_of_kind(&gvk).is_none() && !gvk.group.is_empty() {
            kinds.entry((gvk.group, gvk.kind)).or_default().insert(gvk.version, !namespace.is_empty());
        }
        needed.insert(namespace);
    }
    needed.remove("");
    let definitions =
        kinds.into_iter().filter(|(id, _)| !defined.contains(id)).map(|((group, kind), versions)| definition(&group, &kind, &versions));
    let namespaces = needed
        .difference(&made)
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {SIMULATED: "true"}}}));
    definitions.chain(namespaces).collect()
}

/// A definition that takes any object of its kind.
fn definition(group: &str, kind: &str, versions: &BTreeMap<String, bool>) -> Value {
    let singular = kind.to_lowercase();
    let plural = if singular.ends_with('s') { format!("{singular}es") } else { format!("{singular}s") };
    let scope = if versions.values().any(|namespaced| *namespaced) { "Namespaced" } else { "Cluster" };
    let last = versions.keys().next_back();
    let served = versions.keys().map(|version| {
        json!({
            "name": version, "served": true, "storage": Some(version) == last, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {SIMULATED: "true", "api-approved.kubernetes.io": "unapproved, simulated"}},
        "spec": {
            "group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": served.collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-SIM-01, COP-G-10: only what no manifest makes and no API serves gets a stand-in, and it says so.
    #[test]
    fn gaps_alone_are_filled() {
        let object = |api_version: &str, kind: &str, namespace: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "demo", "namespace": namespace}});
        let mut gone = object("v1", "ConfigMap", "gone");
        gone["metadata"]["annotations"] = json!({crate::deletion::DELETE: "true"});
        let manifests = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.demo.example"},
                "spec": {"group": "demo.example", "names": {"kind": "Lamp"}}}),
            object("demo.example/v1", "Lamp", "own"),
            object("apps/v1", "Deployment", "own"),
            object("v1", "ConfigMap", "operand"),
            object("oauth.demo.example/v1", "Client", ""),
            gone,
        ];
        let names: Vec<Value> = stand_ins(&manifests).iter().map(|one| one["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["clients.oauth.demo.example", "operand"]);
        assert!(stand_ins(&manifests).iter().all(|one| one["metadata"]["annotations"][SIMULATED] == "true"));
        assert_eq!(stand_ins(&manifests)[0]["spec"]["scope"], "Cluster");
    }
}
