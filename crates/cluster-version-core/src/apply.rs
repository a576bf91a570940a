//! The merge of one manifest into the live object, by the rules of its kind (CVO-APPLY-01 to CVO-APPLY-10).
//!
//! ```text
//!   manifest ── owned ── inject ──┐
//!                                 ├── change ── None | Create | Update
//!   live object ──────────────────┘
//! ```
//!
//! Kinds that Kubernetes builds in are compared in the form in which Go's types write them, so that what a server fills in or leaves out
//! is no difference. A kind without rules of its own is replaced by its top-level fields.

mod generic;
mod metadata;
mod platform;
mod pod;
mod simple;
mod value;
mod workload;

use mainstay_kinds::Gvk;
use serde_json::{Map, Value, json};

use value::Merge;

/// The annotation of a manifest whose object is created and then left alone.
pub const CREATE_ONLY: &str = "release.openshift.io/create-only";
/// The API version of ClusterVersion.
const CONFIG_API_VERSION: &str = "config.openshift.io/v1";

/// The write that a manifest needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// None; the live object is as it should be.
    None,
    /// Create this object.
    Create(Value),
    /// Update to this object; it has the live object's resourceVersion.
    Update(Value),
}

/// Why a manifest cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The manifest names no object.
    #[error("invalid object: name cannot be empty")]
    NoName,
    /// A Job's pods are selected by the cluster alone.
    #[error("spec.selector is not supported in Job manifests")]
    JobSelector,
}

/// The rules by which an object is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Namespace,
    ServiceAccount,
    ConfigMap,
    Service,
    Role,
    ClusterRole,
    Binding,
    Deployment,
    DaemonSet,
    Job,
    CronJob,
    CustomResourceDefinition,
    ValidatingWebhook,
    SecurityContextConstraints,
    ImageStream,
    OperatorGroup,
    ClusterOperator,
    Generic,
}

impl Rules {
    fn of(api_version: &str, kind: &str) -> Self {
        match (api_version, kind) {
            ("v1", "Namespace") => Self::Namespace,
            ("v1", "ServiceAccount") => Self::ServiceAccount,
            ("v1", "ConfigMap") => Self::ConfigMap,
            ("v1", "Service") => Self::Service,
            ("rbac.authorization.k8s.io/v1", "Role") => Self::Role,
            ("rbac.authorization.k8s.io/v1", "ClusterRole") => Self::ClusterRole,
            ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => Self::Binding,
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => Self::CustomResourceDefinition,
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") => Self::ValidatingWebhook,
            ("security.openshift.io/v1", "SecurityContextConstraints") => Self::SecurityContextConstraints,
            ("image.openshift.io/v1", "ImageStream") => Self::ImageStream,
            ("operators.coreos.com/v1", "OperatorGroup") => Self::OperatorGroup,
            (CONFIG_API_VERSION, "ClusterOperator") => Self::ClusterOperator,
            _ => Self::Generic,
        }
    }
}

/// The write that brings `live`, if there is an object, to what the manifest wants.
///
/// # Errors
/// When the manifest can never be applied.
pub fn change(live: Option<&Value>, manifest: &Value) -> Result<Change, ApplyError> {
    let (api_version, kind) = (text(manifest, "apiVersion"), text(manifest, "kind"));
    if text(&manifest["metadata"], "name").is_empty() {
        return Err(ApplyError::NoName);
    }
    let rules = Rules::of(api_version, kind);
    if rules == Rules::Job && !manifest["spec"]["selector"].is_null() {
        return Err(ApplyError::JobSelector);
    }
    let gvk = Gvk::of(api_version, kind);
    let wanted = typed(rules, &gvk, manifest);
    let Some(live) = live else { return Ok(Change::Create(wanted)) };
    if is_create_only(manifest) {
        return Ok(Change::None);
    }
    if rules == Rules::Generic {
        return Ok(generic::change(live, &wanted));
    }
    let mut object = typed(rules, &gvk, live);
    let mut merge = Merge::default();
    match (&mut object, &wanted) {
        (Value::Object(live), Value::Object(wanted)) => merge_object(rules, &mut merge, live, wanted)?,
        _ => return Ok(Change::None),
    }
    Ok(if merge.modified { Change::Update(object) } else { Change::None })
}

/// Returns whether a write leaves another object in the cluster. Upstream writes without that in two cases, in each pass: fields that the server fills in
/// although the merge clears them, and generic kinds whose live object has a field that the manifest lacks.
pub fn is_change(live: &Value, written: &Value) -> bool {
    let rules = Rules::of(text(written, "apiVersion"), text(written, "kind"));
    let gvk = Gvk::of(text(written, "apiVersion"), text(written, "kind"));
    let mut stored = written.clone();
    mainstay_kinds::default(&gvk, &mut stored);
    typed(rules, &gvk, live) != typed(rules, &gvk, &stored)
}

/// The object as the client of its kind sends it: fields that Go's types always write are there, as definitions require some of them.
pub fn sent(mut object: Value) -> Value {
    let rules = Rules::of(text(&object, "apiVersion"), text(&object, "kind"));
    let always = match rules {
        Rules::ClusterOperator => json!({"spec": {}}),
        Rules::SecurityContextConstraints => platform::always_sent(),
        _ => return object,
    };
    if let (Value::Object(object), Value::Object(always)) = (&mut object, always) {
        for (field, value) in always {
            object.entry(field).or_insert(value);
        }
    }
    object
}

fn merge_object(rules: Rules, merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) -> Result<(), ApplyError> {
    metadata::merge(merge, value::part(live, "metadata"), value::get_map(wanted, "metadata"));
    match rules {
        Rules::Namespace | Rules::ClusterOperator | Rules::Generic => {}
        Rules::ServiceAccount => merge.set(live, wanted, "automountServiceAccountToken"),
        Rules::ConfigMap => merge.entries(live, wanted, "data"),
        Rules::Service => simple::service(merge, live, wanted),
        Rules::Role => merge.set(live, wanted, "rules"),
        Rules::ClusterRole => simple::cluster_role(merge, live, wanted),
        Rules::Binding => simple::binding(merge, live, wanted),
        Rules::Deployment => workload::deployment(merge, live, wanted),
        Rules::DaemonSet => workload::daemon_set(merge, live, wanted),
        Rules::Job => workload::job(merge, live, wanted)?,
        Rules::CronJob => workload::cron_job(merge, live, wanted)?,
        Rules::CustomResourceDefinition => simple::definition(merge, live, wanted),
        Rules::ValidatingWebhook => simple::webhooks(merge, live, wanted),
        Rules::SecurityContextConstraints => platform::security_context_constraints(merge, live, wanted),
        Rules::ImageStream => platform::image_stream(merge, live, wanted),
        Rules::OperatorGroup => platform::operator_group(merge, live, wanted),
    }
    Ok(())
}

/// An object as the client of its kind writes it.
fn typed(rules: Rules, gvk: &Gvk, object: &Value) -> Value {
    let mut object = object.clone();
    match rules {
        Rules::Generic => return object,
        // The only kind whose manifests are read with its defaults.
        Rules::CustomResourceDefinition => mainstay_schema::crd::fill(&mut object),
        Rules::SecurityContextConstraints | Rules::ImageStream | Rules::OperatorGroup | Rules::ClusterOperator => {}
        _ => mainstay_kinds::go_form(gvk, &mut object),
    }
    if rules == Rules::CustomResourceDefinition {
        mainstay_kinds::go_form(gvk, &mut object);
    }
    value::drop_nulls(&mut object);
    object
}

/// Returns whether a manifest's object is created and then left alone (CVO-APPLY-02).
pub fn is_create_only(manifest: &Value) -> bool {
    manifest["metadata"]["annotations"][CREATE_ONLY].as_str().is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The manifest with its owner: the ClusterVersion, unless it names others (CVO-APPLY-03).
pub fn owned(manifest: &Value, cluster_version: &ClusterVersionRef<'_>) -> Value {
    let mut owned = manifest.clone();
    let Some(metadata) = owned.get_mut("metadata").and_then(Value::as_object_mut) else { return owned };
    let others = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let others: Vec<Value> = others.filter(|owner| owner["kind"] != "ClusterVersion").cloned().collect();
    if !others.is_empty() {
        metadata.insert("ownerReferences".into(), others.into());
        return owned;
    }
    let mut owner = json!({
        "apiVersion": CONFIG_API_VERSION, "kind": "ClusterVersion", "name": cluster_version.name, "uid": cluster_version.uid,
    });
    // An object that is left alone has no controller.
    if metadata.get("annotations").is_none_or(|annotations| annotations[CREATE_ONLY] != "true") {
        owner["controller"] = true.into();
    }
    metadata.insert("ownerReferences".into(), json!([owner]));
    owned
}

/// The ClusterVersion as an owner.
#[derive(Clone, Copy, Debug)]
pub struct ClusterVersionRef<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// A ClusterOperator as it is created before its operator's other manifests, and the status that it gets when it was created
/// (CVO-APPLY-10).
pub fn precreated(manifest: &Value) -> (Value, Value) {
    let mut object = manifest.clone();
    let mut related = object["status"]["relatedObjects"].take();
    // Manifests name all objects of a resource by none; Go's type always writes a name.
    for one in related.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        one.entry("name").or_insert_with(|| "".into());
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let status = if related.is_null() { json!({}) } else { json!({"relatedObjects": related}) };
    (object, status)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the object's kind has rules of its own.
pub(crate) fn has_rules(object: &Value) -> bool {
    Rules::of(text(object, "apiVersion"), text(object, "kind")) != Rules::Generic
}
