//! Warnings of one Pod or of a template of Pods.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_golang::quote;
use mainstay_schema::field::Path;
use serde_json::Value;

use super::{addresses, annotation, node_label, part, paths, storage};
use crate::quantity::Quantity;
use crate::validate::{APP_ARMOR, has, int, list, map, names, text, texts};

/// Annotations that no longer have an effect, and their replacements.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "non-functional in v1.16+; use the \"priorityClassName\" field instead"),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Warnings about a Pod (`path` is the root then) or a template.
pub(super) fn warnings(pod: &Value, path: &Path) -> Vec<String> {
    let spec = part(pod, "spec");
    let spec_path = path.child("spec");
    let containers = containers(spec, &spec_path);
    let mut found = placement(spec, &spec_path);
    for (key, message) in ANNOTATIONS {
        if annotation(pod, key).is_some() {
            found.push(format!("{}: {message}", annotation_path(path, key)));
        }
    }
    found.extend(volumes(spec, &spec_path));
    found.extend(lists(spec, &spec_path));
    found.extend(["memory", "ephemeral-storage"].iter().filter_map(|resource| fractional(spec, "overhead", resource, &spec_path)));
    if !has(part(spec, "securityContext"), "seccompProfile") && annotation(pod, SECCOMP_POD).is_some() {
        found.push(seccomp(path, SECCOMP_POD));
    }
    for (container, container_path) in &containers {
        let seccomp_key = format!("{SECCOMP_CONTAINER}{}", text(container, "name"));
        if !has(part(container, "securityContext"), "seccompProfile") && annotation(pod, &seccomp_key).is_some() {
            found.push(seccomp(path, &seccomp_key));
        }
        if !path.is_root() {
            found.extend(app_armor(pod, container, path));
        }
        let resources = part(container, "resources");
        for (resource, field) in
            [("memory", "limits"), ("memory", "requests"), ("ephemeral-storage", "limits"), ("ephemeral-storage", "requests")]
        {
            found.extend(fractional(resources, field, resource, &container_path.child("resources")));
        }
        found.extend(environment(container, &container_path.child("env")));
    }
    found.extend(ports(&containers));
    found.extend(port_names(&containers));
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let path = spec_path.child("terminationGracePeriodSeconds");
        found.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    found.extend(affinity(spec, &spec_path.child("affinity")));
    let servers = spec_path.children(&["dnsConfig", "nameservers"]);
    found.extend(addresses::ips(&servers, texts(part(spec, "dnsConfig"), "nameservers"), None));
    let aliases = list(spec, "hostAliases").iter().map(|alias| text(alias, "ip"));
    found.extend(addresses::ips(&spec_path.child("hostAliases"), aliases, Some("ip")));
    found
}

/// All containers in Kubernetes' order, with their paths.
fn containers<'a>(spec: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let of = |field| list(spec, field).iter().enumerate().map(move |(index, container)| (container, path.child(field).index(index)));
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(of).collect()
}

fn annotation_path(path: &Path, key: &str) -> Path {
    path.children(&["metadata", "annotations"]).key(key)
}

fn seccomp(path: &Path, key: &str) -> String {
    format!("{}: non-functional in v1.27+; use the \"seccompProfile\" field instead", annotation_path(path, key))
}

/// Warnings about the placement of a Pod: labels of nodes that have successors, spreads over nothing.
fn placement(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (label, _) in map(spec, "nodeSelector").into_iter().flatten() {
        if let Some(message) = node_label(label) {
            found.push(format!("{}: {message}", path.child("nodeSelector").key(label)));
        }
    }
    let affinity = part(part(spec, "affinity"), "nodeAffinity");
    let affinity_path = path.children(&["affinity", "nodeAffinity"]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(part(affinity, required), "nodeSelectorTerms").iter().enumerate() {
        let path = affinity_path.children(&[required, "nodeSelectorTerms"]).index(index);
        found.extend(node_selector_term(term, false, &path));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, preferred).iter().enumerate() {
        let path = affinity_path.child(preferred).index(index).child("preference");
        found.extend(node_selector_term(part(term, "preference"), true, &path));
    }
    for (index, spread) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(index);
        let key = text(spread, "topologyKey");
        if let Some(message) = node_label(key) {
            found.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if !has(spread, "labelSelector") {
            found.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
        }
    }
    found
}

/// Warnings about the expressions of a term that selects nodes; `values` says whether they are looked at.
pub(super) fn node_selector_term(term: &Value, values: bool, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let key = text(expression, "key");
        if let Some(message) = node_label(key) {
            found.push(format!("{}: {key} is {message}", path.child("key")));
        }
        for (index, value) in texts(expression, "values").iter().enumerate().filter(|_| values) {
            let path = path.child("values").index(index);
            found.extend(names::label_value(value).iter().map(|message| format!("{path}: {value} is invalid, {message}")));
        }
    }
    found
}

fn volumes(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let volumes = list(spec, "volumes");
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.child("volumes").index(index);
        let (before, after) = storage::PLUGINS.split_at(7);
        let plugins =
            |plugins: &[(&str, &str)]| plugins.iter().filter_map(|(field, _)| storage::plugin(volume, field, &path)).collect::<Vec<_>>();
        found.extend(plugins(before));
        let template = part(part(volume, "ephemeral"), "volumeClaimTemplate");
        found.extend(storage::claim_spec(part(template, "spec"), &path.children(&["ephemeral", "volumeClaimTemplate", "spec"])));
        found.extend(plugins(after));
    }
    found.extend(paths::overlaps(volumes));
    found
}

/// Items of lists that are there twice, or not at all.
fn lists(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (field, member) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut known = BTreeSet::new();
        for (index, item) in list(spec, field).iter().enumerate() {
            let value = text(item, member);
            if !known.insert(value) {
                let path = path.child(field).index(index).child(member);
                found.push(format!("{path}: duplicate {member} {}", quote(value)));
            }
        }
    }
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            found.push(format!("{}: invalid empty name \"\"", path.child("imagePullSecrets").index(index).child("name")));
        }
    }
    found
}

/// The warning about an amount of bytes that is no whole number.
pub(super) fn fractional(holder: &Value, field: &str, resource: &str, path: &Path) -> Option<String> {
    let amount = match part(holder, field).get(resource)? {
        Value::String(text) => Quantity::parse(text).ok()?,
        other => Quantity::parse(&other.to_string()).ok()?,
    };
    let path = path.child(field).key(resource);
    (amount.to_milli() % 1000 != 0).then(|| format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"))
}

/// Warnings about the profiles of a Pod of its own; Kubernetes looks at these before everything else.
pub(super) fn profiles(pod: &Value) -> Vec<String> {
    let spec = part(pod, "spec");
    if text(part(spec, "os"), "name") == "windows" {
        return Vec::new();
    }
    containers(spec, &Path::root()).iter().filter_map(|(container, _)| app_armor(pod, container, &Path::root())).collect()
}

/// An annotation in the place of a field of a container's security context.
fn app_armor(pod: &Value, container: &Value, path: &Path) -> Option<String> {
    if has(part(container, "securityContext"), "appArmorProfile") {
        return None;
    }
    let key = format!("{APP_ARMOR}{}", text(container, "name"));
    let of_pod = part(part(part(pod, "spec"), "securityContext"), "appArmorProfile");
    (!is_profile(of_pod, annotation(pod, &key)?))
        .then(|| format!("{}: deprecated since v1.30; use the \"appArmorProfile\" field instead", annotation_path(path, &key)))
}

/// Returns true if a field says the same as an annotation.
fn is_profile(field: &Value, annotation: &str) -> bool {
    let (kind, local) = match annotation.strip_prefix("localhost/") {
        Some("") => return false,
        Some(local) => ("Localhost", Some(local)),
        None if annotation == "unconfined" => ("Unconfined", None),
        None if annotation == "runtime/default" => ("RuntimeDefault", None),
        None => return false,
    };
    text(field, "type") == kind && part(field, "localhostProfile").as_str() == local
}

/// A variable that is defined twice is intended only if the second refers to the first.
fn environment(container: &Value, path: &Path) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if known.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if has(variable, "valueFrom") || value == reference || !value.contains(&reference) {
            let path = path.index(index);
            found.push(format!("{path}: hides previous definition of {}, which may be dropped when using apply", quote(name)));
        }
    }
    found
}

/// A port that a container listens on.
struct Listener<'a> {
    number: i64,
    protocol: &'a str,
    host_port: i64,
    host_ip: &'a str,
}

impl<'a> Listener<'a> {
    fn of(port: &'a Value) -> Self {
        let number = |field| int(port, field).unwrap_or_default();
        Self {
            number: number("containerPort"),
            protocol: text(port, "protocol"),
            host_port: number("hostPort"),
            host_ip: text(port, "hostIP"),
        }
    }

    /// The conflict between two definitions of one port.
    fn beside(&self, other: &Self) -> Option<&'static str> {
        if self.host_ip == other.host_ip && self.host_port == other.host_port {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if self.host_port == other.host_port && self.host_ip.is_empty() != other.host_ip.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

fn ports(containers: &[(&Value, Path)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeMap<(i64, &str), Vec<(Path, Listener<'_>)>> = BTreeMap::new();
    for (container, path) in containers {
        for (index, given) in list(container, "ports").iter().enumerate() {
            let (path, port) = (path.child("ports").index(index), Listener::of(given));
            if !port.host_ip.is_empty() && port.host_port == 0 {
                let (name, Listener { number, protocol, host_ip, .. }) = (text(given, "name"), &port);
                found.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{host_ip}}}"
                ));
            }
            let same = known.entry((port.number, port.protocol)).or_default();
            for (other_path, other) in same.iter() {
                if let Some(how) = port.beside(other) {
                    found.push(format!("{path}: {how} port definition with {other_path}"));
                }
            }
            same.push((path, port));
        }
    }
    found
}

fn port_names(containers: &[(&Value, Path)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeMap<&str, Path> = BTreeMap::new();
    for (container, path) in containers {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let (name, path) = (text(port, "name"), path.child("ports").index(index));
            if name.is_empty() {
                continue;
            }
            if let Some(other) = known.get(name) {
                found.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    quote(name)
                ));
            } else {
                known.insert(name, path);
            }
        }
    }
    found
}

fn affinity(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for direction in ["podAffinity", "podAntiAffinity"] {
        let rules = part(part(spec, "affinity"), direction);
        for (field, below) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", None),
            ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
        ] {
            for (index, term) in list(rules, field).iter().enumerate() {
                let path = path.children(&[direction, field]).index(index);
                let (term, path) = match below {
                    Some(below) => (part(term, below), path.child(below)),
                    None => (term, path),
                };
                if !has(term, "labelSelector") {
                    found.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
                }
            }
        }
    }
    found
}
