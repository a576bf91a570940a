//! Warnings about objects of built-in kinds that Kubernetes nevertheless accepts: the strategies' `WarningsOnCreate` and
//! `WarningsOnUpdate`, in their words (KAPI-REST-03).
//!
//! Objects come as they are stored: defaulted, prepared, valid. If Kubernetes goes through a map in no order, this goes through it
//! by key.

mod addresses;
mod paths;
mod pod;
mod storage;
mod workloads;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_schema::field::Path;
use serde_json::Value;

use self::addresses::{cidr, cidrs, ip, ips};
use crate::Gvk;
use crate::validate::{has, list, map, text, texts};

/// Warnings about a new object before its strategy changes it ([`crate::prepare_create`]): what the strategy repairs cannot be seen later.
pub fn warnings_of_given(gvk: &Gvk, given: &Value) -> Vec<String> {
    if gvk.group_kind() == ("", "Pod") { pod::profiles(given) } else { Vec::new() }
}

/// Warnings about an accepted object. `old` is the one that it replaces; `subresource` is that of the request.
pub fn warnings(gvk: &Gvk, new: &Value, old: Option<&Value>, subresource: Option<&str>) -> Vec<String> {
    match subresource {
        None => main(gvk, new, old),
        Some("status") => status(gvk, new),
        Some(_) => Vec::new(),
    }
}

fn main(gvk: &Gvk, new: &Value, old: Option<&Value>) -> Vec<String> {
    match gvk.group_kind() {
        // Pods change often, and not by people.
        ("", "Pod") if old.is_none() => workloads::pod(new),
        ("", "PodTemplate" | "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job" | "CronJob") => workloads::of(gvk, new, old),
        ("", "Service") => service(new),
        ("", "Endpoints") => endpoints(new),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(new, old),
        ("", "Node") => node(new),
        ("", "Secret") => secret(new),
        ("", "ServiceAccount") => service_account(new, old),
        ("", "PersistentVolume") => storage::volume(new),
        ("", "PersistentVolumeClaim") => storage::claim(new),
        ("storage.k8s.io", "StorageClass") => storage::class(new),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::capacity(new),
        ("node.k8s.io", "RuntimeClass") => runtime_class(new),
        ("resource.k8s.io", "ResourceSlice") => resource_slice(new),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(new),
        ("networking.k8s.io", "Ingress") if old.is_none() => ingress(new),
        _ => Vec::new(),
    }
}

fn status(gvk: &Gvk, new: &Value) -> Vec<String> {
    let status = part(new, "status");
    let path = Path::new("status");
    match gvk.group_kind() {
        ("", "Pod") => [("podIPs", "ip"), ("hostIPs", "ip")]
            .into_iter()
            .flat_map(|(field, member)| ips(&path.child(field), list(status, field).iter().map(|one| text(one, member)), Some(member)))
            .collect(),
        ("", "Service") | ("networking.k8s.io", "Ingress") => {
            let path = path.children(&["loadBalancer", "ingress"]);
            let points = list(part(status, "loadBalancer"), "ingress").iter().enumerate();
            points.filter_map(|(index, point)| ip(&path.index(index), text(point, "ip"))).collect()
        }
        _ => Vec::new(),
    }
}

/// A member, or `null`.
fn part<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// A driver's name has no case.
fn resource_slice(slice: &Value) -> Vec<String> {
    let driver = text(part(slice, "spec"), "driver");
    let words =
        || format!("spec.driver: driver names should be lowercase; {} contains uppercase characters", mainstay_golang::quote(driver));
    (driver != driver.to_lowercase()).then(words).into_iter().collect()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    map(part(object, "metadata"), "annotations")?.get(key)?.as_str()
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    map(part(object, "metadata"), "labels").and_then(|labels| labels.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Labels of nodes that have successors, and the warnings about them.
const NODE_LABELS: [(&str, &str); 8] = [
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    ("failure-domain.beta.kubernetes.io/region", "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
];

fn node_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

fn service(service: &Value) -> Vec<String> {
    let spec = part(service, "spec");
    let path = Path::new("spec");
    let mut found = Vec::new();
    let hints = "service.kubernetes.io/topology-aware-hints";
    if annotation(service, hints).is_some() {
        found.push(format!("annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        found.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    let (kind, cluster_ip) = (text(spec, "type"), text(spec, "clusterIP"));
    let external = texts(spec, "externalIPs");
    if !cluster_ip.is_empty() && cluster_ip != "None" {
        found.extend(ips(&path.child("clusterIPs"), texts(spec, "clusterIPs"), None));
    }
    if kind == "ClusterIP" && cluster_ip == "None" {
        if !text(spec, "loadBalancerIP").is_empty() {
            found.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            found.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec, "sessionAffinity") != "None" {
            found.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    found.extend(ips(&path.child("externalIPs"), external.iter().copied(), None));
    found.extend(ip(&path.child("loadBalancerIP"), text(spec, "loadBalancerIP")));
    found.extend(cidrs(&path.child("loadBalancerSourceRanges"), &texts(spec, "loadBalancerSourceRanges")));
    if kind == "ExternalName" && !external.is_empty() {
        found.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        found.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    found
}

fn endpoints(object: &Value) -> Vec<String> {
    // The controller writes addresses in their form.
    if label(object, "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        for field in ["addresses", "notReadyAddresses"] {
            let path = Path::new("subsets").index(index).child(field);
            found.extend(ips(&path, list(subset, field).iter().map(|address| text(address, "ip")), Some("ip")));
        }
    }
    found
}

fn endpoint_slice(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    if old.is_none() && text(object, "addressType") == "FQDN" {
        found.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = label(object, "endpointslice.kubernetes.io/managed-by");
    if matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return found;
    }
    for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
        found.extend(ips(&Path::new("endpoints").index(index).child("addresses"), texts(endpoint, "addresses"), None));
    }
    found
}

fn node(node: &Value) -> Vec<String> {
    let spec = part(node, "spec");
    let mut found = Vec::new();
    if has(spec, "configSource") {
        found.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(spec, "externalID").is_empty() {
        found.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    found.extend(cidrs(&Path::new("spec").child("podCIDRs"), &texts(spec, "podCIDRs")));
    found
}

/// Warns if certificate and key of a TLS Secret are no PEM at all; that they belong together is not checked.
fn secret(secret: &Value) -> Vec<String> {
    if text(secret, "type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = |key| STANDARD.decode(text(part(secret, "data"), key)).unwrap_or_default();
    paths::pem_problem(&data("tls.crt"), &data("tls.key")).into_iter().collect()
}

fn service_account(account: &Value, old: Option<&Value>) -> Vec<String> {
    let key = "kubernetes.io/enforce-mountable-secrets";
    let newly = old.is_none_or(|old| annotation(old, key).is_none()) && annotation(account, key).is_some();
    let text =
        || format!("metadata.annotations[{key}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets");
    newly.then(text).into_iter().collect()
}

fn runtime_class(class: &Value) -> Vec<String> {
    let labels = map(part(class, "scheduling"), "nodeSelector").into_iter().flatten();
    labels.filter_map(|(label, _)| node_label(label)).map(|message| format!("scheduling.nodeSelector: {message}")).collect()
}

fn network_policy(policy: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(part(policy, "spec"), direction).iter().enumerate() {
            for (peer_index, peer) in list(rule, side).iter().enumerate() {
                let block = part(peer, "ipBlock");
                let path = Path::new("spec").child(direction).index(index).child(side).index(peer_index).child("ipBlock");
                found.extend(cidr(&path.child("cidr"), text(block, "cidr")));
                found.extend(cidrs(&path.child("except"), &texts(block, "except")));
            }
        }
    }
    found
}

fn ingress(ingress: &Value) -> Vec<String> {
    let key = "kubernetes.io/ingress.class";
    let old_way = annotation(ingress, key).is_some() && !has(part(ingress, "spec"), "ingressClassName");
    let text = || format!("annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead");
    old_way.then(text).into_iter().collect()
}
