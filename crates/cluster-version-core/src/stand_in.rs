//! What a release takes for granted and a cluster of this program lacks: namespaces that an installer or an operator makes, and kinds that an
//! operator serves (CVO-SIM-01, COP-G-10). They are made only where operators are played, and say so.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_kinds::{Gvk, registry};
use serde_json::{Value, json};

/// The annotation of everything that is played.
pub const SIMULATED: &str = "mainstay.dev/simulated";

/// A definition or an object that an operator makes on a real cluster, and a release may bring itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The ClusterOperator that it belongs to: where the release has none of this name, the candidate is not made (COP-G-05).
    pub operator: String,
    /// The object.
    pub object: Value,
}

/// The stand-ins for the operators that are played. All of it is created once, and what is there already is left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandIns {
    /// Definitions, then namespaces: manifests need them.
    pub before: Vec<Value>,
    /// Other objects: they need the definitions of the manifests.
    pub after: Vec<Value>,
}

/// An object by group, kind, namespace and name.
type Id = (String, String, String, String);

fn id(object: &Value) -> Id {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gvk = Gvk::of(&text(&object["apiVersion"]), &text(&object["kind"]));
    (gvk.group, gvk.kind, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

/// The candidates of the release's ClusterOperators that no manifest makes or removes, and a stand-in for everything else that the manifests need
/// and none of them makes.
pub fn stand_ins(manifests: impl IntoIterator<Item: Borrow<Value>> + Clone, candidates: &[Candidate]) -> StandIns {
    let known: BTreeSet<Id> = manifests.clone().into_iter().map(|manifest| id(manifest.borrow())).collect();
    let operators: BTreeSet<&str> =
        known.iter().filter(|(_, kind, ..)| kind == "ClusterOperator").map(|(.., name)| name.as_str()).collect();
    let chosen: Vec<&Value> = candidates
        .iter()
        .filter(|candidate| operators.contains(candidate.operator.as_str()) && !known.contains(&id(&candidate.object)))
        .map(|candidate| &candidate.object)
        .collect();
    let is_early = |object: &&Value| matches!(object["kind"].as_str(), Some("CustomResourceDefinition" | "Namespace"));
    let (early, late): (Vec<&Value>, Vec<&Value>) = chosen.into_iter().partition(is_early);
    let mut before: Vec<Value> = early.iter().map(|object| (*object).clone()).collect();
    // What a candidate defines or makes is no gap any more.
    before.extend(gaps(manifests, &early));
    before.sort_by_key(|object| object["kind"] == "Namespace");
    StandIns { before, after: late.into_iter().cloned().collect() }
}

/// The objects that stand in for what the manifests need and none of them makes: definitions first, then namespaces.
fn gaps(manifests: impl IntoIterator<Item: Borrow<Value>>, early: &[&Value]) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is = |manifest: &Value, group: &str, kind: &str| {
        manifest["kind"] == kind && manifest["apiVersion"].as_str().is_some_and(|version| Gvk::of(version, kind).group == group)
    };
    let mut kinds: BTreeMap<(String, String), BTreeMap<String, bool>> = BTreeMap::new();
    let mut defined: BTreeSet<(String, String)> = BTreeSet::new();
    let (mut needed, mut made): (BTreeSet<String>, BTreeSet<String>) = (BTreeSet::new(), BTreeSet::new());
    let mut see = |manifest: &Value| {
        let is_deleted = manifest["metadata"]["annotations"].get(crate::deletion::DELETE).is_some();
        if is_deleted {
            return;
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
    };
    manifests.into_iter().for_each(|manifest| see(manifest.borrow()));
    for object in early {
        see(object);
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
        let made = stand_ins(&manifests, &[]).before;
        let names: Vec<Value> = made.iter().map(|one| one["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["clients.oauth.demo.example", "operand"]);
        assert!(made.iter().all(|one| one["metadata"]["annotations"][SIMULATED] == "true"));
        assert_eq!(made[0]["spec"]["scope"], "Cluster");
    }

    /// COP-G-05, COP-G-14: a candidate is made for a ClusterOperator that the release has, unless a manifest makes or removes the same object; its
    /// definition takes the place of one that accepts anything.
    #[test]
    fn candidates_give_way_to_the_release() {
        let object =
            |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let of = |operator: &str, object: &Value| Candidate { operator: operator.to_owned(), object: object.clone() };
        let mut definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "lamps.demo.example");
        definition["spec"] = json!({"group": "demo.example", "names": {"kind": "Lamp"}});
        let (lamp, other) = (object("demo.example/v1", "Lamp", "cluster"), object("demo.example/v1", "Lamp", "other"));
        let operator = object("config.openshift.io/v1", "ClusterOperator", "lamps");
        let mut operators = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "clusteroperators.config.openshift.io");
        operators["spec"] = json!({"group": "config.openshift.io", "names": {"kind": "ClusterOperator"}});
        let candidates =
            [of("lamps", &definition), of("lamps", &lamp), of("lamps", &other), of("gone", &object("v1", "Namespace", "gone"))];
        let made = stand_ins(&[operators.clone(), operator.clone(), other.clone()], &candidates);
        assert_eq!(made, StandIns { before: vec![definition.clone()], after: vec![lamp.clone()] });
        let mut tombstone = lamp;
        tombstone["metadata"]["annotations"] = json!({crate::deletion::DELETE: "true"});
        let made = stand_ins(&[operators, operator, other, tombstone, definition], &candidates);
        assert_eq!(made, StandIns::default());
    }
}
