//! Validation (KAPI-REST-04, KAPI-REST-07, KAPI-REST-08) of built-in kinds, with the findings of Kubernetes in its order and words.
//!
//! Objects come in the form that [`crate::default`] and the strategies leave. CustomResourceDefinitions are checked by `mainstay-schema`.
//! Kinds without rules of their own here are named by [`known_gaps`].

mod addresses;
mod admission;
mod batch;
mod container;
mod csi;
mod devices;
mod events;
mod expressions;
mod fields;
mod flow_control;
mod internal;
mod job_policy;
mod job_status;
mod labels;
mod limits;
mod meta;
mod misc;
pub(crate) mod names;
mod network;
mod node;
mod persistent_volumes;
mod pod;
mod pod_annotations;
mod pod_spec;
mod pod_status;
mod policy;
mod projections;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod service;
mod status;
mod storage;
mod unified;
mod volume_plugins;
mod volumes;
mod workloads;

use mainstay_schema::field::Error;
use serde_json::Value;

pub use devices::{admin_access, refuse_admin_access};
pub(crate) use fields::{Errors, all_invalid, flag, has, int, list, map, not_negative, one_of, one_of_if_set, text, texts};
pub use meta::{validate_metadata, validate_metadata_update};
pub use names::label_1035;
pub(crate) use pod_annotations::APP_ARMOR;

use crate::{Gvk, registry};

/// Findings about a new object.
pub fn validate_create(gvk: &Gvk, object: &Value) -> Vec<Error> {
    // Reviews are answered, not stored: they need no name.
    let stored = registry().resource_of_kind(gvk).is_some_and(crate::Resource::is_stored);
    if !stored {
        return kind(gvk, object);
    }
    let mut errors = first(gvk, object, None);
    if !errors.is_empty() {
        return errors;
    }
    // Events look at their metadata among other things; they and budgets leave it to the registry.
    if gvk.kind != "Event" && gvk.kind != "PodDisruptionBudget" {
        errors.extend(meta::create(gvk, object));
    }
    errors.extend(kind(gvk, object));
    if errors.is_empty() { meta::create_in_registry(gvk, object) } else { errors }
}

/// The findings about an object, with the values that it was given: findings show empty lists and maps, of which the stored form has none. Nothing
/// else is found of them.
pub fn as_given(object: &Value, given: Option<&Value>, validate: impl Fn(&Value) -> Vec<Error>) -> Vec<Error> {
    let errors = validate(object);
    let Some(given) = given.filter(|_| !errors.is_empty()) else { return errors };
    let shown = validate(&crate::with_empties(object, given));
    // A change that is refused as a whole shows what differs, which may be more.
    let same = |(one, other): (&Error, &Error)| one.field == other.field && one.kind == other.kind;
    if errors.len() == shown.len() && errors.iter().zip(&shown).all(same) { shown } else { errors }
}

/// Findings about a changed object. `subresource` is that of the request.
pub fn validate_update(gvk: &Gvk, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<Error> {
    let early = if subresource.is_none() { first(gvk, new, Some(old)) } else { Vec::new() };
    if !early.is_empty() {
        return early;
    }
    let mut errors = meta::of_registry(gvk, new, old);
    match subresource {
        None => {
            for look in looks(gvk) {
                errors.extend(match look {
                    Look::Metadata => meta::update_of_kind(gvk, new, old),
                    Look::Whole => meta::create(gvk, new),
                    Look::Kind => kind_again(gvk, new, old),
                    Look::Change => change(gvk, new, old),
                });
            }
        }
        Some(subresource) => {
            errors.extend(meta::update_of_kind(gvk, new, old));
            errors.extend(match (gvk.group_kind(), subresource) {
                (_, "status") => status(gvk, new, old),
                (_, "approval") => misc::certificate_approval(new),
                (("", "Pod"), "resize") => pod::resize(new, old),
                (("", "Pod"), "ephemeralcontainers") => pod::ephemeral_containers(new, old),
                _ => Vec::new(),
            });
        }
    }
    errors
}

/// Findings that refuse an object before the rest is looked at.
fn first(gvk: &Gvk, object: &Value, old: Option<&Value>) -> Errors {
    match gvk.group_kind() {
        ("", "Service") => service::families(object, old),
        _ => Vec::new(),
    }
}

/// One thing that a kind looks at when it is changed. Kinds look in different orders and at some things more than once, and clients see all of it.
#[derive(Clone, Copy)]
enum Look {
    /// The change of the metadata.
    Metadata,
    /// The metadata as that of a new object.
    Whole,
    /// The rules of the kind.
    Kind,
    /// The fields that may not change.
    Change,
}

fn looks(gvk: &Gvk) -> &'static [Look] {
    use Look::{Change, Kind, Metadata, Whole};
    match gvk.group_kind() {
        ("policy", "PodDisruptionBudget") | ("", "Event") => &[Kind],
        ("", "Pod" | "PersistentVolumeClaim") | ("apps", "ControllerRevision") => &[Metadata, Whole, Kind, Change],
        ("", "LimitRange") => &[Whole, Kind],
        ("events.k8s.io", "Event") => &[Kind, Metadata, Change],
        ("", "ReplicationController") | ("networking.k8s.io", "NetworkPolicy") => &[Metadata, Kind],
        ("", "PersistentVolume") => &[Whole, Kind, Whole, Kind, Change],
        ("apps", "DaemonSet") => &[Metadata, Change, Kind],
        ("storage.k8s.io", "CSINode" | "VolumeAttachment") => &[Whole, Kind, Change],
        ("", "ConfigMap" | "Secret" | "ServiceAccount" | "Endpoints" | "Namespace")
        | ("apiregistration.k8s.io", _)
        | ("storage.k8s.io", "VolumeAttributesClass")
        | ("networking.k8s.io", "Ingress" | "IngressClass") => &[Metadata, Change, Whole, Kind],
        ("resource.k8s.io", "ResourceClaim") => &[Whole, Metadata, Change],
        ("resource.k8s.io", "DeviceClass") => &[Whole, Metadata, Kind],
        ("storage.k8s.io", "CSIStorageCapacity" | "StorageClass")
        | ("certificates.k8s.io" | "node.k8s.io" | "rbac.authorization.k8s.io", _)
        | ("networking.k8s.io", "IPAddress")
        | ("resource.k8s.io", "ResourceClaimTemplate")
        | ("batch", "Job")
        | ("", "Node") => &[Whole, Kind, Metadata, Change],
        _ => &[Metadata, Kind, Change],
    }
}

fn kind(gvk: &Gvk, object: &Value) -> Errors {
    rules(gvk).map(|rules| rules(gvk, object)).unwrap_or_default()
}

type Rules = fn(&Gvk, &Value) -> Errors;

/// The rules of a kind; `None` if there are none.
fn rules(gvk: &Gvk) -> Option<Rules> {
    Some(match gvk.group_kind() {
        ("", "Pod") => |_, object| pod::create(object),
        ("", "PodTemplate") => |_, object| workloads::pod_template(object),
        ("", "ReplicationController") => |_, object| workloads::replication_controller(object),
        ("", "Service") => |_, object| service::service(object),
        ("", "ConfigMap") => |_, object| misc::config_map(object),
        ("", "Secret") => |_, object| misc::secret(object),
        ("", "Endpoints") => |_, object| network::endpoints(object),
        ("", "LimitRange") => |_, object| limits::limit_range(object),
        ("", "ResourceQuota") => |_, object| limits::resource_quota(object),
        ("", "PersistentVolume") => |_, object| persistent_volumes::volume(object),
        ("", "PersistentVolumeClaim") => |_, object| storage::claim(object),
        ("", "Event") => |_, object| events::event(object),
        ("", "Namespace") => |_, object| misc::namespace(object),
        ("apps", "ControllerRevision") => |_, object| misc::controller_revision(object),
        ("", "Node") => |_, object| node::node(object),
        ("apps", "Deployment") => |_, object| workloads::deployment(object),
        ("apps", "ReplicaSet") => |_, object| workloads::replica_set(object),
        ("apps", "DaemonSet") => |_, object| workloads::daemon_set(object),
        ("apps", "StatefulSet") => |_, object| workloads::stateful_set(object),
        ("batch", "Job") => |_, object| batch::job(object),
        ("batch", "CronJob") => |_, object| batch::cron_job(object),
        ("autoscaling", _) => policy::autoscaler,
        ("policy", "PodDisruptionBudget") => |_, object| policy::disruption_budget(object),
        ("networking.k8s.io", "NetworkPolicy") => |_, object| network::network_policy(object),
        ("networking.k8s.io", "Ingress") => |_, object| network::ingress(object),
        ("networking.k8s.io", "IngressClass") => |_, object| network::ingress_class(object),
        ("discovery.k8s.io", "EndpointSlice") => |_, object| network::endpoint_slice(object),
        ("rbac.authorization.k8s.io", _) => |gvk, object| rbac::rbac(&gvk.kind, object),
        ("coordination.k8s.io", "Lease") => |_, object| misc::lease(object),
        ("scheduling.k8s.io", "PriorityClass") => |_, object| misc::priority_class(object),
        ("storage.k8s.io", "StorageClass") => |_, object| storage::class(object),
        ("storage.k8s.io", "VolumeAttributesClass") => |_, object| csi::attributes_class(object),
        ("storage.k8s.io", "CSIDriver") => |_, object| csi::driver(object),
        ("storage.k8s.io", "CSINode") => |_, object| csi::node(object),
        ("storage.k8s.io", "CSIStorageCapacity") => |_, object| csi::capacity(object),
        ("storage.k8s.io", "VolumeAttachment") => |_, object| csi::attachment(object),
        ("events.k8s.io", "Event") => events::new_event,
        ("apiregistration.k8s.io", "APIService") => |_, object| misc::api_service(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => |_, object| misc::certificate_request(object),
        ("resource.k8s.io", "DeviceClass") => |_, object| devices::class(object),
        ("resource.k8s.io", "ResourceClaim") => |_, object| devices::claim(object),
        ("resource.k8s.io", "ResourceClaimTemplate") => |_, object| devices::template(object),
        ("resource.k8s.io", "ResourceSlice") => |_, object| devices::slice(object),
        ("node.k8s.io", "RuntimeClass") => |_, object| misc::runtime_class(object),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => |_, object| flow_control::flow_schema(object),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => |_, object| flow_control::priority_level(object),
        ("networking.k8s.io", "IPAddress") => |_, object| addresses::ip_address(object),
        ("networking.k8s.io", "ServiceCIDR") => |_, object| addresses::service_cidr(object),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => admission::webhooks,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => |_, object| admission::policy(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => |_, object| admission::binding(object),
        ("authentication.k8s.io", "TokenRequest") => |_, object| misc::token_request(object),
        ("authorization.k8s.io", _) => |gvk, object| misc::access_review(&gvk.kind, object),
        _ => return None,
    })
}

/// The rules of a kind for a changed object.
fn kind_again(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    match gvk.group_kind() {
        ("", "Pod") => pod::update(new, old),
        ("", "Service") => service::update(new, old),
        ("", "PersistentVolumeClaim") => storage::claim_again(new, old),
        ("batch", "Job") => batch::job_again(new, old),
        ("batch", "CronJob") => batch::cron_job_again(new, old),
        ("apps", "ControllerRevision") => misc::revision(new),
        ("apps", "StatefulSet") => workloads::stateful_set_again(new, old),
        ("events.k8s.io", "Event") => events::reported(new),
        ("resource.k8s.io", "DeviceClass") => devices::class_again(new, old),
        ("resource.k8s.io", "ResourceSlice") => devices::slice_again(new, old),
        ("networking.k8s.io", "ServiceCIDR") | ("scheduling.k8s.io", "PriorityClass") => Vec::new(),
        // Addresses that are there stay under later rules.
        ("", "Endpoints") if new.get("subsets") == old.get("subsets") => Vec::new(),
        // So do those of this API's own slice, which may be local.
        ("discovery.k8s.io", "EndpointSlice") if ["addressType", "endpoints", "ports"].iter().all(|one| new.get(one) == old.get(one)) => {
            Vec::new()
        }
        _ => kind(gvk, new),
    }
}

/// Findings about fields that may not change.
fn change(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    match gvk.group_kind() {
        ("", "ConfigMap" | "Secret") => misc::immutable_data(new, old),
        ("batch", "Job") => batch::job_update(new, old),
        ("", "PersistentVolumeClaim") => storage::claim_update(new, old),
        ("", "PersistentVolume") => persistent_volumes::volume_update(new, old),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => workloads::selector_is_immutable(new, old),
        ("apps", "StatefulSet") => workloads::stateful_set_update(new, old),
        ("apps", "ControllerRevision") => misc::immutable(new, old, &["data"]),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => rbac::role_ref_is_immutable(new, old),
        ("scheduling.k8s.io", "PriorityClass") => misc::priority_class_update(new, old),
        ("storage.k8s.io", "StorageClass") => storage::class_update(new, old),
        ("", "Node") => node::update(new, old),
        ("storage.k8s.io", "VolumeAttributesClass") => csi::attributes_class_update(new, old),
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment_update(new, old),
        ("storage.k8s.io", "CSIDriver") => csi::driver_update(new, old),
        ("storage.k8s.io", "CSINode") => csi::node_update(new, old),
        ("storage.k8s.io", "CSIStorageCapacity") => csi::capacity_update(new, old),
        ("events.k8s.io", "Event") => events::new_event_update(new, old),
        ("", "ResourceQuota") => limits::resource_quota_update(new, old),
        ("networking.k8s.io", "IngressClass") => network::controller_is_immutable(new, old),
        ("networking.k8s.io", "IPAddress") => addresses::ip_address_update(new, old),
        ("networking.k8s.io", "ServiceCIDR") => addresses::service_cidr_update(new, old),
        ("discovery.k8s.io", "EndpointSlice") => misc::immutable(new, old, &["addressType"]),
        ("resource.k8s.io", "ResourceClaim") => devices::claim_update(new, old),
        ("resource.k8s.io", "ResourceClaimTemplate") => devices::template_update(new, old),
        ("node.k8s.io", "RuntimeClass") => misc::immutable(new, old, &["handler"]),
        _ => Vec::new(),
    }
}

fn status(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    match gvk.group_kind() {
        ("", "Pod") => pod_status::pod_status(new, old),
        ("", "Service") => status::service(new, old),
        ("", "Namespace") => misc::namespace_status(new),
        ("", "PersistentVolumeClaim") => status::claim(new),
        ("", "ResourceQuota") => status::quota(new),
        // A node's status is looked at with the whole node.
        ("", "Node") => change(gvk, new, old),
        // An attachment's with the whole attachment.
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment(new),
        ("policy", "PodDisruptionBudget") => status::budget(new),
        ("batch", "Job") => job_status::job_status(new, old),
        ("networking.k8s.io", "Ingress") => status::ingress_points(new, old, |_, _, _| {}),
        ("certificates.k8s.io", _) => misc::certificate_approval(new),
        ("resource.k8s.io", "ResourceClaim") => devices::claim_status(new, old),
        ("flowcontrol.apiserver.k8s.io", _) => flow_control::status(new),
        ("admissionregistration.k8s.io", _) => status::policy(new),
        group_kind => status::counters(group_kind, new, old).unwrap_or_default(),
    }
}

/// Kinds that are stored without having been looked at: none. What each kind's rules leave open is counted by the recorded answers that the tests of
/// this crate replay (KAPI-REST-08).
pub fn known_gaps() -> Vec<Gvk> {
    // Nothing to check beyond schema and metadata, checked by `mainstay-schema`, or made when it is asked for.
    const NOTHING_OF_ITS_OWN: &[(&str, &str)] =
        &[("apiextensions.k8s.io", "CustomResourceDefinition"), ("", "ServiceAccount"), ("", "ComponentStatus")];
    let stored = registry().resources().iter().filter(|resource| resource.is_stored()).map(crate::Resource::gvk);
    stored.filter(|gvk| rules(gvk).is_none() && !NOTHING_OF_ITS_OWN.contains(&gvk.group_kind())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-08: no kind is stored without rules.
    #[test]
    fn every_stored_kind_has_rules() {
        assert_eq!(known_gaps(), []);
    }
}
