//! Validation (KAPI-REST-04, KAPI-REST-07, KAPI-REST-08): what Kubernetes refuses of each built-in kind, in its order and words.
//!
//! Objects come in the form that [`crate::default`] and the strategies leave. CustomResourceDefinitions are checked by `mainstay-schema`. Kinds without rules of their own here are named by [`known_gaps`].

mod admission;
mod batch;
mod container;
mod csi;
mod expressions;
mod labels;
mod meta;
mod misc;
pub(crate) mod names;
mod network;
mod node;
mod pod;
mod pod_spec;
mod policy;
mod rbac;
mod resources;
mod scheduling;
mod service;
mod storage;
mod volumes;
mod workloads;

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value};

pub use meta::{validate_metadata, validate_metadata_update};

use crate::{Gvk, registry};

pub(crate) type Errors = Vec<Error>;

/// What is wrong with a new object.
pub fn validate_create(gvk: &Gvk, object: &Value) -> Vec<Error> {
    // Reviews are answered, not stored: they need no name.
    let stored = registry().resource_of_kind(gvk).is_some_and(crate::Resource::is_stored);
    let mut errors = if stored { meta::create(gvk, object) } else { Vec::new() };
    errors.extend(kind(gvk, object));
    errors
}

/// What is wrong with a changed object. `subresource` is that of the request.
pub fn validate_update(gvk: &Gvk, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<Error> {
    let mut errors = meta::update_of_kind(gvk, new, old, subresource);
    match subresource {
        Some("status") => errors.extend(status(gvk, new)),
        Some("approval") => errors.extend(misc::certificate_approval(new)),
        Some(_) => {}
        None => {
            errors.extend(of_update(gvk, new, old));
        }
    }
    errors
}

fn kind(gvk: &Gvk, object: &Value) -> Errors {
    match gvk.group_kind() {
        ("", "Pod") => pod::create(object),
        ("", "PodTemplate") => workloads::pod_template(object),
        ("", "ReplicationController") => workloads::replication_controller(object),
        ("", "Service") => service::service(object),
        ("", "ConfigMap") => misc::config_map(object),
        ("", "Secret") => misc::secret(object),
        ("", "Endpoints") => network::endpoints(object),
        ("", "LimitRange") => resources::limit_range(object),
        ("", "ResourceQuota") => resources::resource_quota(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("", "Event") => misc::event(object),
        ("", "Node") => node::node(object),
        ("apps", "Deployment") => workloads::deployment(object),
        ("apps", "ReplicaSet") => workloads::replica_set(object),
        ("apps", "DaemonSet") => workloads::daemon_set(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("batch", "Job") => batch::job(object),
        ("batch", "CronJob") => batch::cron_job(object),
        ("autoscaling", _) => policy::autoscaler(gvk, object),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(object),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object),
        ("networking.k8s.io", "Ingress") => network::ingress(object),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(object),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object),
        ("rbac.authorization.k8s.io", kind) => rbac::rbac(kind, object),
        ("coordination.k8s.io", "Lease") => misc::lease(object),
        ("scheduling.k8s.io", "PriorityClass") => misc::priority_class(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("storage.k8s.io", "VolumeAttributesClass") => csi::attributes_class(object),
        ("storage.k8s.io", "CSIDriver") => csi::driver(object),
        ("storage.k8s.io", "CSINode") => csi::node(object),
        ("storage.k8s.io", "CSIStorageCapacity") => csi::capacity(object),
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment(object),
        ("events.k8s.io", "Event") => misc::new_event(object),
        ("apiregistration.k8s.io", "APIService") => misc::api_service(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => misc::certificate_request(object),
        ("node.k8s.io", "RuntimeClass") => misc::runtime_class(object),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            admission::webhooks(gvk, object)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::policy(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => admission::binding(object),
        ("authentication.k8s.io", "TokenRequest") => misc::token_request(object),
        ("authorization.k8s.io", kind) => misc::access_review(kind, object),
        _ => Vec::new(),
    }
}

fn of_update(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    let mut errors = match gvk.group_kind() {
        ("", "Pod") => return pod::update(new, old),
        ("", "Service") => service::update(new, old),
        ("batch", "Job") => batch::job_update(new, old),
        _ => Vec::new(),
    };
    if gvk.group_kind() != ("", "Service") && gvk.group_kind() != ("batch", "Job") {
        errors.extend(kind(gvk, new));
    }
    match gvk.group_kind() {
        ("", "ConfigMap" | "Secret") => errors.extend(misc::immutable_data(new, old)),
        ("", "PersistentVolumeClaim") => errors.extend(storage::claim_update(new, old)),
        ("", "PersistentVolume") => errors.extend(storage::volume_update(new, old)),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => errors.extend(workloads::selector_is_immutable(new, old)),
        ("apps", "StatefulSet") => errors.extend(workloads::stateful_set_update(new, old)),
        ("apps", "ControllerRevision") => errors.extend(misc::immutable(new, old, &["data"])),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => errors.extend(rbac::role_ref_is_immutable(new, old)),
        ("scheduling.k8s.io", "PriorityClass") => errors.extend(misc::priority_class_update(new, old)),
        ("storage.k8s.io", "StorageClass") => errors.extend(storage::class_update(new, old)),
        ("", "Node") => errors.extend(node::update(new, old)),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            errors.extend(misc::immutable(new, old, &["driverName"]));
            errors.extend(misc::immutable(new, old, &["parameters"]));
        }
        ("storage.k8s.io", "VolumeAttachment") => errors.extend(misc::immutable(new, old, &["spec"])),
        ("networking.k8s.io", "IngressClass") => errors.extend(misc::immutable(new, old, &["spec", "controller"])),
        ("discovery.k8s.io", "EndpointSlice") => errors.extend(misc::immutable(new, old, &["addressType"])),
        ("node.k8s.io", "RuntimeClass") => errors.extend(misc::immutable(new, old, &["handler"])),
        _ => {}
    }
    errors
}

fn status(gvk: &Gvk, new: &Value) -> Errors {
    match gvk.group_kind() {
        ("", "Pod") => pod::status(new),
        ("", "Service") => service::status(new),
        ("apps" | "", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" | "ReplicationController") => workloads::status(new),
        ("certificates.k8s.io", _) => misc::certificate_approval(new),
        _ => Vec::new(),
    }
}

/// Kinds that are stored after checks of schema and metadata only: their own rules are not written yet (KAPI-REST-08).
pub fn known_gaps() -> Vec<Gvk> {
    const WRITTEN_ELSEWHERE: &[&str] = &["CustomResourceDefinition"];
    // Nothing to check beyond schema and metadata.
    const NOTHING_TO_CHECK: &[&str] = &["ServiceAccount", "ControllerRevision", "Namespace"];
    const MISSING: &[(&str, &str)] = &[
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "ServiceCIDR"),
    ];
    registry()
        .resources()
        .iter()
        .filter(|resource| resource.is_stored())
        .map(crate::Resource::gvk)
        .filter(|gvk| !WRITTEN_ELSEWHERE.contains(&gvk.kind.as_str()) && !NOTHING_TO_CHECK.contains(&gvk.kind.as_str()))
        .filter(|gvk| MISSING.contains(&gvk.group_kind()))
        .collect()
}

// How the rules look at objects: absent and empty are the same to most of them.

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    list(value, key).iter().filter_map(Value::as_str).collect()
}

pub(crate) fn int(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(crate) fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}

pub(crate) fn map<'a>(value: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// One finding for each text of a rule.
pub(crate) fn all_invalid(path: &Path, value: &str, messages: Vec<String>) -> Errors {
    messages.into_iter().map(|message| Error::invalid(path, value, message)).collect()
}

/// Refuses a negative whole number.
pub(crate) fn not_negative(object: &Value, key: &str, path: &Path) -> Errors {
    match int(object, key) {
        Some(value) if value < 0 => vec![Error::invalid(&path.child(key), value, "must be greater than or equal to 0")],
        _ => Vec::new(),
    }
}

/// Refuses a text outside a set; absent is required.
pub(crate) fn one_of(object: &Value, key: &str, path: &Path, supported: &[&str]) -> Errors {
    let value = text(object, key);
    if value.is_empty() {
        return vec![Error::required(&path.child(key), "")];
    }
    one_of_if_set(object, key, path, supported)
}

/// Refuses a text outside a set, where there is one.
pub(crate) fn one_of_if_set(object: &Value, key: &str, path: &Path, supported: &[&str]) -> Errors {
    let value = text(object, key);
    if !has(object, key) || supported.contains(&value) {
        Vec::new()
    } else {
        vec![Error::not_supported(&path.child(key), value, supported)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-08: kinds without rules of their own are named, not accepted silently.
    #[test]
    fn gaps_are_named() {
        let gaps = known_gaps();
        assert!(gaps.contains(&Gvk::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema")));
        assert!(!gaps.iter().any(|gvk| gvk.kind == "Deployment" || gvk.kind == "Service"));
    }
}
