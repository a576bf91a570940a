//! The quota usage of an object of one resource: the names that count it, its amounts, and the scopes that it lies in.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Operation, Requirement, Write};
use crate::prepare::qos_class;
use crate::quantity::Quantity;
use crate::resource_list::{ResourceList, Side, charged, has_pod_level};

/// The names that measure pods, besides `hugepages-*` and extended resources.
const POD_NAMES: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// The names that every container must give an amount for, if a quota has them.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const SERVICE_NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];
const CLAIM_NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const CLASS: &str = ".storageclass.storage.k8s.io/";
const DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The devices that a request for all that there are may get.
const MOST_DEVICES: i64 = 32;
/// Resources that are only counted, and have a name of their own besides `count/...`.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// The measure of a resource's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods: their number and what they ask for.
    Pods,
    /// Services: their number, node ports and load balancers.
    Services,
    /// PersistentVolumeClaims: their number and storage, also by storage class.
    Claims,
    /// ResourceClaims: their number and the devices that they ask for, by device class.
    DeviceClaims,
    /// Anything else: by these names.
    Count(Vec<String>),
}

impl Evaluator {
    /// The evaluator of a resource; `None` for resources that quotas do not look at: what is not stored, and events.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        match (group, plural) {
            ("" | "events.k8s.io", "events")
            | ("", "bindings" | "componentstatuses")
            | ("authentication.k8s.io" | "authorization.k8s.io", _) => None,
            ("", "pods") => Some(Self::Pods),
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => Some(Self::Claims),
            ("resource.k8s.io", "resourceclaims") => Some(Self::DeviceClaims),
            ("", name) if ALIASES.contains(&name) => Some(Self::Count(vec![format!("count/{name}"), name.to_owned()])),
            ("", name) => Some(Self::Count(vec![format!("count/{name}")])),
            (group, name) => Some(Self::Count(vec![format!("count/{name}.{group}")])),
        }
    }

    /// Returns true if a write may change what is used.
    pub fn handles(&self, write: &Write<'_>) -> bool {
        let created = write.operation == Operation::Create;
        match (self, write.subresource) {
            (Self::Pods, "") => created || write.old.is_some_and(|old| limited_in_time(old) != limited_in_time(write.object)),
            (Self::Pods, "resize") => !created,
            (Self::Services | Self::Claims | Self::DeviceClaims, "") => true,
            (Self::Claims, "status") => write.old.is_some_and(|old| claim_state(old) != claim_state(write.object)),
            (Self::Count(_), "") => created,
            _ => false,
        }
    }

    /// Returns true if a quota's name measures objects of this resource.
    pub fn measures(&self, name: &str) -> bool {
        match self {
            Self::Pods => {
                POD_NAMES.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-") || extended(name)
            }
            Self::Services => SERVICE_NAMES.contains(&name),
            Self::Claims => {
                let by_class = |own: &str| name.strip_suffix(own).is_some_and(|rest| rest.ends_with(CLASS));
                name == "count/persistentvolumeclaims" || CLAIM_NAMES.contains(&name) || CLAIM_NAMES.iter().any(|own| by_class(own))
            }
            Self::DeviceClaims => name == DEVICE_CLAIMS || name.ends_with(DEVICES_OF_CLASS),
            Self::Count(names) => names.iter().any(|own| own == name),
        }
    }

    /// Returns the amounts that an object uses at a moment.
    pub fn usage(&self, object: &Value, now: Timestamp) -> ResourceList {
        match self {
            Self::Pods => pod_usage(object, now),
            Self::Services => service_usage(object),
            Self::Claims => claim_usage(object),
            Self::DeviceClaims => device_usage(object),
            Self::Count(names) => counted(names.iter().map(String::as_str)),
        }
    }

    /// Returns true if an object lies in a scope.
    pub fn in_scope(&self, requirement: &Requirement, object: &Value) -> bool {
        match (self, requirement.scope.as_str()) {
            (Self::Pods, "Terminating") => limited_in_time(object),
            (Self::Pods, "NotTerminating") => !limited_in_time(object),
            (Self::Pods, "BestEffort") => best_effort(object),
            (Self::Pods, "NotBestEffort") => !best_effort(object),
            (Self::Pods, "PriorityClass") => {
                let class = text(object, "/spec/priorityClassName");
                requirement.accepts(&if class.is_empty() { vec![] } else { vec![class] })
            }
            (Self::Pods, "CrossNamespacePodAffinity") => looks_into_namespaces(object),
            (Self::Claims, "VolumeAttributesClass") => requirement.accepts(&attributes_classes(object)),
            _ => false,
        }
    }

    /// Returns what an object must say and does not, in Kubernetes' words; `required` are the names of a quota that measure it.
    pub fn missing(&self, required: &[&str], object: &Value) -> Option<String> {
        if *self != Self::Pods || has_pod_level(object) {
            return None;
        }
        let containers = ["/spec/containers", "/spec/initContainers"].into_iter().flat_map(|field| list(object, field)).collect::<Vec<_>>();
        let mut names: Vec<&str> = required.iter().copied().filter(|name| REQUIRED.contains(name)).collect();
        names.sort_unstable();
        let lacking = names.into_iter().filter_map(|name| {
            let lacks = |container: &&&Value| compute(&Side::Requests.of(container), &Side::Limits.of(container)).get(name).is_none();
            let mut without: Vec<&str> = containers.iter().filter(lacks).map(|container| text(container, "/name")).collect();
            without.sort_unstable();
            without.dedup();
            (!without.is_empty()).then(|| format!("{name} for: {}", without.join(",")))
        });
        let lacking: Vec<String> = lacking.collect();
        (!lacking.is_empty()).then(|| format!("must specify {}", lacking.join("; ")))
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn counted<'a>(names: impl IntoIterator<Item = &'a str>) -> ResourceList {
    let mut usage = ResourceList::default();
    for name in names {
        usage.set(name, Quantity::from_int(1));
    }
    usage
}

/// Returns true if the name is a quota on an extended resource: only requests of these can be limited.
fn extended(name: &str) -> bool {
    !native(name) && name.starts_with("requests.")
}

fn native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn limited_in_time(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

fn best_effort(pod: &Value) -> bool {
    pod.get("spec").is_none_or(|spec| qos_class(spec) == "BestEffort")
}

fn looks_into_namespaces(pod: &Value) -> bool {
    let foreign =
        |term: &Value| list(term, "/namespaces").next().is_some() || term.get("namespaceSelector").is_some_and(|one| !one.is_null());
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let Some(affinity) = pod.pointer(&format!("/spec/affinity/{kind}")) else { return false };
        list(affinity, "/requiredDuringSchedulingIgnoredDuringExecution").any(foreign)
            || list(affinity, "/preferredDuringSchedulingIgnoredDuringExecution").any(|one| one.get("podAffinityTerm").is_some_and(foreign))
    })
}

/// A pod that has ended, or that should be gone by now, is counted as an object only.
fn pod_usage(pod: &Value, now: Timestamp) -> ResourceList {
    let mut usage = counted(["count/pods"]);
    let over = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    let until = pod.pointer("/metadata/deletionTimestamp").and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).map(SignedDuration::from_secs);
    let stuck = until.zip(grace).is_some_and(|(until, grace)| until.checked_add(grace).is_ok_and(|end| now > end));
    if !over && !stuck {
        usage.add(&compute(&charged(pod, Side::Requests), &charged(pod, Side::Limits)));
    }
    usage
}

fn compute(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = counted(["pods"]);
    for (name, amount) in requests.iter() {
        if matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            usage.set(name, amount);
            usage.set(format!("requests.{name}"), amount);
        } else if !native(name) && !name.starts_with("requests.") {
            usage.set(format!("requests.{name}"), amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            usage.set(format!("limits.{name}"), amount);
        }
    }
    usage
}

fn service_usage(service: &Value) -> ResourceList {
    let mut usage = counted(["count/services", "services"]);
    let ports = |wanted: &dyn Fn(&Value) -> bool| {
        let count = list(service, "/spec/ports").filter(|port| wanted(port)).count();
        Quantity::from_int(i64::try_from(count).unwrap_or(i64::MAX))
    };
    let (nodeports, balancers) = match text(service, "/spec/type") {
        "NodePort" => (ports(&|_| true), Quantity::ZERO),
        // Node ports are not allocated yet: those that will be count.
        "LoadBalancer" if service.pointer("/spec/allocateLoadBalancerNodePorts") == Some(&Value::Bool(false)) => {
            (ports(&|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)), Quantity::from_int(1))
        }
        "LoadBalancer" => (ports(&|_| true), Quantity::from_int(1)),
        _ => (Quantity::ZERO, Quantity::ZERO),
    };
    usage.set("services.nodeports", nodeports);
    usage.set("services.loadbalancers", balancers);
    usage
}

fn claim_usage(claim: &Value) -> ResourceList {
    let mut usage = counted(["count/persistentvolumeclaims", "persistentvolumeclaims"]);
    let beta = claim.pointer("/metadata/annotations").and_then(|all| all.get("volume.beta.kubernetes.io/storage-class"));
    let class = beta.and_then(Value::as_str).unwrap_or_else(|| text(claim, "/spec/storageClassName"));
    if !class.is_empty() {
        usage.set(format!("{class}{CLASS}persistentvolumeclaims"), Quantity::from_int(1));
    }
    let asked = ResourceList::read(claim.pointer("/spec/resources/requests")).get("storage").map(Quantity::round_up_to_int);
    if let Some(asked) = asked {
        // Storage that an expansion has taken already counts, even if the claim was made smaller again.
        let given = ResourceList::read(claim.pointer("/status/allocatedResources")).get("storage").map(Quantity::round_up_to_int);
        let amount = given.filter(|given| *given > asked).unwrap_or(asked);
        usage.set("requests.storage", amount);
        if !class.is_empty() {
            usage.set(format!("{class}{CLASS}requests.storage"), amount);
        }
    }
    usage
}

/// Devices count where they may be given, alternatives of one request by the most that each class may give.
fn device_usage(claim: &Value) -> ResourceList {
    let mut usage = counted([DEVICE_CLAIMS]);
    for request in list(claim, "/spec/devices/requests") {
        let alternatives: Vec<&Value> = list(request, "/firstAvailable").collect();
        let asked = if alternatives.is_empty() { request.get("exactly").into_iter().collect() } else { alternatives };
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for one in asked {
            let count = match text(one, "/allocationMode") {
                "ExactCount" => one.get("count").and_then(Value::as_i64).unwrap_or_default(),
                "All" => MOST_DEVICES,
                _ => 0,
            };
            let known = most.entry(text(one, "/deviceClassName")).or_default();
            *known = count.max(*known);
        }
        for (class, count) in most {
            let mut devices = ResourceList::default();
            devices.set(format!("{class}{DEVICES_OF_CLASS}"), Quantity::from_int(count));
            usage.add(&devices);
        }
    }
    usage
}

fn attributes_classes(claim: &Value) -> Vec<&str> {
    let fields = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    fields.iter().map(|field| text(claim, field)).filter(|name| !name.is_empty()).collect()
}

/// The part of a claim's status that quotas look at.
fn claim_state(claim: &Value) -> (Option<Quantity>, std::collections::BTreeSet<&str>) {
    let given = ResourceList::read(claim.pointer("/status/allocatedResources")).get("storage");
    (given, attributes_classes(claim).into_iter().collect())
}
