//! The form in which Kubernetes' own types write an object.
//!
//! Kubernetes decodes a request into Go structs and writes those back: fields it does not know vanish, empty values of plain fields
//! vanish while those of pointers stay, embedded structs appear even when empty, times without a value appear as `null`, and quantities
//! come back as they are written there. OpenAPI says most of it (`default: {}` marks an embedded struct, `default: ""` a field that is always
//! written); the tables here say the rest.

use std::collections::HashSet;
use std::sync::LazyLock;

use mainstay_schema::{Additional, Schema, SchemaRef, Type};
use serde_json::{Map, Value, json};

use crate::quantity;
use crate::{Gvk, registry};

/// Brings an object of a built-in kind into the form in which Kubernetes writes it. Kinds that are not built in stay as they are.
pub fn go_form(gvk: &Gvk, object: &mut Value) {
    let Some(schema) = registry().schema(gvk) else { return };
    if let Value::Object(map) = object {
        let (kind, version) = (map.remove("kind"), map.remove("apiVersion"));
        structure(&schema, map);
        map.extend(kind.map(|kind| ("kind".to_owned(), kind)));
        map.extend(version.map(|version| ("apiVersion".to_owned(), version)));
    }
}

/// Returns true if there is an empty list or map somewhere in a value: Kubernetes keeps it for as long as a request lasts, and stores none.
pub fn has_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        Value::Object(map) => map.is_empty() || map.values().any(has_empty),
        _ => false,
    }
}

/// An object with the empty lists and maps that it was given and has lost, as findings show them.
pub fn with_empties(object: &Value, given: &Value) -> Value {
    match (object, given) {
        (Value::Object(map), Value::Object(given)) => {
            let lost = given.iter().filter(|(name, value)| is_empty(value) && map.get(*name).is_none_or(Value::is_null));
            let kept = map.iter().map(|(name, value)| {
                let given = given.get(name).filter(|_| !is_label_selector(name));
                (name.clone(), given.map_or_else(|| value.clone(), |given| with_empties(value, given)))
            });
            let mut all: serde_json::Map<String, Value> = kept.collect();
            all.extend(lost.map(|(name, value)| (name.clone(), value.clone())));
            Value::Object(all)
        }
        (Value::Array(items), Value::Array(given)) if items.len() == given.len() => {
            items.iter().zip(given).map(|(item, given)| with_empties(item, given)).collect()
        }
        _ => object.clone(),
    }
}

/// Returns true for fields with label selectors: their type is shown without what is empty.
fn is_label_selector(name: &str) -> bool {
    (name.ends_with("elector") || name.ends_with("electors") || name == "nodeTopology") && name != "scopeSelector"
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Brings an object that was admitted into the form in which it comes back from Kubernetes' storage: protobuf knows no empty list, so that those
/// that are always written are `null`. What is stored as JSON (CRDs, APIServices) stays.
pub fn stored_form(gvk: &Gvk, object: &mut Value) {
    if matches!(gvk.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        return;
    }
    if let Some(schema) = registry().schema(gvk) {
        without_empty_lists(&schema, object);
    }
}

fn without_empty_lists(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) if is_struct(schema) => {
            let name = short_name(schema.definition.as_deref().unwrap_or_default());
            for (field, child) in map {
                let Some(inner) = schema.properties.get(field) else { continue };
                if child.as_array().is_some_and(Vec::is_empty) && WRITTEN_NULL.contains(&(name, field)) {
                    *child = Value::Null;
                } else {
                    without_empty_lists(inner, child);
                }
            }
        }
        Value::Object(map) => {
            if let Additional::Schema(inner) = &schema.additional {
                for child in map.values_mut() {
                    without_empty_lists(inner, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                for item in items {
                    without_empty_lists(inner, item);
                }
            }
        }
        _ => {}
    }
}

/// The last two parts of a definition's name with its group: `core.v1.PodSpec`, `meta.v1.ObjectMeta`.
pub(crate) fn short_name(definition: &str) -> &str {
    definition
        .strip_prefix("io.k8s.api.")
        .or_else(|| definition.strip_prefix("io.k8s.apimachinery.pkg.apis."))
        .or_else(|| definition.strip_prefix("io.k8s.apiextensions-apiserver.pkg.apis."))
        .or_else(|| definition.strip_prefix("io.k8s.kube-aggregator.pkg.apis."))
        .unwrap_or(definition)
}

/// The meaning of a definition that is no struct.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Special {
    Quantity,
    Time,
    /// Holds any value.
    Opaque,
    None,
}

pub(crate) fn special(schema: &Schema) -> Special {
    match schema.definition.as_deref() {
        Some("io.k8s.apimachinery.pkg.api.resource.Quantity") => Special::Quantity,
        Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time" | "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime") => Special::Time,
        Some(name)
            if name.rsplit('.').next() == Some("JSON")
                || name.ends_with(".RawExtension")
                || name.ends_with(".FieldsV1")
                || name.ends_with(".IntOrString")
                || name.ends_with(".JSONSchemaPropsOrStringArray") =>
        {
            Special::Opaque
        }
        _ => Special::None,
    }
}

/// The schema of the objects inside `JSONSchemaPropsOrBool` and `JSONSchemaPropsOrArray`, which OpenAPI leaves untyped.
fn json_schema() -> Option<SchemaRef> {
    registry().definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
}

fn value(schema: &Schema, value: &mut Value) {
    match special(schema) {
        Special::Quantity => return quantity(value),
        Special::Time | Special::Opaque => return,
        Special::None => {}
    }
    if schema.definition.as_deref().is_some_and(|name| name.contains(".JSONSchemaPropsOr")) {
        if let Some(inner) = json_schema() {
            match value {
                Value::Object(map) => structure(&inner, map),
                Value::Array(items) => {
                    for item in items {
                        if let Value::Object(map) = item {
                            structure(&inner, map);
                        }
                    }
                }
                _ => {}
            }
        }
        return;
    }
    match value {
        Value::Object(map) if is_struct(schema) => structure(schema, map),
        Value::Object(map) => {
            if let Additional::Schema(inner) = &schema.additional {
                for child in map.values_mut() {
                    // A map of texts has no place for null.
                    if child.is_null() && inner.kind == Some(Type::String) && special(inner) == Special::None {
                        *child = json!("");
                    }
                    self::value(inner, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                for item in items {
                    self::value(inner, item);
                }
            }
        }
        _ => {}
    }
}

/// A struct of Kubernetes, as opposed to a map or to anything.
pub(crate) fn is_struct(schema: &Schema) -> bool {
    schema.definition.is_some() && schema.kind == Some(Type::Object) && special(schema) == Special::None && !schema.preserve_unknown_fields
}

/// Quantities may be given as numbers; those that cannot be read are left for validation to name.
fn quantity(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(written) = quantity::written(&text) {
        *value = json!(written);
    }
}

fn structure(schema: &Schema, map: &mut Map<String, Value>) {
    let name = short_name(schema.definition.as_deref().unwrap_or_default());
    map.retain(|key, _| schema.properties.contains_key(key));
    for (field, inner) in &schema.properties {
        let declared = inner.default.as_ref();
        match map.get_mut(field) {
            None | Some(Value::Null) => {
                let empty = match declared {
                    // An embedded struct is written with its own always-written fields.
                    Some(default) if default.as_object().is_some_and(Map::is_empty) => {
                        if special(inner) == Special::Quantity {
                            Some(json!("0"))
                        } else if special(inner) == Special::Time {
                            (field != "creationTimestamp").then_some(Value::Null)
                        } else {
                            let mut empty = Map::new();
                            structure(inner, &mut empty);
                            Some(Value::Object(empty))
                        }
                    }
                    Some(default) if is_zero(default) && !omitted(name, field) => Some(default.clone()),
                    _ if writes_null(name, field) => Some(Value::Null),
                    _ => None,
                };
                match empty {
                    Some(empty) => map.insert(field.clone(), empty),
                    None => map.remove(field),
                };
            }
            Some(child) => {
                value(inner, child);
                if is_zero(child)
                    && (omitted(name, field) || declared.is_none() && !schema.required.contains(field))
                    && !keeps_zero(name, field, inner)
                {
                    map.remove(field);
                }
            }
        }
    }
}

fn omitted(name: &str, field: &str) -> bool {
    REQUIRED_YET_OMITTED.contains(&(name, field))
}

pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Returns true if a field's empty value is written: pointers keep it, plain fields drop it.
fn keeps_zero(name: &str, field: &str, schema: &Schema) -> bool {
    match schema.kind {
        Some(Type::Boolean) => POINTER_BOOLEANS.contains(&field) || (field == "readOnly" && name == "core.v1.CSIVolumeSource"),
        Some(Type::Integer) => {
            POINTER_INTEGERS_OF.contains(&(name, field)) || !PLAIN_INTEGERS.contains(&field) && !PLAIN_INTEGERS_OF.contains(&(name, field))
        }
        Some(Type::String) => POINTER_STRINGS_SET.contains(&(name, field)),
        Some(Type::Array) => WRITTEN_NULL.contains(&(name, field)) || KEPT_EMPTY.contains(&(name, field)),
        // A pointer to a struct that is there stays, be it empty; an empty map goes. IntOrString and the like stay.
        Some(Type::Object) => is_struct(schema) || schema.preserve_unknown_fields,
        Some(Type::Number) | None => true,
    }
}

/// Lists without `omitempty`, and times that are no pointers.
fn writes_null(name: &str, field: &str) -> bool {
    WRITTEN_NULL.contains(&(name, field)) || (field == "lastTransitionTime" && name.ends_with("Condition") && name != "meta.v1.Condition")
}

const WRITTEN_NULL: &[(&str, &str)] = &[
    ("admissionregistration.v1.MutatingWebhook", "admissionReviewVersions"),
    ("admissionregistration.v1.ValidatingWebhook", "admissionReviewVersions"),
    ("apiextensions.v1.CustomResourceDefinitionSpec", "versions"),
    ("apiextensions.v1.CustomResourceDefinitionStatus", "conditions"),
    ("apiextensions.v1.CustomResourceDefinitionStatus", "storedVersions"),
    ("apiextensions.v1.WebhookConversion", "conversionReviewVersions"),
    ("apps.v1.DaemonSetSpec", "selector"),
    ("apps.v1.DeploymentCondition", "lastUpdateTime"),
    ("apps.v1.DeploymentSpec", "selector"),
    ("apps.v1.ReplicaSetSpec", "selector"),
    ("apps.v1.StatefulSetSpec", "selector"),
    ("authentication.v1.TokenRequestSpec", "audiences"),
    ("authentication.v1.TokenRequestStatus", "expirationTimestamp"),
    ("authorization.v1.NonResourceRule", "verbs"),
    ("authorization.v1.ResourceRule", "verbs"),
    ("authorization.v1.SubjectRulesReviewStatus", "nonResourceRules"),
    ("authorization.v1.SubjectRulesReviewStatus", "resourceRules"),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", "currentMetrics"),
    ("batch.v1.JobCondition", "lastProbeTime"),
    ("batch.v1.PodFailurePolicy", "rules"),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values"),
    ("batch.v1.SuccessPolicy", "rules"),
    ("certificates.v1.CertificateSigningRequestCondition", "lastUpdateTime"),
    ("certificates.v1.CertificateSigningRequestSpec", "request"),
    ("core.v1.AzureFilePersistentVolumeSource", "secretNamespace"),
    ("core.v1.CephFSPersistentVolumeSource", "monitors"),
    ("core.v1.CephFSVolumeSource", "monitors"),
    ("core.v1.ContainerImage", "names"),
    ("core.v1.ContainerStateRunning", "startedAt"),
    ("core.v1.ContainerStateTerminated", "finishedAt"),
    ("core.v1.ContainerStateTerminated", "startedAt"),
    ("core.v1.Event", "eventTime"),
    ("core.v1.Event", "firstTimestamp"),
    ("core.v1.Event", "lastTimestamp"),
    ("core.v1.EventSeries", "lastObservedTime"),
    ("core.v1.LimitRangeSpec", "limits"),
    ("core.v1.NodeCondition", "lastHeartbeatTime"),
    ("core.v1.NodeSelector", "nodeSelectorTerms"),
    ("core.v1.PersistentVolumeClaimCondition", "lastProbeTime"),
    ("core.v1.PodCondition", "lastProbeTime"),
    ("core.v1.PodExtendedResourceClaimStatus", "requestMappings"),
    ("core.v1.PodSpec", "containers"),
    ("core.v1.ProjectedVolumeSource", "sources"),
    ("core.v1.RBDPersistentVolumeSource", "monitors"),
    ("core.v1.RBDVolumeSource", "monitors"),
    ("core.v1.ScaleIOPersistentVolumeSource", "secretRef"),
    ("core.v1.ScaleIOVolumeSource", "secretRef"),
    ("core.v1.TopologySelectorLabelRequirement", "values"),
    ("core.v1.TypedLocalObjectReference", "apiGroup"),
    ("core.v1.TypedObjectReference", "apiGroup"),
    ("discovery.v1.Endpoint", "addresses"),
    ("discovery.v1.EndpointSlice", "endpoints"),
    ("discovery.v1.EndpointSlice", "ports"),
    ("events.v1.Event", "deprecatedFirstTimestamp"),
    ("events.v1.Event", "deprecatedLastTimestamp"),
    ("events.v1.Event", "eventTime"),
    ("events.v1.EventSeries", "lastObservedTime"),
    ("flowcontrol.v1.NonResourcePolicyRule", "nonResourceURLs"),
    ("flowcontrol.v1.NonResourcePolicyRule", "verbs"),
    ("flowcontrol.v1.PolicyRulesWithSubjects", "subjects"),
    ("flowcontrol.v1.ResourcePolicyRule", "apiGroups"),
    ("flowcontrol.v1.ResourcePolicyRule", "namespaces"),
    ("flowcontrol.v1.ResourcePolicyRule", "resources"),
    ("flowcontrol.v1.ResourcePolicyRule", "verbs"),
    ("meta.v1.Condition", "lastTransitionTime"),
    ("networking.v1.HTTPIngressRuleValue", "paths"),
    ("rbac.v1.ClusterRole", "rules"),
    ("rbac.v1.PolicyRule", "verbs"),
    ("rbac.v1.Role", "rules"),
    ("resource.v1.AllocatedDeviceStatus", "conditions"),
    ("resource.v1.CapacityRequestPolicy", "default"),
    ("resource.v1.DeviceClaim", "requests"),
    ("resource.v1.OpaqueDeviceConfiguration", "parameters"),
    ("storage.v1.CSINodeDriver", "topologyKeys"),
    ("storage.v1.CSINodeSpec", "drivers"),
    ("storage.v1.VolumeError", "time"),
];

/// Lists whose emptiness validation must see: they are refused, and so never written.
const KEPT_EMPTY: &[(&str, &str)] = &[("autoscaling.v2.HPAScalingRules", "policies"), ("networking.v1.ServiceCIDRSpec", "cidrs")];

/// Fields that are required or have a declared default, and yet are not written when empty.
const REQUIRED_YET_OMITTED: &[(&str, &str)] = &[
    ("admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "policyName"),
    ("authentication.v1.TokenReviewSpec", "token"),
    ("autoscaling.v1.ScaleSpec", "replicas"),
    ("core.v1.ConfigMapEnvSource", "name"),
    ("core.v1.ConfigMapKeySelector", "name"),
    ("core.v1.ConfigMapProjection", "name"),
    ("core.v1.ConfigMapVolumeSource", "name"),
    ("core.v1.ContainerPort", "protocol"),
    ("core.v1.ContainerRestartRule", "action"),
    ("core.v1.ContainerRestartRuleOnExitCodes", "operator"),
    ("core.v1.ISCSIPersistentVolumeSource", "iscsiInterface"),
    ("core.v1.ISCSIVolumeSource", "iscsiInterface"),
    ("core.v1.LocalObjectReference", "name"),
    ("core.v1.PodCertificateProjection", "keyType"),
    ("core.v1.PodCertificateProjection", "signerName"),
    ("core.v1.Probe", "timeoutSeconds"),
    ("core.v1.RBDPersistentVolumeSource", "keyring"),
    ("core.v1.RBDPersistentVolumeSource", "pool"),
    ("core.v1.RBDPersistentVolumeSource", "user"),
    ("core.v1.RBDVolumeSource", "keyring"),
    ("core.v1.RBDVolumeSource", "pool"),
    ("core.v1.RBDVolumeSource", "user"),
    ("core.v1.ReplicationControllerSpec", "minReadySeconds"),
    ("core.v1.ScaleIOPersistentVolumeSource", "fsType"),
    ("core.v1.ScaleIOPersistentVolumeSource", "storageMode"),
    ("core.v1.ScaleIOVolumeSource", "fsType"),
    ("core.v1.ScaleIOVolumeSource", "storageMode"),
    ("core.v1.SecretEnvSource", "name"),
    ("core.v1.SecretKeySelector", "name"),
    ("core.v1.SecretProjection", "name"),
    ("core.v1.ServicePort", "protocol"),
    ("networking.v1.ParentReference", "name"),
    ("networking.v1.ParentReference", "resource"),
    ("resource.v1.CounterSet", "counters"),
    ("resource.v1.DeviceCounterConsumption", "counters"),
    ("resource.v1.DeviceToleration", "operator"),
];

const POINTER_BOOLEANS: &[&str] = &[
    "adminAccess",
    "allNodes",
    "allocateLoadBalancerNodePorts",
    "allowMultipleAllocations",
    "allowPrivilegeEscalation",
    "allowVolumeExpansion",
    "attachRequired",
    "automountServiceAccountToken",
    "bindsToNode",
    "blockOwnerDeletion",
    "bool",
    "controller",
    "enableServiceLinks",
    "hostProcess",
    "hostUsers",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "immutable",
    "manualSelector",
    "optional",
    "optionalOldSelf",
    "orphanDependents",
    "perDeviceNodeSelection",
    "podInfoOnMount",
    "privileged",
    "readOnlyRootFilesystem",
    "ready",
    "recursiveReadOnlyMounts",
    "requiresRepublish",
    "runAsNonRoot",
    "seLinuxMount",
    "serving",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "started",
    "storageCapacity",
    "supplementalGroupsPolicy",
    "suspend",
    "terminating",
    "userNamespaces",
    "x-kubernetes-preserve-unknown-fields",
];

/// Integers that are no pointers; all others are.
const PLAIN_INTEGERS: &[&str] = &[
    "active",
    "availableReplicas",
    "code",
    "count",
    "currentReplicas",
    "deprecatedCount",
    "failed",
    "failureThreshold",
    "fullyLabeledReplicas",
    "generation",
    "healthCheckNodePort",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "nodePort",
    "number",
    "numberAvailable",
    "numberUnavailable",
    "observedGeneration",
    "periodSeconds",
    "readyReplicas",
    "retryAfterSeconds",
    "signal",
    "sizeBytes",
    "succeeded",
    "successThreshold",
    "unavailableReplicas",
    "updatedNumberScheduled",
    "updatedReplicas",
];

/// Plain integers whose names are pointers elsewhere.
const PLAIN_INTEGERS_OF: &[(&str, &str)] = &[
    ("apiextensions.v1.CustomResourceColumnDefinition", "priority"),
    ("apps.v1.DeploymentStatus", "replicas"),
    ("autoscaling.v1.ScaleSpec", "replicas"),
    ("core.v1.AWSElasticBlockStoreVolumeSource", "partition"),
    ("core.v1.GCEPersistentDiskVolumeSource", "partition"),
    ("core.v1.Probe", "timeoutSeconds"),
];

/// Pointers whose names are plain integers elsewhere.
const POINTER_INTEGERS_OF: &[(&str, &str)] = &[
    ("autoscaling.v1.HorizontalPodAutoscalerStatus", "observedGeneration"),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", "observedGeneration"),
    ("storage.v1.VolumeNodeResources", "count"),
];

static POINTER_STRINGS_SET: LazyLock<HashSet<(&'static str, &'static str)>> =
    LazyLock::new(|| POINTER_STRINGS.iter().flat_map(|(name, fields)| fields.split(' ').map(move |field| (*name, field))).collect());

const POINTER_STRINGS: &[(&str, &str)] = &[
    ("admissionregistration.v1.MatchResources", "matchPolicy"),
    ("admissionregistration.v1.MutatingWebhook", "failurePolicy matchPolicy reinvocationPolicy"),
    ("admissionregistration.v1.NamedRuleWithOperations", "scope"),
    ("admissionregistration.v1.ParamRef", "parameterNotFoundAction"),
    ("admissionregistration.v1.RuleWithOperations", "scope"),
    ("admissionregistration.v1.ServiceReference", "path"),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy"),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy matchPolicy"),
    ("admissionregistration.v1.Validation", "reason"),
    ("admissionregistration.v1.WebhookClientConfig", "url"),
    ("apiextensions.v1.CustomResourceDefinitionVersion", "deprecationWarning"),
    ("apiextensions.v1.CustomResourceSubresourceScale", "labelSelectorPath"),
    ("apiextensions.v1.JSONSchemaProps", "$ref x-kubernetes-list-type x-kubernetes-map-type"),
    ("apiextensions.v1.ServiceReference", "path"),
    ("apiextensions.v1.ValidationRule", "reason"),
    ("apiextensions.v1.WebhookClientConfig", "url"),
    ("autoscaling.v2.HPAScalingRules", "selectPolicy"),
    ("batch.v1.CronJobSpec", "timeZone"),
    ("batch.v1.JobSpec", "completionMode managedBy podReplacementPolicy"),
    ("batch.v1.JobStatus", "failedIndexes"),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "containerName"),
    ("batch.v1.SuccessPolicyRule", "succeededIndexes"),
    ("coordination.v1.LeaseSpec", "holderIdentity preferredHolder strategy"),
    ("core.v1.AppArmorProfile", "localhostProfile"),
    ("core.v1.AzureFilePersistentVolumeSource", "secretNamespace"),
    ("core.v1.CSIVolumeSource", "fsType"),
    ("core.v1.ClusterTrustBundleProjection", "name signerName"),
    ("core.v1.Container", "restartPolicy"),
    ("core.v1.ContainerStatus", "stopSignal"),
    ("core.v1.EndpointAddress", "nodeName"),
    ("core.v1.EndpointPort", "appProtocol"),
    ("core.v1.GlusterfsPersistentVolumeSource", "endpointsNamespace"),
    ("core.v1.HostPathVolumeSource", "type"),
    ("core.v1.ISCSIPersistentVolumeSource", "initiatorName"),
    ("core.v1.ISCSIVolumeSource", "initiatorName"),
    ("core.v1.Lifecycle", "stopSignal"),
    ("core.v1.LoadBalancerIngress", "ipMode"),
    ("core.v1.LocalVolumeSource", "fsType"),
    ("core.v1.PersistentVolumeClaimSpec", "storageClassName volumeAttributesClassName volumeMode"),
    ("core.v1.PersistentVolumeClaimStatus", "currentVolumeAttributesClassName"),
    ("core.v1.PersistentVolumeSpec", "volumeAttributesClassName volumeMode"),
    ("core.v1.PodDNSConfigOption", "value"),
    ("core.v1.PodResourceClaim", "resourceClaimName resourceClaimTemplateName"),
    ("core.v1.PodResourceClaimStatus", "resourceClaimName"),
    ("core.v1.PodSecurityContext", "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy"),
    ("core.v1.PodSpec", "hostnameOverride preemptionPolicy runtimeClassName"),
    ("core.v1.PortStatus", "error"),
    ("core.v1.SeccompProfile", "localhostProfile"),
    ("core.v1.SecurityContext", "procMount"),
    ("core.v1.ServicePort", "appProtocol"),
    ("core.v1.ServiceSpec", "internalTrafficPolicy ipFamilyPolicy loadBalancerClass trafficDistribution"),
    ("core.v1.TopologySpreadConstraint", "nodeAffinityPolicy nodeTaintsPolicy"),
    ("core.v1.TypedLocalObjectReference", "apiGroup"),
    ("core.v1.TypedObjectReference", "apiGroup namespace"),
    ("core.v1.VolumeMount", "mountPropagation recursiveReadOnly"),
    ("core.v1.VolumeMountStatus", "recursiveReadOnly"),
    ("core.v1.WindowsSecurityContextOptions", "gmsaCredentialSpec gmsaCredentialSpecName runAsUserName"),
    ("discovery.v1.Endpoint", "hostname nodeName zone"),
    ("discovery.v1.EndpointPort", "appProtocol name protocol"),
    ("meta.v1.DeleteOptions", "propagationPolicy"),
    ("meta.v1.Preconditions", "resourceVersion uid"),
    ("networking.v1.IngressClassParametersReference", "apiGroup namespace scope"),
    ("networking.v1.IngressPortStatus", "error"),
    ("networking.v1.IngressSpec", "ingressClassName"),
    ("networking.v1.NetworkPolicyPort", "protocol"),
    ("policy.v1.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"),
    ("resource.v1.AllocatedDeviceStatus", "shareID"),
    ("resource.v1.Device", "nodeName"),
    ("resource.v1.DeviceAttribute", "string version"),
    ("resource.v1.DeviceClassSpec", "extendedResourceName"),
    ("resource.v1.DeviceConstraint", "distinctAttribute matchAttribute"),
    ("resource.v1.DeviceRequestAllocationResult", "shareID"),
    ("resource.v1.ResourceSliceSpec", "nodeName"),
    ("scheduling.v1.PriorityClass", "preemptionPolicy"),
    ("storage.v1.CSIDriverSpec", "fsGroupPolicy"),
    ("storage.v1.StorageClass", "reclaimPolicy volumeBindingMode"),
    ("storage.v1.VolumeAttachmentSource", "persistentVolumeName"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(api_version: &str, kind: &str, mut given: Value, wanted: &Value) {
        go_form(&Gvk::of(api_version, kind), &mut given);
        assert_eq!(given, *wanted);
    }

    /// KAPI-REST-08: plain fields lose empty values, pointers keep them, embedded structs appear.
    #[test]
    fn empty_values() {
        check(
            "v1",
            "Pod",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": null, "labels": {}}, "unknown": 1, "spec": {
                "hostNetwork": false, "automountServiceAccountToken": false, "nodeName": "", "volumes": [],
                "containers": [{"name": "c", "command": [], "securityContext": {}, "livenessProbe": {"initialDelaySeconds": 0}}]}}),
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
                "automountServiceAccountToken": false,
                "containers": [{"name": "c", "resources": {}, "securityContext": {}, "livenessProbe": {}}]}, "status": {}}),
        );
        check(
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"metadata": {"name": "r"}}),
            &json!({"metadata": {"name": "r"}, "rules": null}),
        );
        check(
            "v1",
            "Event",
            json!({"metadata": {"name": "e"}, "involvedObject": {}}),
            &json!({"metadata": {"name": "e"}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
                "reportingComponent": "", "reportingInstance": ""}),
        );
    }
}
