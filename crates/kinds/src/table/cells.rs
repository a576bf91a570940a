//! Cells of each kind, in the order of its columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, UNKNOWN, UNSET, access_modes, first_three, human_duration, labels, or_none, seconds_since, selector, since};
use super::pod;
use crate::Gvk;
use crate::validate::{flag, has, int, list, map, text, texts};

pub(super) fn cells(gvk: &Gvk, object: &Value, now: Timestamp) -> Vec<Value> {
    let null = Value::Null;
    let (metadata, spec, status) =
        (object.get("metadata").unwrap_or(&null), object.get("spec").unwrap_or(&null), object.get("status").unwrap_or(&null));
    let name = json!(text(metadata, "name"));
    let age = json!(since(metadata.get("creationTimestamp"), now));
    let number = |value: &Value, field: &str| json!(int(value, field).unwrap_or(0));
    let string = |value: &Value, field: &str| json!(text(value, field));
    let template = || containers(spec.pointer("/template/spec").unwrap_or(&Value::Null));
    let deleting = has(metadata, "deletionTimestamp");
    match gvk.group_kind() {
        ("", "Pod") => pod::cells(object, name, age, now),
        ("", "PodTemplate") => {
            let template = object.get("template").unwrap_or(&null);
            let [names, images] = containers(template.get("spec").unwrap_or(&null));
            vec![name, names, images, json!(labels(template.pointer("/metadata/labels").and_then(Value::as_object)))]
        }
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            let [names, images] = template();
            let selects = if gvk.group.is_empty() { labels(map(spec, "selector")) } else { selector(spec.get("selector")) };
            vec![
                name,
                number(spec, "replicas"),
                number(status, "replicas"),
                number(status, "readyReplicas"),
                age,
                names,
                images,
                json!(selects),
            ]
        }
        ("apps", "Deployment") => {
            let [names, images] = template();
            let ready = format!("{}/{}", int(status, "readyReplicas").unwrap_or(0), int(spec, "replicas").unwrap_or(0));
            let (updated, available) = (number(status, "updatedReplicas"), number(status, "availableReplicas"));
            vec![name, json!(ready), updated, available, age, names, images, json!(selector(spec.get("selector")))]
        }
        ("apps", "DaemonSet") => {
            let [names, images] = template();
            let counts = ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable"];
            let nodes = labels(spec.pointer("/template/spec/nodeSelector").and_then(Value::as_object));
            let mut cells = vec![name];
            cells.extend(counts.iter().map(|field| number(status, field)));
            cells.extend([json!(nodes), age, names, images, json!(selector(spec.get("selector")))]);
            cells
        }
        ("apps", "StatefulSet") => {
            let [names, images] = template();
            let ready = format!("{}/{}", int(status, "readyReplicas").unwrap_or(0), int(spec, "replicas").unwrap_or(0));
            vec![name, json!(ready), age, names, images]
        }
        ("apps", "ControllerRevision") => {
            let owner = list(metadata, "ownerReferences").iter().find(|owner| flag(owner, "controller"));
            let controller = owner.map_or_else(|| NONE.to_owned(), owner_name);
            vec![name, json!(controller), number(object, "revision"), age]
        }
        ("batch", "Job") => job(spec, status, metadata, name, age, now),
        ("batch", "CronJob") => {
            let [names, images] = containers(spec.pointer("/jobTemplate/spec/template/spec").unwrap_or(&null));
            let zone = if has(spec, "timeZone") { text(spec, "timeZone") } else { NONE };
            let last = seconds_since(status.get("lastScheduleTime"), now).map_or_else(|| NONE.to_owned(), human_duration);
            let suspended = match spec.get("suspend").and_then(Value::as_bool) {
                Some(true) => "True",
                Some(false) => "False",
                None => UNSET,
            };
            let selects = selector(spec.pointer("/jobTemplate/spec/selector"));
            let active = json!(list(status, "active").len());
            vec![name, string(spec, "schedule"), json!(zone), json!(suspended), active, json!(last), age, names, images, json!(selects)]
        }
        ("", "Service") => service(spec, status, name, age),
        ("", "Endpoints") => vec![name, json!(endpoints(object)), age],
        ("", "Node") => node(metadata, spec, status, name, age),
        ("" | "events.k8s.io", "Event") => event(gvk, object, name, now),
        ("", "Namespace") => vec![name, string(status, "phase"), age],
        ("", "Secret") => vec![name, string(object, "type"), json!(size(object, "data")), age],
        ("", "ConfigMap") => vec![name, json!(size(object, "data") + size(object, "binaryData")), age],
        ("", "PersistentVolume") => {
            let phase = if deleting { json!("Terminating") } else { string(status, "phase") };
            let claim =
                spec.get("claimRef").map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name"))).unwrap_or_default();
            let capacity = spec.pointer("/capacity/storage").cloned().unwrap_or(json!(""));
            vec![
                name,
                capacity,
                json!(access_modes(spec.get("accessModes"))),
                string(spec, "persistentVolumeReclaimPolicy"),
                phase,
                json!(claim),
                string(spec, "storageClassName"),
                json!(or_unset(text(spec, "volumeAttributesClassName"))),
                string(status, "reason"),
                age,
                json!(or_unset(text(spec, "volumeMode"))),
            ]
        }
        ("", "PersistentVolumeClaim") => {
            let phase = if deleting { json!("Terminating") } else { string(status, "phase") };
            let bound = !text(spec, "volumeName").is_empty();
            // The zero quantity of a claim that is bound and does not say how much it got.
            let missing = if bound { "0" } else { "" };
            let capacity = status.pointer("/capacity/storage").filter(|_| bound).cloned().unwrap_or(json!(missing));
            let modes = if bound { access_modes(status.get("accessModes")) } else { String::new() };
            vec![
                name,
                phase,
                string(spec, "volumeName"),
                capacity,
                json!(modes),
                string(spec, "storageClassName"),
                json!(or_unset(text(spec, "volumeAttributesClassName"))),
                age,
                json!(or_unset(text(spec, "volumeMode"))),
            ]
        }
        ("", "ResourceQuota") => {
            let [requests, limits] = quota(status);
            vec![name, json!(requests), json!(limits), age]
        }
        ("autoscaling", "Scale") => vec![name, number(spec, "replicas"), number(status, "replicas"), age],
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let target = spec.get("scaleTargetRef").unwrap_or(&null);
            let reference = format!("{}/{}", text(target, "kind"), text(target, "name"));
            let least = int(spec, "minReplicas").map_or_else(|| UNSET.to_owned(), |least| least.to_string());
            let (most, current) = (number(spec, "maxReplicas"), number(status, "currentReplicas"));
            vec![name, json!(reference), json!(targets(spec, status)), json!(least), most, current, age]
        }
        ("policy", "PodDisruptionBudget") => {
            let share = |field: &str| {
                spec.get(field).map_or_else(|| "N/A".to_owned(), |share| share.as_str().map_or_else(|| share.to_string(), str::to_owned))
            };
            vec![name, json!(share("minAvailable")), json!(share("maxUnavailable")), number(status, "disruptionsAllowed"), age]
        }
        ("networking.k8s.io", "Ingress") => ingress(spec, status, name, age),
        ("networking.k8s.io", "IngressClass") => {
            let parameters = spec.get("parameters").map_or_else(
                || NONE.to_owned(),
                |parameters| {
                    let group = text(parameters, "apiGroup");
                    let kind = if group.is_empty() {
                        text(parameters, "kind").to_owned()
                    } else {
                        format!("{}.{group}", text(parameters, "kind"))
                    };
                    format!("{kind}/{}", text(parameters, "name"))
                },
            );
            vec![name, string(spec, "controller"), json!(parameters), age]
        }
        ("networking.k8s.io", "NetworkPolicy") => vec![name, json!(selector(spec.get("podSelector"))), age],
        ("networking.k8s.io", "IPAddress") => {
            let parent = spec.get("parentRef").map_or_else(
                || NONE.to_owned(),
                |parent| {
                    let of = ["resource", "group"].map(|field| text(parent, field)).into_iter().filter(|part| !part.is_empty());
                    let of = of.collect::<Vec<_>>().join(".").to_lowercase();
                    let place = [of.as_str(), text(parent, "namespace")].into_iter().filter(|part| !part.is_empty());
                    format!("{}/{}", place.collect::<Vec<_>>().join("/"), text(parent, "name"))
                },
            );
            vec![name, json!(parent), age]
        }
        ("", "ComponentStatus") => {
            let condition = list(object, "conditions").iter().find(|condition| text(condition, "type") == "Healthy");
            let health = condition.map_or("Unknown", |one| if text(one, "status") == "True" { "Healthy" } else { "Unhealthy" });
            let condition = condition.unwrap_or(&null);
            vec![name, json!(health), string(condition, "message"), string(condition, "error")]
        }
        ("storage.k8s.io", "VolumeAttributesClass") => vec![name, string(object, "driverName"), age],
        ("resource.k8s.io", "ResourceClaim") => vec![name, json!(claim_state(status, deleting)), age],
        ("resource.k8s.io", "ResourceSlice") => {
            let pool = string(spec.get("pool").unwrap_or(&null), "name");
            vec![name, string(spec, "nodeName"), string(spec, "driver"), pool, age]
        }
        ("networking.k8s.io", "ServiceCIDR") => vec![name, json!(texts(spec, "cidrs").join(",")), age],
        ("discovery.k8s.io", "EndpointSlice") => {
            let ports: Vec<String> = list(object, "ports")
                .iter()
                .map(|port| int(port, "port").map_or_else(|| "*".to_owned(), |port| port.to_string()))
                .collect();
            let addresses: Vec<String> =
                list(object, "endpoints").iter().flat_map(|endpoint| texts(endpoint, "addresses")).map(str::to_owned).collect();
            let of = |all: &[String]| if all.is_empty() { UNSET.to_owned() } else { first_three(all) };
            vec![name, string(object, "addressType"), json!(of(&ports)), json!(of(&addresses)), age]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            let role = object.get("roleRef").unwrap_or(&null);
            let role = format!("{}/{}", text(role, "kind"), text(role, "name"));
            let of = |kind: &str| {
                let names: Vec<String> = list(object, "subjects")
                    .iter()
                    .filter(|subject| text(subject, "kind") == kind)
                    .map(|subject| match kind {
                        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                        _ => text(subject, "name").to_owned(),
                    })
                    .collect();
                json!(names.join(", "))
            };
            vec![name, json!(role), age, of("User"), of("Group"), of("ServiceAccount")]
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            let duration = int(spec, "expirationSeconds").map_or_else(|| NONE.to_owned(), human_duration);
            vec![name, age, string(spec, "signerName"), string(spec, "username"), json!(duration), json!(certificate(status))]
        }
        ("coordination.k8s.io", "Lease") => vec![name, string(spec, "holderIdentity"), age],
        ("scheduling.k8s.io", "PriorityClass") => {
            let default = json!(flag(object, "globalDefault"));
            vec![name, number(object, "value"), default, age, string(object, "preemptionPolicy")]
        }
        ("node.k8s.io", "RuntimeClass") => vec![name, string(object, "handler"), age],
        ("storage.k8s.io", "StorageClass") => {
            let default = metadata.pointer("/annotations/storageclass.kubernetes.io~1is-default-class") == Some(&json!("true"));
            let name = if default { json!(format!("{} (default)", text(metadata, "name"))) } else { name };
            let grows = json!(flag(object, "allowVolumeExpansion"));
            vec![name, string(object, "provisioner"), string(object, "reclaimPolicy"), string(object, "volumeBindingMode"), grows, age]
        }
        ("storage.k8s.io", "VolumeAttachment") => {
            let volume = spec.pointer("/source/persistentVolumeName").cloned().unwrap_or(json!(""));
            vec![name, string(spec, "attacher"), volume, string(spec, "nodeName"), json!(flag(status, "attached")), age]
        }
        ("storage.k8s.io", "CSINode") => vec![name, json!(list(spec, "drivers").len()), age],
        ("storage.k8s.io", "CSIDriver") => {
            let audiences: Vec<&str> = list(spec, "tokenRequests").iter().map(|request| text(request, "audience")).collect();
            let audiences = if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") };
            let modes = or_none(texts(spec, "volumeLifecycleModes").join(","));
            let yes = |field: &str| json!(flag(spec, field));
            vec![
                name,
                json!(spec.get("attachRequired").and_then(Value::as_bool).unwrap_or(true)),
                yes("podInfoOnMount"),
                yes("storageCapacity"),
                json!(audiences),
                yes("requiresRepublish"),
                json!(modes),
                age,
            ]
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            vec![name, json!(list(object, "webhooks").len()), age]
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            let kind = spec
                .get("paramKind")
                .map_or_else(|| UNSET.to_owned(), |kind| format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")));
            vec![name, json!(list(spec, "validations").len()), json!(kind), age]
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            let reference = spec.get("paramRef").map_or_else(
                || UNSET.to_owned(),
                |reference| match text(reference, "namespace") {
                    "" => text(reference, "name").to_owned(),
                    namespace => format!("{namespace}/{}", text(reference, "name")),
                },
            );
            vec![name, string(spec, "policyName"), json!(reference), age]
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            let level = spec.pointer("/priorityLevelConfiguration/name").cloned().unwrap_or(json!(""));
            let method = spec.pointer("/distinguisherMethod/type").and_then(Value::as_str).unwrap_or(NONE);
            let dangling = list(status, "conditions").iter().find(|condition| text(condition, "type") == "Dangling");
            let missing = dangling.map_or("?", |condition| text(condition, "status"));
            vec![name, level, number(spec, "matchingPrecedence"), json!(method), age, json!(missing)]
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            let shares = spec.pointer("/limited/nominalConcurrencyShares").or(spec.pointer("/exempt/nominalConcurrencyShares"));
            let queuing = spec.pointer("/limited/limitResponse/queuing").unwrap_or(&null);
            let of = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned().unwrap_or(json!(NONE));
            vec![
                name,
                string(spec, "type"),
                of(shares),
                of(queuing.get("queues")),
                of(queuing.get("handSize")),
                of(queuing.get("queueLengthLimit")),
                age,
            ]
        }
        ("apiregistration.k8s.io", "APIService") => {
            let service = spec.get("service").filter(|service| !service.is_null());
            let service =
                service.map_or_else(|| "Local".to_owned(), |service| format!("{}/{}", text(service, "namespace"), text(service, "name")));
            let available = list(status, "conditions").iter().find(|condition| text(condition, "type") == "Available");
            let available = match available {
                None => "Unknown".to_owned(),
                Some(condition) if text(condition, "status") == "True" => "True".to_owned(),
                Some(condition) => format!("{} ({})", text(condition, "status"), text(condition, "reason")),
            };
            vec![name, json!(service), json!(available), age]
        }
        _ => vec![name, age],
    }
}

/// The state of a claim for devices.
fn claim_state(status: &Value, deleting: bool) -> String {
    let mut states = Vec::new();
    if deleting {
        states.push("deleted");
    }
    if has(status, "allocation") {
        states.push("allocated");
        if !list(status, "reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleting {
        states.push("pending");
    }
    states.join(",")
}

fn or_unset(text: &str) -> &str {
    if text.is_empty() { UNSET } else { text }
}

fn size(object: &Value, field: &str) -> usize {
    map(object, field).map_or(0, serde_json::Map::len)
}

/// Names and images of a pod's containers.
fn containers(pod: &Value) -> [Value; 2] {
    let of = |field: &str| json!(list(pod, "containers").iter().map(|container| text(container, field)).collect::<Vec<_>>().join(","));
    [of("name"), of("image")]
}

fn owner_name(owner: &Value) -> String {
    let (group, _) = text(owner, "apiVersion").split_once('/').unwrap_or(("", ""));
    let kind = text(owner, "kind").to_lowercase();
    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    format!("{kind}/{}", text(owner, "name"))
}

fn job(spec: &Value, status: &Value, metadata: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let holds = |kind: &str| {
        list(status, "conditions").iter().any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
    };
    let state = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if has(metadata, "deletionTimestamp") {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = int(status, "succeeded").unwrap_or(0);
    let completions = match (int(spec, "completions"), int(spec, "parallelism").unwrap_or(0)) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let duration = match (seconds_since(status.get("startTime"), now), seconds_since(status.get("completionTime"), now)) {
        (None, _) => String::new(),
        (Some(started), None) => human_duration(started),
        (Some(started), Some(ended)) => human_duration(started - ended),
    };
    let [names, images] = containers(spec.pointer("/template/spec").unwrap_or(&Value::Null));
    vec![name, json!(state), json!(completions), json!(duration), age, names, images, json!(selector(spec.get("selector")))]
}

fn service(spec: &Value, status: &Value, name: Value, age: Value) -> Vec<Value> {
    let kind = text(spec, "type");
    let cluster = texts(spec, "clusterIPs").first().copied().unwrap_or(text(spec, "clusterIP"));
    let mut external: Vec<&str> = Vec::new();
    if kind == "LoadBalancer" {
        let points = status.pointer("/loadBalancer/ingress").and_then(Value::as_array);
        external.extend(
            points
                .into_iter()
                .flatten()
                .map(|point| if text(point, "ip").is_empty() { text(point, "hostname") } else { text(point, "ip") }),
        );
    }
    external.extend(texts(spec, "externalIPs"));
    let external = match kind {
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" if external.is_empty() => "<pending>".to_owned(),
        _ => or_none(external.join(",")),
    };
    let ports: Vec<String> = list(spec, "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (int(port, "port").unwrap_or(0), text(port, "protocol"));
            match int(port, "nodePort").filter(|port| *port > 0) {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        name,
        json!(kind),
        json!(or_none(cluster.to_owned())),
        json!(external),
        json!(or_none(ports.join(","))),
        age,
        json!(labels(map(spec, "selector"))),
    ]
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(object, "subsets") {
        let addresses = || list(subset, "addresses").iter().map(|address| text(address, "ip"));
        if list(subset, "ports").is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in list(subset, "ports") {
            let number = int(port, "port").unwrap_or(0);
            all.extend(
                addresses()
                    .map(|address| if address.contains(':') { format!("[{address}]:{number}") } else { format!("{address}:{number}") }),
            );
        }
    }
    first_three(&all)
}

fn node(metadata: &Value, spec: &Value, status: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = list(status, "conditions").iter().find(|condition| text(condition, "type") == "Ready");
    let mut state = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(spec, "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in map(metadata, "labels").into_iter().flatten() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()) {
            roles.push(role.to_owned());
        } else if key == "kubernetes.io/role" {
            roles.extend(value.as_str().map(str::to_owned));
        }
    }
    roles.sort();
    roles.dedup();
    let address = |kind: &str| {
        let found = list(status, "addresses").iter().find(|address| text(address, "type") == kind);
        json!(found.map_or(NONE, |address| text(address, "address")))
    };
    let info = status.get("nodeInfo").unwrap_or(&Value::Null);
    let known = |field: &str| json!(if text(info, field).is_empty() { UNKNOWN } else { text(info, field) });
    let kernel = if text(info, "kernelVersion").is_empty() { UNKNOWN } else { text(info, "kernelVersion") };
    let architecture = text(info, "architecture");
    let kernel = if architecture.is_empty() { json!(kernel) } else { json!(format!("{kernel} ({architecture})")) };
    vec![
        name,
        json!(state),
        json!(or_none(roles.join(","))),
        age,
        json!(text(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        kernel,
        known("containerRuntimeVersion"),
    ]
}

fn event(gvk: &Gvk, object: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    // The two groups show one stored object under two sets of names.
    let newer = gvk.group == "events.k8s.io";
    let field = |core: &str, new: &str| object.get(if newer { new } else { core });
    let time = |value: Option<&Value>| value.filter(|time| !time.is_null()).map(|time| since(Some(time), now));
    let happened = time(object.get("eventTime"));
    let first = time(field("firstTimestamp", "deprecatedFirstTimestamp")).or_else(|| happened.clone()).unwrap_or_else(|| UNKNOWN.into());
    let mut last = time(field("lastTimestamp", "deprecatedLastTimestamp")).unwrap_or_else(|| first.clone());
    let mut count = field("count", "deprecatedCount").and_then(Value::as_i64).unwrap_or(0).max(1);
    if let Some(series) = object.get("series").filter(|series| !series.is_null()) {
        last = time(series.get("lastObservedTime")).unwrap_or(last);
        count = int(series, "count").unwrap_or(count);
    }
    let null = Value::Null;
    let about = field("involvedObject", "regarding").unwrap_or(&null);
    let kind = text(about, "kind").to_lowercase();
    let target = if text(about, "name").is_empty() { kind } else { format!("{kind}/{}", text(about, "name")) };
    let source = field("source", "deprecatedSource").unwrap_or(&null);
    let component = match text(source, "component") {
        "" => field("reportingComponent", "reportingController").and_then(Value::as_str).unwrap_or_default(),
        component => component,
    };
    let host = match text(source, "host") {
        "" => text(object, "reportingInstance"),
        host => host,
    };
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    let message = field("message", "note").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    vec![
        json!(last),
        json!(text(object, "type")),
        json!(text(object, "reason")),
        json!(target),
        json!(text(about, "fieldPath")),
        json!(source),
        json!(message),
        json!(first),
        json!(count),
        name,
    ]
}

fn quota(status: &Value) -> [String; 2] {
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    for (resource, most) in map(status, "hard").into_iter().flatten() {
        let used = status.get("used").map_or("", |used| text(used, resource));
        let used = if used.is_empty() { "0" } else { used };
        let shown = format!("{resource}: {used}/{}", most.as_str().unwrap_or_default());
        (if resource.starts_with("limits.") { &mut limits } else { &mut requests }).push(shown);
    }
    [requests.join(", "), limits.join(", ")]
}

/// The metrics of an autoscaler and their targets.
fn targets(spec: &Value, status: &Value) -> String {
    if let Some(wanted) = int(spec, "targetCPUUtilizationPercentage") {
        let current = int(status, "currentCPUUtilizationPercentage").map_or_else(|| UNKNOWN.to_owned(), |share| format!("{share}%"));
        return format!("cpu: {current}/{wanted}%");
    }
    let mut shown = Vec::new();
    for (index, metric) in list(spec, "metrics").iter().enumerate() {
        let field = match text(metric, "type") {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => continue,
        };
        let source = metric.get(field).unwrap_or(&Value::Null);
        let target = source.get("target").unwrap_or(&Value::Null);
        let current = list(status, "currentMetrics").get(index).and_then(|metric| metric.pointer(&format!("/{field}/current")));
        let now = |field: &str, unit: &str| {
            let value = current.and_then(|current| current.get(field)).filter(|value| !value.is_null());
            value.map_or_else(
                || UNKNOWN.to_owned(),
                |value| format!("{}{unit}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            )
        };
        let name = match field {
            "resource" | "containerResource" => format!("{}: ", text(source, "name")),
            _ => String::new(),
        };
        shown.push(if let Some(share) = int(target, "averageUtilization") {
            format!("{name}{}/{share}%", now("averageUtilization", "%"))
        } else if has(target, "averageValue") {
            let suffix = if name.is_empty() && field != "pods" { " (avg)" } else { "" };
            format!("{name}{}/{}{suffix}", now("averageValue", ""), text(target, "averageValue"))
        } else {
            format!("{name}{}/{}", now("value", ""), text(target, "value"))
        });
    }
    if shown.len() > 2 {
        return format!("{} + {} more...", shown[..2].join(", "), shown.len() - 2);
    }
    or_none(shown.join(", "))
}

fn ingress(spec: &Value, status: &Value, name: Value, age: Value) -> Vec<Value> {
    let class = if has(spec, "ingressClassName") { text(spec, "ingressClassName") } else { NONE };
    let hosts: Vec<String> = list(spec, "rules").iter().map(|rule| text(rule, "host").to_owned()).filter(|host| !host.is_empty()).collect();
    let hosts = if hosts.is_empty() { "*".to_owned() } else { first_three(&hosts) };
    let points = status.pointer("/loadBalancer/ingress").and_then(Value::as_array);
    let addresses: Vec<&str> = points
        .into_iter()
        .flatten()
        .map(|point| if text(point, "ip").is_empty() { text(point, "hostname") } else { text(point, "ip") })
        .collect();
    let ports = if list(spec, "tls").is_empty() { "80" } else { "80, 443" };
    vec![name, json!(class), json!(hosts), json!(addresses.join(",")), json!(ports), age]
}

fn certificate(status: &Value) -> String {
    let has = |kind: &str| list(status, "conditions").iter().any(|condition| text(condition, "type") == kind);
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(status, "certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown
}
