//! The specification of a pod, in pods and in templates: containers and what belongs to the pod as a whole.

use std::collections::BTreeSet;

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{
    Errors, all_invalid, container, flag, has, int, internal, labels, list, map, names, one_of, resources, scheduling, security, text,
    texts, volumes,
};

/// Largest user, group and duration that Kubernetes takes.
pub(super) const MAX_ID: i64 = i32::MAX as i64;

/// The context of a pod that the rules of a container need.
pub(super) struct Frame<'a> {
    /// The volumes without findings: only those can be mounted.
    pub(super) volumes: Vec<&'a Value>,
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) restart_policy: &'a str,
    pub(super) grace_period: Option<i64>,
    /// True if the users of the pod are not those of its node.
    pub(super) own_users: bool,
}

/// Findings about a specification. `pod` is the pod it belongs to; templates have none.
pub(super) fn pod_spec(spec: &Value, pod: Option<&Value>, path: &Path) -> Errors {
    let metadata = pod.and_then(|pod| pod.get("metadata"));
    let (mut errors, volumes) =
        volumes::volumes(list(spec, "volumes"), metadata.map_or("", |metadata| text(metadata, "name")), &path.child("volumes"));
    let claims = list(spec, "resourceClaims");
    let frame = Frame {
        volumes,
        claims: claims.iter().map(|claim| text(claim, "name")).filter(|name| !name.is_empty()).collect(),
        restart_policy: text(spec, "restartPolicy"),
        grace_period: int(spec, "terminationGracePeriodSeconds"),
        own_users: spec.get("hostUsers") == Some(&json!(false)),
    };
    errors.extend(resource_claims(claims, metadata, &path.child("resourceClaims")));
    errors.extend(containers(spec, &frame, &path.child("containers")));
    errors.extend(init_containers(spec, &frame, &path.child("initContainers")));
    errors.extend(ephemeral_containers(spec, &frame, &path.child("ephemeralContainers")));
    errors.extend(resources::of_pod(spec, &frame.claims, path));
    errors.extend(host_network(spec, pod.is_some(), path));
    errors.extend(one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"]));
    errors.extend(one_of(spec, "dnsPolicy", path, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]));
    errors.extend(labels::labels(map(spec, "nodeSelector"), &path.child("nodeSelector")));
    errors.extend(security::of_pod(spec, &path.child("securityContext")));
    errors.extend(scheduling::affinity(spec, &path.child("affinity")));
    errors.extend(dns_config(spec, path));
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        errors.extend(all_invalid(&path.child("readinessGates").index(index).child("conditionType"), kind, names::qualified(kind)));
    }
    errors.extend(scheduling::scheduling_gates(spec, &path.child("schedulingGates")));
    errors.extend(scheduling::spread_constraints(spec, &path.child("topologySpreadConstraints")));
    errors.extend(security::host_processes(spec, path));
    errors.extend(security::own_users(spec, path));
    for field in ["serviceAccountName", "nodeName"] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.extend(all_invalid(&path.child(field), value, names::subdomain(value)));
        }
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && !(1..=MAX_ID).contains(&seconds)
    {
        errors.push(Error::invalid(&path.child("activeDeadlineSeconds"), seconds, "must be between 1 and 2147483647, inclusive"));
    }
    for field in ["hostname", "subdomain"] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.extend(all_invalid(&path.child(field), value, names::label(value)));
        }
    }
    errors.extend(scheduling::tolerations(spec, &path.child("tolerations")));
    errors.extend(host_aliases(spec, &path.child("hostAliases")));
    let class = text(spec, "priorityClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("priorityClassName"), class, names::subdomain(class)));
    }
    if has(spec, "runtimeClassName") {
        let class = text(spec, "runtimeClassName");
        errors.extend(all_invalid(&path.child("runtimeClassName"), class, names::subdomain(class)));
    }
    if has(spec, "preemptionPolicy") {
        errors.extend(one_of(spec, "preemptionPolicy", path, &["PreemptLowerPriority", "Never"]));
    }
    if let Some(overhead) = spec.get("overhead").filter(|overhead| overhead.is_object()) {
        errors.extend(resources::requirements(&json!({"limits": overhead}), &path.child("overhead")));
    }
    errors.extend(security::operating_system(spec, path));
    errors
}

/// All containers of a pod with their paths, in the order in which Kubernetes visits them.
pub(super) fn every_container<'a>(spec: &'a Value, path: &Path) -> impl Iterator<Item = (&'a Value, Path)> + use<'a> {
    let path = path.clone();
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |field| {
        let path = path.child(field);
        list(spec, field).iter().enumerate().map(move |(index, container)| (container, path.index(index)))
    })
}

/// Rules of containers that pods have and templates do not.
pub(super) fn only_in_pods(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if text(spec, "serviceAccountName").is_empty() {
        for (index, volume) in list(spec, "volumes").iter().enumerate() {
            let path = path.child("volumes").index(index).child("projected").child("sources");
            let sources = volume.get("projected").map_or(&[] as &[Value], |projected| list(projected, "sources"));
            for (at, _) in sources.iter().enumerate().filter(|(_, source)| has(source, "serviceAccountToken")) {
                let words = "must not be specified when serviceAccountName is not set";
                errors.push(Error::forbidden(&path.index(at).child("serviceAccountToken"), words));
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, field).iter().enumerate() {
            errors.extend(container::bare_image(container, &path.child(field).index(index)));
        }
    }
    errors
}

fn resource_claims(claims: &[Value], metadata: Option<&Value>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mirror =
        metadata.and_then(|metadata| map(metadata, "annotations")).is_some_and(|all| all.contains_key("kubernetes.io/config.mirror"));
    for (index, claim) in claims.iter().enumerate() {
        if mirror {
            errors.push(Error::forbidden(&Path::root(), "static pods do not support resource claims"));
            continue;
        }
        let path = path.index(index);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else {
            errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
            seen.push(name);
        }
        let words = match (has(claim, "resourceClaimName"), has(claim, "resourceClaimTemplateName")) {
            (true, true) => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            (false, false) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        errors.extend(words.map(|words| Error::invalid(&path, internal::shown("PodResourceClaim", claim), words)));
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if has(claim, field) {
                errors.extend(all_invalid(&path.child(field), text(claim, field), names::subdomain(text(claim, field))));
            }
        }
    }
    errors
}

fn containers(spec: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    let given = list(spec, "containers");
    if given.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, container) in given.iter().enumerate() {
        let path = path.index(index);
        errors.extend(container::container(container, frame, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else {
            seen.push(name);
        }
        errors.extend(container::lifecycle(container, frame, &path.child("lifecycle")));
        errors.extend(container::probes(container, frame, &path));
    }
    errors.extend(container::host_ports(given, path));
    errors
}

fn init_containers(spec: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    let mut seen: Vec<&str> = list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    let mut errors = Vec::new();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let own = path.index(index);
        errors.extend(container::container(container, frame, &own));
        let policy = text(container, "restartPolicy");
        if has(container, "restartPolicy") && policy != "Always" {
            errors.push(Error::not_supported(&own.child("restartPolicy"), policy, &["Always"]));
        }
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&own.child("name"), name));
        } else if !name.is_empty() {
            seen.push(name);
        }
        // They run one by one, so only ports of the same one conflict with each other; Kubernetes then names the first.
        errors.extend(container::host_ports(std::slice::from_ref(container), path));
        if policy == "Always" {
            errors.extend(container::lifecycle(container, frame, &own.child("lifecycle")));
            errors.extend(container::probes(container, frame, &own));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, field) {
                errors.push(Error::forbidden(&own.child(field), "may not be set for init containers without restartPolicy=Always"));
            }
        }
        for (index, resize) in list(container, "resizePolicy").iter().enumerate() {
            if text(resize, "restartPolicy") == "RestartContainer" {
                let words = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(Error::invalid(&own.child("resizePolicy").index(index).child("restartPolicy"), "RestartContainer", words));
            }
        }
    }
    errors
}

fn ephemeral_containers(spec: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    const WORDS: &str = "cannot be set for an Ephemeral Container";
    let others: Vec<&str> =
        ["containers", "initContainers"].iter().flat_map(|field| list(spec, field)).map(|container| text(container, "name")).collect();
    let mut seen = others.clone();
    let mut errors = Vec::new();
    for (index, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(index);
        errors.extend(container::container(container, frame, &path));
        errors.extend(container::bare_image(container, &path));
        let (name, target) = (text(container, "name"), text(container, "targetContainerName"));
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else {
            seen.push(name);
        }
        if !target.is_empty() && !others.contains(&target) {
            errors.push(Error::not_found(&path.child("targetContainerName"), target));
        }
        let fields =
            ["ports", "resources", "resizePolicy", "restartPolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
        for field in fields {
            let empty = container.get(field).is_none_or(|value| value.is_null() || field == "resources" && *value == json!({}));
            if !empty {
                errors.push(Error::forbidden(&path.child(field), WORDS));
            }
        }
        for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    errors.push(Error::forbidden(&path.child("volumeMounts").index(at).child(field), WORDS));
                }
            }
        }
    }
    errors
}

fn host_network(spec: &Value, in_pod: bool, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if !flag(spec, "hostNetwork") {
        return errors;
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or(0);
            // In a template it may still be given by default.
            if host != int(port, "containerPort").unwrap_or(0) && (in_pod || host != 0) {
                let path = path.child("containers").index(index).child("ports").index(at).child("hostPort");
                errors.push(Error::invalid(&path, host, "must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
    errors
}

fn host_aliases(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.index(index);
        errors.extend(all_invalid(&path.child("ip"), text(alias, "ip"), names::ip(text(alias, "ip"))));
        for (at, name) in texts(alias, "hostnames").iter().enumerate() {
            errors.extend(all_invalid(&path.child("hostnames").index(at), name, names::subdomain(name)));
        }
    }
    errors
}

fn dns_config(spec: &Value, path: &Path) -> Errors {
    let path = path.child("dnsConfig");
    let config = spec.get("dnsConfig").filter(|config| !config.is_null());
    let mut errors = Vec::new();
    if text(spec, "dnsPolicy") == "None" {
        match config {
            None => return vec![Error::required(&path, "must provide `dnsConfig` when `dnsPolicy` is None")],
            Some(config) if list(config, "nameservers").is_empty() => {
                let words = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                return vec![Error::required(&path.child("nameservers"), words)];
            }
            Some(_) => {}
        }
    }
    let Some(config) = config else { return errors };
    if list(config, "nameservers").len() > 3 {
        let words = "must not have more than 3 nameservers";
        errors.push(Error::invalid(&path.child("nameservers"), config.get("nameservers"), words));
    }
    for (index, server) in texts(config, "nameservers").iter().enumerate() {
        errors.extend(all_invalid(&path.child("nameservers").index(index), server, names::ip(server)));
    }
    let searches = texts(config, "searches");
    if searches.len() > 32 {
        errors.push(Error::invalid(&path.child("searches"), config.get("searches"), "must not have more than 32 search paths"));
    }
    if searches.join(" ").len() > 2048 {
        let words = "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(Error::invalid(&path.child("searches"), config.get("searches"), words));
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.extend(all_invalid(&path.child("searches").index(index), search, names::search_domain(search)));
    }
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(Error::required(&path.child("options").index(index), "must not be empty"));
        }
    }
    errors
}
