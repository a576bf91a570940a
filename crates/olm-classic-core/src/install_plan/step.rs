//! The object that a step of an InstallPlan writes (OLM0-IP-05, OLM0-IP-12, OLM0-IP-14, OLM0-BUNDLE-06, OLM0-BUNDLE-07).

use serde_json::{Map, Value, json};

use crate::deployments::MANAGED_LABEL;
use crate::owner::Owner;
use crate::steps::{ObjectProblem, first_object};
use crate::subscription::GENERATED_BY;

/// The way in which a step is executed, by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// A CSV: created, and left as it is if it exists.
    Csv,
    /// A CRD: created or updated with OLM's own permissions, after checks.
    Crd,
    /// A Subscription for a dependency: created, and left as it is if it exists.
    Subscription,
    /// A Secret for pulling images, copied from the catalog's namespace.
    PullSecret,
    /// Anything else: created or updated.
    Object,
    /// A kind that OLM does not install.
    Unsupported,
}

/// Kinds whose steps are made of manifests as they are (OLM0-BUNDLE-06).
const GENERIC: [&str; 12] = [
    "PrometheusRule",
    "ServiceMonitor",
    "PodMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "NetworkPolicy",
];
/// Kinds with a treatment of their own in upstream's executor.
const TYPED: [&str; 8] =
    ["BundleSecret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Service", "ConfigMap"];

/// The treatment of a step's kind.
pub fn treatment(kind: &str) -> Treatment {
    match kind {
        "ClusterServiceVersion" => Treatment::Csv,
        "CustomResourceDefinition" => Treatment::Crd,
        "Subscription" => Treatment::Subscription,
        "Secret" => Treatment::PullSecret,
        _ if TYPED.contains(&kind) || GENERIC.contains(&kind) => Treatment::Object,
        _ => Treatment::Unsupported,
    }
}

/// The word for a step's kind in errors, as upstream writes it.
pub fn noun(kind: &str) -> &'static str {
    match kind {
        "ClusterServiceVersion" => "csv",
        "Subscription" => "subscription",
        "BundleSecret" | "Secret" => "secret",
        "ClusterRole" => "clusterrole",
        "ClusterRoleBinding" => "clusterrolebinding",
        "Role" => "role",
        "RoleBinding" => "rolebinding",
        "ServiceAccount" => "service account:",
        "Service" => "service:",
        "ConfigMap" => "configmap:",
        "CustomResourceDefinition" => "customresourcedefinition",
        _ => "unstructured object",
    }
}

/// A step, as the plan's status holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep<'a> {
    /// The CSV for which it is there.
    pub resolving: &'a str,
    /// Kind, group, version and name of the object.
    pub kind: &'a str,
    /// Its group.
    pub group: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The namespace of the catalog that it comes from.
    pub catalog_namespace: &'a str,
    /// The manifest, or a reference.
    pub manifest: &'a str,
    /// Its status.
    pub status: &'a str,
}

impl<'a> PlannedStep<'a> {
    /// Reads a step of `status.plan`.
    pub fn of(step: &'a Value) -> Self {
        let (resource, text) = (&step["resource"], |value: &'a Value| value.as_str().unwrap_or_default());
        Self {
            resolving: text(&step["resolving"]),
            kind: text(&resource["kind"]),
            group: text(&resource["group"]),
            version: text(&resource["version"]),
            name: text(&resource["name"]),
            catalog_namespace: text(&resource["sourceNamespace"]),
            manifest: text(&resource["manifest"]),
            status: text(&step["status"]),
        }
    }

    /// Returns whether there is nothing left to do.
    pub fn is_done(&self) -> bool {
        matches!(self.status, "Created" | "Present")
    }

    /// The group and version of the object. Of kinds with a treatment of their own only the kind's name counts (OLM0-BUNDLE-06): authors misspell
    /// the group, and other groups have kinds of these names.
    pub fn group_version(&self) -> (&str, &str) {
        match self.kind {
            "ClusterServiceVersion" | "Subscription" => ("operators.coreos.com", "v1alpha1"),
            "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
            "BundleSecret" | "Secret" | "ServiceAccount" | "Service" | "ConfigMap" => ("", "v1"),
            _ => (self.group, self.version),
        }
    }

    /// The kind of the object.
    pub fn object_kind(&self) -> &str {
        if self.kind == "BundleSecret" { "Secret" } else { self.kind }
    }

    /// The apiVersion of the object.
    pub fn api_version(&self) -> String {
        let (group, version) = self.group_version();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }
}

/// Why a step has no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepProblem {
    /// The manifest cannot be read.
    #[error("error parsing step manifest: {name}: {problem}")]
    Manifest {
        /// The object's name.
        name: String,
        /// The problem.
        problem: ObjectProblem,
    },
    /// The CSV that is to own the object does not exist yet.
    #[error("error generating ownerrefs for {noun} {name}: clusterserviceversion {csv} not found")]
    NoOwner {
        /// The noun for the object.
        noun: &'static str,
        /// The object's name.
        name: String,
        /// The CSV.
        csv: String,
    },
}

/// The surroundings in which a step is executed.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The plan's name.
    pub plan: &'a str,
    /// The plan's namespace.
    pub namespace: &'a str,
    /// The uid of the CSV that the step is for, if it exists.
    pub csv_uid: Option<&'a str>,
    /// True if objects of the kind live in namespaces.
    pub namespaced: bool,
}

/// The object that a step writes, from its manifest.
pub fn object(step: &PlannedStep<'_>, manifest: &str, scene: &Scene<'_>) -> Result<Value, StepProblem> {
    let unreadable = |problem| StepProblem::Manifest { name: step.name.to_owned(), problem };
    let mut object = match serde_json::from_str::<Value>(manifest) {
        Ok(object) if object.is_object() => object,
        _ => first_object(manifest).map_err(unreadable)?,
    };
    // Roles and accounts of a CSV carry neither.
    object["apiVersion"] = json!(step.api_version());
    object["kind"] = json!(step.object_kind());
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let metadata = &mut object["metadata"];
    if let Some(fields) = metadata.as_object_mut() {
        for field in ["creationTimestamp", "resourceVersion", "uid", "generation", "managedFields", "selfLink"] {
            fields.remove(field);
        }
    }
    if scene.namespaced {
        metadata["namespace"] = json!(scene.namespace);
    } else if let Some(fields) = metadata.as_object_mut() {
        fields.remove("namespace");
    }
    label(metadata, MANAGED_LABEL.0, MANAGED_LABEL.1);
    match treatment(step.kind) {
        Treatment::Csv | Treatment::Crd => {}
        Treatment::Subscription => {
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            metadata["annotations"][GENERATED_BY] = json!(scene.plan);
        }
        _ => owned(metadata, step, scene)?,
    }
    Ok(object)
}

/// Makes the CSV the owner: by reference in its namespace, by labels elsewhere.
fn owned(metadata: &mut Value, step: &PlannedStep<'_>, scene: &Scene<'_>) -> Result<(), StepProblem> {
    if step.resolving.is_empty() {
        return Ok(());
    }
    let owner = Owner { api_version: "operators.coreos.com/v1alpha1", name: step.resolving, namespace: scene.namespace, uid: "" };
    if !scene.namespaced {
        for (key, value) in owner.labels() {
            label(metadata, &key, value.as_str().unwrap_or_default());
        }
        return Ok(());
    }
    let Some(uid) = scene.csv_uid else {
        return Err(StepProblem::NoOwner { noun: noun(step.kind), name: step.name.to_owned(), csv: step.resolving.to_owned() });
    };
    let reference = Owner { uid, ..owner }.reference();
    let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    let others = references.into_iter().filter(|reference| reference["kind"] != "ClusterServiceVersion" && reference["uid"].is_string());
    let all: Vec<Value> = others.chain([reference]).collect();
    metadata["ownerReferences"] = json!(all);
    Ok(())
}

/// The object of a step as a merge patch of the live one, whose other owners stay.
pub fn over(wanted: &Value, live: &Value) -> Value {
    let mut patch = wanted.clone();
    let references = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut owners = references(wanted);
    let own = owners.clone();
    owners.extend(references(live).into_iter().filter(|reference| own.iter().all(|wanted| wanted["uid"] != reference["uid"])));
    if !owners.is_empty() {
        patch["metadata"]["ownerReferences"] = json!(owners);
    }
    patch
}

/// The copy of a catalog's Secret in the plan's namespace (OLM0-IP-14).
pub fn pull_secret(name: &str, namespace: &str, source: &Value) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_LABEL.0: MANAGED_LABEL.1}},
    });
    for field in ["type", "data"] {
        if !source[field].is_null() {
            secret[field] = source[field].clone();
        }
    }
    secret
}

fn label(metadata: &mut Value, key: &str, value: &str) {
    if !metadata["labels"].is_object() {
        metadata["labels"] = Value::Object(Map::new());
    }
    metadata["labels"][key] = json!(value);
}
