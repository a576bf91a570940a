//! Strategies (KAPI-REST-01): what the server sets, keeps and resets in an object before it is validated and stored.
//!
//! `status` belongs to controllers, `spec` to users, `metadata.generation` to the server. Which kinds count generations, and what
//! counts as a change, stands in one table; what else a kind does is a function here.

mod devices;
mod gates;
mod pod;
mod service;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use pod::qos_class;
pub use service::{AllocationError, Allocator, allocate_service, released_by_service};

use crate::default::entry;
use crate::{Gvk, go_form, registry};

type Object = Map<String, Value>;

/// The user of a request, as CertificateSigningRequests record it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Requester {
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Map<String, Value>,
}

/// The circumstances of a request that strategies need to know.
#[derive(Clone, Debug)]
pub struct Context {
    /// The time of the request.
    pub now: Timestamp,
    /// The user who made the request.
    pub requester: Requester,
}

/// The changes that count as a new generation.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    /// The server does not count: what the creator said stays.
    Nothing,
    /// Only the first is set.
    First,
    /// A change of these fields.
    Fields(&'static [&'static str]),
    /// A change of `spec`; a new object has none.
    LaterSpec,
    /// A change of `spec` or of the annotations.
    SpecAndAnnotations,
    /// A change of anything but metadata, or of the labels.
    ContentAndLabels,
}

const SPEC: Counts = Counts::Fields(&["spec"]);

fn counts(gvk: &Gvk) -> Counts {
    match gvk.group_kind() {
        ("apps", "Deployment") => Counts::SpecAndAnnotations,
        ("apps", "DaemonSet" | "ReplicaSet" | "StatefulSet")
        | ("", "Pod" | "ReplicationController")
        | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("batch", "CronJob" | "Job")
        | ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("resource.k8s.io", "DeviceClass" | "ResourceSlice") => SPEC,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            Counts::Fields(&["webhooks"])
        }
        ("discovery.k8s.io", "EndpointSlice") => Counts::ContentAndLabels,
        ("scheduling.k8s.io", "PriorityClass") => Counts::First,
        ("storage.k8s.io", "CSIDriver") => Counts::LaterSpec,
        ("", "PodTemplate") => Counts::Fields(&["template"]),
        _ => Counts::Nothing,
    }
}

/// Returns true if `status` of that kind belongs to its own subresource.
fn has_status(gvk: &Gvk) -> bool {
    registry().resource_of_kind(gvk).is_some_and(|resource| resource.subresource("status").is_some())
}

/// Sets the fields that the server decides at creation. Name, namespace, uid and creationTimestamp must be set before: a Job's selector is made of
/// them.
pub fn prepare_create(gvk: &Gvk, object: &mut Value, context: &Context) {
    let Value::Object(map) = object else { return };
    let metadata = entry(map, "metadata");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    if !matches!(counts(gvk), Counts::Nothing | Counts::LaterSpec) {
        metadata.insert("generation".into(), json!(1));
    }
    if has_status(gvk) && gvk.kind != "Node" {
        map.insert("status".into(), json!({}));
    }
    gates::drop(gvk.group_kind(), map);
    match gvk.group_kind() {
        ("", "Pod") => pod::create(map),
        ("", "Namespace") => {
            let finalizers = entry(map, "spec").entry("finalizers").or_insert_with(|| json!([]));
            if let Value::Array(finalizers) = finalizers
                && !finalizers.contains(&json!("kubernetes"))
            {
                finalizers.push(json!("kubernetes"));
            }
            map.insert("status".into(), json!({"phase": "Active"}));
        }
        ("", "PersistentVolume") => {
            map.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": seconds(context.now)}));
        }
        ("", "PersistentVolumeClaim") => {
            map.insert("status".into(), json!({"phase": "Pending"}));
            same_data_source(map, None);
        }
        ("", "Node") => {
            entry(map, "spec").remove("configSource");
            entry(map, "status").remove("config");
        }
        ("", "LimitRange") => {
            // The one kind that names itself.
            let metadata = entry(map, "metadata");
            if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty)
                && let Some(uid) = metadata.get("uid").cloned()
            {
                metadata.insert("name".into(), uid);
            }
        }
        ("", "Service") => service::create(map),
        ("", "ServiceAccount") => only_names_of_secrets(map),
        ("apps", "DaemonSet") => {
            entry(entry(map, "metadata"), "annotations").insert(TEMPLATE_GENERATION.into(), json!("1"));
        }
        ("batch", "Job") => job_selector(map),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let stored = stored_version(map);
            map.insert("status".into(), json!({"storedVersions": stored}));
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            let spec = entry(map, "spec");
            let who = &context.requester;
            spec.insert("username".into(), json!(who.username));
            spec.insert("uid".into(), json!(who.uid));
            spec.insert("groups".into(), json!(who.groups));
            spec.insert("extra".into(), Value::Object(who.extra.clone()));
        }
        _ => {}
    }
    go_form(gvk, object);
}

/// Keeps the fields that an update may not touch, and counts the generation. `subresource` is that of the request: `status`, `finalize`,
/// `approval`, ... or none.
pub fn prepare_update(gvk: &Gvk, new: &mut Value, old: &Value, subresource: Option<&str>, context: &Context) {
    let (Value::Object(new_map), Value::Object(old_map)) = (&mut *new, old) else { return };
    let generation = old_map.get("metadata").and_then(|metadata| metadata.get("generation")).cloned();
    put(entry(new_map, "metadata"), "generation", generation.clone());
    match subresource {
        Some("status") => keep_all_but_status(gvk, new_map, old_map),
        Some("approval") => {
            // Approving touches the conditions, and nothing else of the status.
            let conditions = new_map.get("status").and_then(|status| status.get("conditions")).cloned();
            put(new_map, "spec", old_map.get("spec").cloned());
            put(new_map, "status", old_map.get("status").cloned());
            put(entry(new_map, "status"), "conditions", conditions);
            stamp_conditions(new_map, old_map, context);
        }
        Some("finalize") => {
            put(new_map, "status", old_map.get("status").cloned());
        }
        Some(subresource @ ("resize" | "ephemeralcontainers")) if gvk.group_kind() == ("", "Pod") => {
            pod::through_subresource(new_map, old_map, subresource);
        }
        Some(_) => {}
        None => {
            gates::drop(gvk.group_kind(), new_map);
            if has_status(gvk) {
                put(new_map, "status", old_map.get("status").cloned());
            }
            update_main(gvk, new_map, old_map);
        }
    }
    match (gvk.group_kind(), subresource) {
        (("", "PersistentVolume"), Some("status")) => {
            let phase = |map: &Object| map.get("status").and_then(|status| status.get("phase")).cloned();
            let time = |map: &Object| {
                map.get("status").and_then(|status| status.get("lastPhaseTransitionTime")).filter(|time| !time.is_null()).cloned()
            };
            // A time of the change that the client sets is kept.
            if phase(new_map) != phase(old_map) && time(new_map).is_none_or(|now| Some(now) == time(old_map)) {
                entry(new_map, "status").insert("lastPhaseTransitionTime".into(), json!(seconds(context.now)));
            }
        }
        (("apps", "DaemonSet"), Some("status")) => {
            let count = template_generation(old_map).to_string();
            entry(entry(new_map, "metadata"), "annotations").insert(TEMPLATE_GENERATION.into(), json!(count));
        }
        (("certificates.k8s.io", _), Some("status")) => {
            keep_decisions(new_map, old_map);
            stamp_conditions(new_map, old_map, context);
        }
        (("resource.k8s.io", "ResourceClaim"), Some("status")) => devices::status(new_map, old_map),
        (("", "Namespace"), _) => {
            let name = new_map.get("metadata").and_then(|metadata| metadata.get("name")).cloned();
            put(entry(entry(new_map, "metadata"), "labels"), "kubernetes.io/metadata.name", name);
        }
        _ => {}
    }
    if subresource != Some("status") && has_changed(counts(gvk), new_map, old_map) {
        let generation = generation.as_ref().and_then(Value::as_i64).unwrap_or_default();
        entry(new_map, "metadata").insert("generation".into(), json!(generation + 1));
    }
    go_form(gvk, new);
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(map: &Object) -> i64 {
    map.get("metadata")
        .and_then(|metadata| metadata.pointer("/annotations/deprecated.daemonset.template.generation"))
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn update_main(gvk: &Gvk, new: &mut Object, old: &Object) {
    match gvk.group_kind() {
        ("", "Namespace") => {
            let finalizers = old.get("spec").and_then(|spec| spec.get("finalizers")).cloned();
            put(entry(new, "spec"), "finalizers", finalizers);
        }
        ("", "Pod") => pod::update(new),
        ("", "Service") => service::update(new, old),
        ("", "ServiceAccount") => only_names_of_secrets(new),
        ("", "PersistentVolumeClaim") => same_data_source(new, Some(old)),
        ("", "Node") if old.get("spec").is_none_or(|spec| spec.get("configSource").is_none()) => {
            entry(new, "spec").remove("configSource");
        }
        ("", "Secret") => {
            // A type that is not said stays.
            if let Some(kind) = old.get("type") {
                new.entry("type").or_insert(kind.clone());
            }
        }
        ("apps", "DaemonSet") => {
            let template = |map: &Object| map.get("spec").and_then(|spec| spec.get("template")).cloned();
            let next = template_generation(old) + i64::from(template(new) != template(old));
            entry(entry(new, "metadata"), "annotations").insert(TEMPLATE_GENERATION.into(), json!(next.to_string()));
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => put(new, "spec", old.get("spec").cloned()),
        _ => {}
    }
}

fn keep_all_but_status(gvk: &Gvk, new: &mut Object, old: &Object) {
    let status = new.remove("status");
    let metadata = new.remove("metadata");
    let (kind, version) = (new.remove("kind"), new.remove("apiVersion"));
    new.clone_from(old);
    put(new, "status", status);
    put(new, "metadata", metadata);
    new.extend(kind.map(|kind| ("kind".to_owned(), kind)));
    new.extend(version.map(|version| ("apiVersion".to_owned(), version)));

    // Most kinds let a status request change labels and annotations on the way; these do not.
    let kept: &[&str] = match gvk.group_kind() {
        ("", "Pod") => &["ownerReferences"],
        ("apps", "Deployment") => &["labels"],
        ("apiregistration.k8s.io", _) => &["labels", "annotations", "finalizers", "ownerReferences"],
        ("flowcontrol.apiserver.k8s.io", _)
        | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
        | ("networking.k8s.io", "ServiceCIDR")
        | ("resource.k8s.io", "ResourceClaim")
        | ("storage.k8s.io", "VolumeAttachment") => {
            &["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"]
        }
        _ => &[],
    };
    for field in kept {
        let value = old.get("metadata").and_then(|metadata| metadata.get(*field)).cloned();
        put(entry(new, "metadata"), field, value);
    }
    match gvk.group_kind() {
        ("", "Pod") => pod::status(new, old),
        ("", "Node") => drop(entry(new, "status").remove("config")),
        ("storage.k8s.io", "VolumeAttachment") => gates::errors_of_attachments(new),
        // DeploymentReplicaSetTerminatingReplicas
        ("apps", "Deployment" | "ReplicaSet") => drop(entry(new, "status").remove("terminatingReplicas")),
        _ => {}
    }
}

fn has_changed(counts: Counts, new: &Object, old: &Object) -> bool {
    let metadata = |map: &Object, field: &str| map.get("metadata").and_then(|metadata| metadata.get(field)).cloned().unwrap_or(json!({}));
    match counts {
        Counts::Nothing | Counts::First => false,
        Counts::LaterSpec => new.get("spec") != old.get("spec"),
        Counts::Fields(fields) => fields.iter().any(|field| new.get(*field) != old.get(*field)),
        Counts::SpecAndAnnotations => new.get("spec") != old.get("spec") || metadata(new, "annotations") != metadata(old, "annotations"),
        Counts::ContentAndLabels => {
            let content = |map: &Object| {
                let mut map = map.clone();
                map.remove("metadata");
                map
            };
            content(new) != content(old) || metadata(new, "labels") != metadata(old, "labels")
        }
    }
}

/// A write of `status` neither gives nor changes a decision: conditions Approved and Denied stay as they were, unless their number changes,
/// which validation refuses.
fn keep_decisions(new: &mut Object, old: &Object) {
    for decision in ["Approved", "Denied"] {
        let is_decision = |condition: &&Value| condition.get("type").is_some_and(|kind| kind == decision);
        let before = old.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array).into_iter().flatten();
        let before: Vec<&Value> = before.filter(is_decision).collect();
        let Some(Value::Array(conditions)) = entry(new, "status").get_mut("conditions") else { return };
        if conditions.iter().filter(is_decision).count() == before.len() {
            let places = conditions.iter_mut().filter(|condition| condition.get("type").is_some_and(|kind| kind == decision));
            places.zip(before).for_each(|(place, before)| place.clone_from(before));
        }
    }
}

/// Conditions of a CertificateSigningRequest carry the times at which they were set.
fn stamp_conditions(new: &mut Object, old: &Object, context: &Context) {
    let before = old.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Array(conditions)) = entry(new, "status").get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        let now = seconds(context.now);
        if condition.get("lastUpdateTime").is_none_or(Value::is_null) {
            condition.insert("lastUpdateTime".into(), json!(now));
        }
        if condition.get("lastTransitionTime").is_none_or(Value::is_null) {
            let same =
                before.iter().find(|known| known.get("type") == condition.get("type") && known.get("status") == condition.get("status"));
            let since = same.and_then(|known| known.get("lastTransitionTime")).filter(|time| !time.is_null()).cloned();
            condition.insert("lastTransitionTime".into(), since.unwrap_or(json!(now)));
        }
    }
}

fn only_names_of_secrets(map: &mut Object) {
    if let Some(Value::Array(secrets)) = map.get_mut("secrets") {
        for secret in secrets {
            *secret = json!({"name": secret.get("name").and_then(Value::as_str).unwrap_or_default()});
        }
    }
}

/// A claim's source stands in two fields. The older one only knows some kinds: others in it have always been dropped.
fn same_data_source(map: &mut Object, old: Option<&Object>) {
    let source = |spec: &Object, field: &str| spec.get(field).filter(|source| !source.is_null()).cloned();
    let known = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let has_known = known.is_some_and(|spec| ["dataSource", "dataSourceRef"].iter().any(|field| source(spec, field).is_some()));
    let spec = entry(map, "spec");
    // Sources in other namespaces stand behind a gate that is off.
    let namespaced = |source: &Value| source.get("namespace").and_then(Value::as_str).is_some_and(|namespace| !namespace.is_empty());
    if known.is_none_or(|spec| source(spec, "dataSourceRef").is_none())
        && source(spec, "dataSourceRef").is_some_and(|newer| namespaced(&newer))
    {
        spec.remove("dataSourceRef");
    }
    let newer = source(spec, "dataSourceRef");
    if let Some(older) = source(spec, "dataSource").filter(|_| !has_known && newer.is_none()) {
        let text = |field: &str| older.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!((text("apiGroup"), text("kind")), ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")) {
            spec.remove("dataSource");
        }
    }
    match (source(spec, "dataSource"), newer) {
        (Some(older), None) => {
            spec.insert("dataSourceRef".into(), older);
        }
        (None, Some(newer)) if !namespaced(&newer) => {
            spec.insert("dataSource".into(), newer);
        }
        _ => {}
    }
}

fn job_selector(map: &mut Object) {
    let metadata = entry(map, "metadata");
    let text = |map: &Object, key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (uid, name) = (text(metadata, "uid"), text(metadata, "name"));
    let spec = entry(map, "spec");
    if spec.get("manualSelector") == Some(&json!(true)) {
        return;
    }
    let labels = entry(entry(entry(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        labels.entry(key).or_insert(json!(value));
    }
    let labels = labels.clone();
    entry(entry(spec, "selector"), "matchLabels").entry("batch.kubernetes.io/controller-uid").or_insert(json!(uid));
    // A Job without labels has those of its template for every reader.
    let own = entry(entry(map, "metadata"), "labels");
    if own.is_empty() {
        *own = labels;
    }
}

fn stored_version(map: &Object) -> Vec<Value> {
    let versions = map.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter(|version| version.get("storage") == Some(&json!(true)))
        .filter_map(|version| version.get("name").cloned())
        .take(1)
        .collect()
}

/// A time as `metav1.Time` writes it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Sets a field, or removes it if there is no value.
fn put(map: &mut Object, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    pub(crate) fn context() -> Context {
        Context { now: Timestamp::UNIX_EPOCH, requester: Requester::default() }
    }

    /// KAPI-REST-01: the generation counts changes of the spec, and only those.
    #[test]
    fn generation_counts_spec_changes() {
        let gvk = Gvk::new("policy", "v1", "PodDisruptionBudget");
        let mut old = json!({"metadata": {"name": "a", "generation": 9}, "spec": {"minAvailable": 1}, "status": {"currentHealthy": 3}});
        prepare_create(&gvk, &mut old, &context());
        assert_eq!((&old["metadata"]["generation"], &old["status"]["currentHealthy"]), (&json!(1), &json!(0)));

        let mut labelled = old.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        prepare_update(&gvk, &mut labelled, &old, None, &context());
        assert_eq!(labelled["metadata"]["generation"], 1);

        let mut changed = old.clone();
        changed["spec"]["minAvailable"] = json!(2);
        changed["status"]["currentHealthy"] = json!(7);
        prepare_update(&gvk, &mut changed, &old, None, &context());
        assert_eq!((&changed["metadata"]["generation"], &changed["status"]["currentHealthy"]), (&json!(2), &json!(0)));

        let mut status = changed.clone();
        status["spec"]["minAvailable"] = json!(3);
        status["status"]["currentHealthy"] = json!(7);
        prepare_update(&gvk, &mut status, &changed, Some("status"), &context());
        assert_eq!(status["spec"]["minAvailable"], 2);
        assert_eq!((&status["metadata"]["generation"], &status["status"]["currentHealthy"]), (&json!(2), &json!(7)));
    }

    /// KAPI-REST-01: kinds that do not count keep what their creator said.
    #[test]
    fn generation_of_a_config_map_is_its_creators() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let mut old = json!({"metadata": {"name": "a", "generation": 7}});
        prepare_create(&gvk, &mut old, &context());
        let mut new = json!({"metadata": {"name": "a", "generation": 9}, "data": {"a": "b"}});
        prepare_update(&gvk, &mut new, &old, None, &context());
        assert_eq!(new["metadata"]["generation"], 7);
    }
}
