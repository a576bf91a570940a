//! Copies of a CSV in the namespaces that its operator manages, and OLMConfig's word about them (OLM0-OG-19 to OLM0-OG-21).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::csv::{COPIED_FROM, TARGETS};
use crate::hash;
use crate::operator::COMPONENT_PREFIX;

/// The annotation with the hash of everything but the status.
pub const CONTENT_HASH: &str = "olm.operatorframework.io/nonStatusCopyHash";
/// The annotation with the hash of the status, written after the status.
pub const STATUS_HASH: &str = "olm.operatorframework.io/statusCopyHash";
/// Where kubectl keeps an object's last text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The part of a CSV that its copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// All of it, as upstream copies: for the few targets of a group, and for the namespaces that every user reads.
    Whole,
    /// The fields of tables and lists of operators: for the copies of a member of a global group, of which each namespace of the cluster has one.
    Summary,
}

impl Extent {
    /// The extent of a copy in a namespace.
    pub fn of(is_global: bool, namespace: &str, protected: &BTreeSet<String>) -> Self {
        if is_global && !protected.contains(namespace) { Self::Summary } else { Self::Whole }
    }
}

/// The annotation of a summary: where the whole object is.
pub const SUMMARY_OF: &str = "lifecycle.mainstay.dev/summary-of";
/// The longest annotation of a summary, in bytes.
const SHORT: usize = 128;

/// A CSV as its copies are.
#[derive(Debug, Clone, PartialEq)]
pub struct Prototype {
    /// The object without namespace and status, with the hash of itself.
    pub object: Value,
    /// The status.
    pub status: Value,
    /// The hash of the object.
    pub content_hash: String,
    /// The hash of the status.
    pub status_hash: String,
}

impl Prototype {
    /// The copies of a CSV.
    pub fn of(csv: &Value, extent: Extent) -> Self {
        let metadata = &csv["metadata"];
        let kept = |field: &str, keep: &dyn Fn(&str) -> bool| -> Map<String, Value> {
            let entries = metadata[field].as_object().into_iter().flatten();
            entries.filter(|(key, _)| keep(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let mut labels = kept("labels", &|key| !key.starts_with(COMPONENT_PREFIX));
        labels.insert(COPIED_FROM.to_owned(), metadata["namespace"].clone());
        let own = [TARGETS, LAST_APPLIED, CONTENT_HASH, STATUS_HASH];
        let mut annotations = kept("annotations", &|key| !own.contains(&key));
        let (mut spec, mut status) = (csv["spec"].clone(), csv["status"].clone());
        if !status.is_object() {
            status = json!({});
        }
        if extent == Extent::Summary {
            annotations.retain(|_, value| value.as_str().is_some_and(|text| text.len() <= SHORT));
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            annotations.insert(SUMMARY_OF.to_owned(), json!(format!("{}/{}", text("namespace"), text("name"))));
            spec = summary(&spec);
            status = fields(&status, &["phase", "lastUpdateTime", "lastTransitionTime"]);
        }
        let mut object = json!({
            "apiVersion": csv["apiVersion"], "kind": csv["kind"],
            "metadata": {"name": metadata["name"], "labels": labels, "annotations": annotations},
            "spec": spec,
        });
        status["reason"] = json!("Copied");
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        status["message"] = json!(format!("The operator is running in {namespace} but is managing this namespace"));
        let (content_hash, status_hash) = (hash::of(&object.to_string()), hash::of(&status.to_string()));
        object["metadata"]["annotations"][CONTENT_HASH] = json!(content_hash);
        Self { object, status, content_hash, status_hash }
    }

    /// The copy in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Value {
        let mut object = self.object.clone();
        object["metadata"]["namespace"] = json!(namespace);
        object
    }
}

/// The spec of a summary.
fn summary(spec: &Value) -> Value {
    let mut summary =
        fields(spec, &["displayName", "version", "release", "replaces", "minKubeVersion", "maturity", "provider", "installModes"]);
    summary["install"] = json!({"strategy": spec["install"]["strategy"], "spec": {"deployments": []}});
    for (section, named) in [
        ("customresourcedefinitions", ["name", "version", "kind", "displayName"].as_slice()),
        ("apiservicedefinitions", &["name", "group", "version", "kind", "displayName"]),
    ] {
        let sides = ["owned", "required"].into_iter().filter_map(|side| {
            let entries = spec[section][side].as_array()?;
            Some((side.to_owned(), entries.iter().map(|entry| fields(entry, named)).collect()))
        });
        let sides: Map<String, Value> = sides.collect();
        if !sides.is_empty() {
            summary[section] = Value::Object(sides);
        }
    }
    summary
}

/// Some fields of an object.
fn fields(object: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(*name)?.clone())));
    Value::Object(found.collect())
}

/// The namespaces in which copies of an active member belong.
///
/// `targets` is `None` for every namespace; then, if copies are disabled, only the protected namespaces have one.
pub fn places<'a>(
    own: &str,
    targets: Option<&BTreeSet<String>>,
    namespaces: impl Iterator<Item = &'a str>,
    is_disabled: bool,
    protected: &BTreeSet<String>,
) -> BTreeSet<String> {
    let belongs = |namespace: &str| match targets {
        Some(targets) => targets.contains(namespace),
        None => !is_disabled || protected.contains(namespace),
    };
    namespaces.filter(|namespace| *namespace != own && belongs(namespace)).map(str::to_owned).collect()
}

/// The condition of OLMConfig: its status, reason and message; `is_complete` is true if there are exactly the copies that belong.
pub fn condition(is_disabled: bool, is_complete: bool) -> (bool, &'static str, &'static str) {
    match (is_disabled, is_complete) {
        (false, true) => (false, "CopiedCSVsEnabled", "Copied CSVs are enabled and present across the cluster"),
        (false, false) => (false, "CopiedCSVsEnabled", "Copied CSVs are enabled and at least one copied CSVs is missing"),
        (true, true) => {
            let message = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode";
            (true, "CopiedCSVsDisabled", message)
        }
        (true, false) => {
            let message =
                "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode";
            (false, "CopiedCSVsDisabled", message)
        }
    }
}

/// The labels of a Role or RoleBinding that is copied into a target namespace.
fn tenant_labels(object: &Value, namespace: &str) -> BTreeMap<String, Value> {
    let own = object["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    let mut labels: BTreeMap<String, Value> = own.filter(|(key, _)| !key.starts_with(COMPONENT_PREFIX)).collect();
    labels.insert(COPIED_FROM.to_owned(), object["metadata"]["namespace"].clone());
    labels.insert("olm.managed".to_owned(), json!("true"));
    labels.insert("olm.owner.namespace".to_owned(), json!(namespace));
    labels
}

/// A Role or RoleBinding of an operator as it is in a target namespace, owned by the copied CSV there (OLM0-OG-18).
pub fn tenant_role(object: &Value, namespace: &str, copy_uid: &str) -> Value {
    let mut copy = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": object["kind"],
        "metadata": {"name": object["metadata"]["name"], "namespace": namespace, "labels": tenant_labels(object, namespace)},
    });
    let owner = object["metadata"]["labels"]["olm.owner"].as_str().unwrap_or_default();
    copy["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": owner, "uid": copy_uid,
        "controller": false, "blockOwnerDeletion": false,
    }]);
    for field in ["rules", "subjects", "roleRef"] {
        if let Some(value) = object.get(field) {
            copy[field] = value.clone();
        }
    }
    copy
}

/// The ClusterRole of a Role, or the ClusterRoleBinding of a RoleBinding, of a member of a global group (OLM0-OG-17).
pub fn lifted(object: &Value) -> Value {
    let is_role = object["kind"] == "Role";
    let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let mut lifted = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": if is_role { "ClusterRole" } else { "ClusterRoleBinding" },
        "metadata": {"name": object["metadata"]["name"], "labels": labels},
    });
    if is_role {
        let mut rules = object["rules"].as_array().cloned().unwrap_or_default();
        rules.push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
        lifted["rules"] = json!(rules);
    } else {
        lifted["subjects"] = object["subjects"].clone();
        lifted["roleRef"] = object["roleRef"].clone();
        lifted["roleRef"]["kind"] = json!("ClusterRole");
    }
    lifted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-OG-19: what a copy has and lacks.
    #[test]
    fn prototype() {
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "namespace": "home", "uid": "1",
                "labels": {"operators.coreos.com/a.home": "", "olm.api.1": "provided"},
                "annotations": {"olm.targetNamespaces": "", "olm.operatorGroup": "g", LAST_APPLIED: "{}"}},
            "spec": {"version": "1.0.0"}, "status": {"phase": "Succeeded", "reason": "InstallSucceeded", "message": "done"},
        });
        let prototype = Prototype::of(&csv, Extent::Whole);
        let copy = prototype.in_namespace("away");
        assert_eq!(copy["metadata"]["labels"], json!({"olm.api.1": "provided", "olm.copiedFrom": "home"}));
        assert_eq!(copy["metadata"]["annotations"], json!({"olm.operatorGroup": "g", CONTENT_HASH: prototype.content_hash}));
        assert_eq!(copy["metadata"]["namespace"], "away");
        assert_eq!(
            prototype.status,
            json!({"phase": "Succeeded", "reason": "Copied", "message": "The operator is running in home but is managing this namespace"})
        );
        csv["status"]["phase"] = json!("Failed");
        let changed = Prototype::of(&csv, Extent::Whole);
        assert_eq!(changed.content_hash, prototype.content_hash);
        assert_ne!(changed.status_hash, prototype.status_hash);
    }

    /// OLM0-OG-19: the copy in every namespace of the cluster is small, however large the CSV is.
    #[test]
    fn a_summary_is_small() {
        let long = "x".repeat(100_000);
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "namespace": "home", "annotations": {"alm-examples": long, "olm.operatorGroup": "g"}},
            "spec": {"version": "1.0.0", "displayName": "A", "description": long, "icon": [{"base64data": long}],
                "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "a", "spec": {}}], "permissions": [{"rules": []}]}},
                "customresourcedefinitions": {"owned": [{"name": "as.a.io", "version": "v1", "kind": "A", "specDescriptors": [long]}]}},
            "status": {"phase": "Succeeded", "conditions": [{"message": long}], "requirementStatus": [{"message": long}]},
        });
        let copy = Prototype::of(&csv, Extent::Summary);
        assert!(copy.object.to_string().len() + copy.status.to_string().len() < 1_200, "{}", copy.object);
        assert_eq!(copy.object["spec"]["customresourcedefinitions"]["owned"], json!([{"name": "as.a.io", "version": "v1", "kind": "A"}]));
        assert_eq!(copy.object["metadata"]["annotations"][SUMMARY_OF], "home/a.v1");
        assert_eq!((&copy.status["phase"], &copy.status["reason"]), (&json!("Succeeded"), &json!("Copied")));
        let protected = BTreeSet::from(["openshift".to_owned()]);
        assert_eq!(Extent::of(true, "openshift", &protected), Extent::Whole);
        assert_eq!(Extent::of(true, "other", &protected), Extent::Summary);
        assert_eq!(Extent::of(false, "other", &protected), Extent::Whole);
    }

    /// OLM0-OG-20: disabled copies stay in protected namespaces, and in the targets of groups that are not for all namespaces.
    #[test]
    fn where_copies_belong() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let all = ["a", "b", "home", "openshift"];
        let protected = set(&["openshift"]);
        let place = |targets: Option<&BTreeSet<String>>, disabled| places("home", targets, all.into_iter(), disabled, &protected);
        assert_eq!(place(None, false), set(&["a", "b", "openshift"]));
        assert_eq!(place(None, true), set(&["openshift"]));
        assert_eq!(place(Some(&set(&["a", "home", "gone"])), true), set(&["a"]));
    }
}
