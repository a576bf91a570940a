//! The specification of a pod, in pods and in templates: containers and what belongs to the pod as a whole.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{
    Errors, all_invalid, container, flag, has, int, internal, labels, list, map, names, one_of, one_of_if_set, resources, scheduling, text,
    texts, volumes,
};

/// Largest user, group and duration that Kubernetes takes.
const MAX_ID: i64 = i32::MAX as i64;

pub(super) fn pod_spec(spec: &Value, path: &Path) -> Errors {
    let (mut errors, known) = volumes::volumes(list(spec, "volumes"), &path.child("volumes"));
    errors.extend(containers(spec, &known, &path.child("containers")));
    errors.extend(init_containers(spec, &known, &path.child("initContainers")));
    errors.extend(host_network(spec, path));
    errors.extend(one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"]));
    errors.extend(one_of(spec, "dnsPolicy", path, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]));
    errors.extend(pod_security_context(spec, path));
    errors.extend(scheduling::affinity(spec, &path.child("affinity")));
    errors.extend(dns_config(spec, path));
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        errors.extend(all_invalid(&path.child("readinessGates").index(index).child("conditionType"), kind, names::qualified(kind)));
    }
    errors.extend(scheduling::scheduling_gates(spec, &path.child("schedulingGates")));
    errors.extend(scheduling::spread_constraints(spec, &path.child("topologySpreadConstraints")));
    for (field, rule) in [("serviceAccountName", names::subdomain as fn(&str) -> Vec<String>), ("nodeName", names::subdomain)] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.extend(all_invalid(&path.child(field), value, rule(value)));
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
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.child("hostAliases").index(index);
        errors.extend(all_invalid(&path.child("ip"), text(alias, "ip"), names::ip(text(alias, "ip"))));
        for (at, name) in texts(alias, "hostnames").iter().enumerate() {
            errors.extend(all_invalid(&path.child("hostnames").index(at), name, names::subdomain(name)));
        }
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.extend(all_invalid(&path.child(field), value, names::subdomain(value)));
        }
    }
    errors.extend(one_of_if_set(spec, "preemptionPolicy", path, &["PreemptLowerPriority", "Never"]));
    if let Some(overhead) = spec.get("overhead").filter(|overhead| overhead.is_object()) {
        errors.extend(resources::requirements(&json!({"limits": overhead}), &path.child("overhead")));
    }
    if let Some(os) = spec.get("os").filter(|os| !os.is_null()) {
        let (name, path) = (text(os, "name"), path.child("os"));
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), "cannot be empty"));
        } else if !["linux", "windows"].contains(&name) {
            errors.push(Error::not_supported(&path, name, &["linux", "windows"]));
        }
    }
    errors.extend(labels::labels(map(spec, "nodeSelector"), &path.child("nodeSelector")));
    errors
}

fn containers(spec: &Value, known: &[&str], path: &Path) -> Errors {
    let given = list(spec, "containers");
    if given.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, container) in given.iter().enumerate() {
        let path = path.index(index);
        errors.extend(container::container(container, known, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.push(name);
        }
        errors.extend(container::lifecycle(container, &path.child("lifecycle")));
        errors.extend(container::probes(container, &path));
    }
    errors.extend(container::host_ports(given, path));
    errors
}

fn init_containers(spec: &Value, known: &[&str], path: &Path) -> Errors {
    let mut seen: Vec<&str> = list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    let mut errors = Vec::new();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let path = path.index(index);
        errors.extend(container::container(container, known, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.push(name);
        }
        let sidecar = text(container, "restartPolicy") == "Always";
        if sidecar {
            errors.extend(container::lifecycle(container, &path.child("lifecycle")));
            errors.extend(container::probes(container, &path));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, field) {
                errors.push(Error::forbidden(&path.child(field), "may not be set for init containers without restartPolicy=Always"));
            }
        }
    }
    errors.extend(container::host_ports(list(spec, "initContainers"), path));
    errors
}

fn host_network(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if !flag(spec, "hostNetwork") {
        return errors;
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or(0);
            if host != int(port, "containerPort").unwrap_or(0) && host != 0 {
                let path = path.child("containers").index(index).child("ports").index(at).child("hostPort");
                errors.push(Error::invalid(&path, host, "must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
    errors
}

pub(super) fn id(context: &Value, field: &str, path: &Path) -> Errors {
    match int(context, field) {
        Some(id) if !(0..=MAX_ID).contains(&id) => {
            vec![Error::invalid(&path.child(field), id, "must be between 0 and 2147483647, inclusive")]
        }
        _ => Vec::new(),
    }
}

pub(super) fn seccomp(context: &Value, path: &Path) -> Errors {
    let Some(profile) = context.get("seccompProfile").filter(|profile| !profile.is_null()) else { return Vec::new() };
    let mut errors = Vec::new();
    let kind = text(profile, "type");
    match (kind, has(profile, "localhostProfile")) {
        ("", _) => errors.push(Error::required(&path.child("type"), "type is required when seccompProfile is set")),
        ("Localhost", false) => {
            errors.push(Error::required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost"));
        }
        ("Localhost", true) => errors.extend(volumes::descending_path(text(profile, "localhostProfile"), &path.child("localhostProfile"))),
        ("RuntimeDefault" | "Unconfined", true) => {
            let words = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&path.child("localhostProfile"), internal::shown("SeccompProfile", profile), words));
        }
        ("RuntimeDefault" | "Unconfined", false) => {}
        (_, localhost) => {
            if localhost {
                let words = "can only be set when seccomp type is Localhost";
                errors.push(Error::invalid(&path.child("localhostProfile"), internal::shown("SeccompProfile", profile), words));
            }
            errors.push(Error::not_supported(&path.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]));
        }
    }
    errors
}

pub(super) fn app_armor(context: &Value, path: &Path) -> Errors {
    let Some(profile) = context.get("appArmorProfile").filter(|profile| !profile.is_null()) else { return Vec::new() };
    let mut errors = Vec::new();
    let (kind, named, own) = (text(profile, "type"), text(profile, "localhostProfile"), path.child("localhostProfile"));
    match kind {
        "Localhost" if !has(profile, "localhostProfile") => {
            errors.push(Error::required(&own, "must be set when AppArmor type is Localhost"));
        }
        "Localhost" => {
            if named.trim() != named {
                errors.push(Error::invalid(&own, named, "must not be padded with whitespace"));
            } else if named.is_empty() {
                errors.push(Error::required(&own, "must be set when AppArmor type is Localhost"));
            }
            if named.len() > 4095 {
                errors.push(Error::too_long(&own, "", 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if has(profile, "localhostProfile") {
                errors.push(Error::invalid(&own, named, "can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(Error::required(&path.child("type"), "type is required when appArmorProfile is set")),
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    errors
}

fn pod_security_context(spec: &Value, path: &Path) -> Errors {
    let own = path.child("securityContext");
    let path = &own;
    let Some(context) = spec.get("securityContext").filter(|context| !context.is_null()) else { return Vec::new() };
    let mut errors = id(context, "fsGroup", path);
    errors.extend(id(context, "runAsUser", path));
    errors.extend(id(context, "runAsGroup", path));
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        if let Some(group) = group.as_i64().filter(|group| !(0..=MAX_ID).contains(group)) {
            let words = "must be between 0 and 2147483647, inclusive";
            errors.push(Error::invalid(&path.child("supplementalGroups").index(index), group, words));
        }
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path.child("shareProcessNamespace"), true, words));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let path = path.child("sysctls").index(index).child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !names::is_sysctl(name) {
            let words =
                r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(Error::invalid(&path, name, words));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        seen.push(name);
    }
    errors.extend(one_of_if_set(context, "fsGroupChangePolicy", path, &["Always", "OnRootMismatch"]));
    errors.extend(seccomp(context, &path.child("seccompProfile")));
    errors.extend(app_armor(context, &path.child("appArmorProfile")));
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
                errors.push(Error::required(&path.child("nameservers"), words));
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
    if list(config, "searches").len() > 32 {
        errors.push(Error::invalid(&path.child("searches"), config.get("searches"), "must not have more than 32 search paths"));
    }
    for (index, search) in texts(config, "searches").iter().enumerate() {
        let bare = search.trim_end_matches('.');
        errors.extend(all_invalid(
            &path.child("searches").index(index),
            search,
            names::subdomain(if bare.is_empty() { "a" } else { bare }),
        ));
    }
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(Error::required(&path.child("options").index(index), "must not be empty"));
        }
    }
    errors
}
