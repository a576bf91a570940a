//! The specification of a pod, in pods and in templates: containers and what belongs to the pod as a whole.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{
    Errors, all_invalid, flag, has, int, labels, list, map, names, not_negative, one_of, one_of_if_set, resources, text, texts, volumes,
};

/// Largest user, group and duration that Kubernetes takes.
const MAX_ID: i64 = i32::MAX as i64;

pub(super) fn pod_spec(spec: &Value, path: &Path) -> Errors {
    let mut errors = volumes::volumes(list(spec, "volumes"), &path.child("volumes"));
    let known = volumes::names(list(spec, "volumes"));
    errors.extend(containers(spec, &known, &path.child("containers")));
    errors.extend(init_containers(spec, &known, &path.child("initContainers")));
    errors.extend(host_network(spec, path));
    errors.extend(one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"]));
    errors.extend(one_of(spec, "dnsPolicy", path, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]));
    errors.extend(pod_security_context(spec, path));
    errors.extend(affinity(spec, &path.child("affinity")));
    errors.extend(dns_config(spec, path));
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        errors.extend(all_invalid(&path.child("readinessGates").index(index).child("conditionType"), kind, names::qualified(kind)));
    }
    errors.extend(scheduling_gates(spec, &path.child("schedulingGates")));
    errors.extend(spread_constraints(spec, &path.child("topologySpreadConstraints")));
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
    errors.extend(tolerations(spec, &path.child("tolerations")));
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
    if let Some(overhead) = map(spec, "overhead") {
        errors.extend(resources::list_of_container(overhead, &path.child("overhead")));
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
        errors.extend(self::container(container, known, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.push(name);
        }
        errors.extend(lifecycle(container, &path.child("lifecycle")));
        errors.extend(probes(container, &path));
    }
    errors.extend(host_ports(given, path));
    errors
}

fn init_containers(spec: &Value, known: &[&str], path: &Path) -> Errors {
    let mut seen: Vec<&str> = list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    let mut errors = Vec::new();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let path = path.index(index);
        errors.extend(self::container(container, known, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.push(name);
        }
        let sidecar = text(container, "restartPolicy") == "Always";
        if sidecar {
            errors.extend(lifecycle(container, &path.child("lifecycle")));
            errors.extend(probes(container, &path));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, field) {
                errors.push(Error::forbidden(&path.child(field), "may not be set for init containers without restartPolicy=Always"));
            }
        }
    }
    errors.extend(host_ports(list(spec, "initContainers"), path));
    errors
}

fn container(container: &Value, known: &[&str], path: &Path) -> Errors {
    let mut errors = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    } else {
        errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.push(Error::required(&path.child("image"), ""));
    } else if image.trim() != image {
        errors.push(Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace"));
    }
    errors.extend(one_of(container, "terminationMessagePolicy", path, &["File", "FallbackToLogsOnError"]));
    errors.extend(ports(container, &path.child("ports")));
    errors.extend(environment(container, &path.child("env")));
    errors.extend(environment_from(container, &path.child("envFrom")));
    errors.extend(volumes::mounts(container, known, path));
    errors.extend(one_of(container, "imagePullPolicy", path, &["Always", "IfNotPresent", "Never"]));
    errors.extend(resources::requirements(container.get("resources").unwrap_or(&Value::Null), &path.child("resources")));
    errors.extend(security_context(container, &path.child("securityContext")));
    errors
}

fn ports(container: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if !messages.is_empty() {
                errors.extend(all_invalid(&path.child("name"), name, messages));
            } else if seen.contains(&name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            } else {
                seen.push(name);
            }
        }
        match int(port, "containerPort").unwrap_or(0) {
            0 => errors.push(Error::required(&path.child("containerPort"), "")),
            number => errors.extend(port_number(number, &path.child("containerPort"))),
        }
        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            errors.extend(port_number(number, &path.child("hostPort")));
        }
        errors.extend(one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
    }
    errors
}

fn port_number(number: i64, path: &Path) -> Errors {
    names::port(number).into_iter().map(|message| Error::invalid(path, number, message)).collect()
}

/// A port by number or by name.
pub(super) fn port_or_name(port: &Value, path: &Path) -> Errors {
    match port {
        Value::String(name) => all_invalid(path, name, names::port_name(name)),
        other => port_number(other.as_i64().unwrap_or(0), path),
    }
}

fn host_ports(containers: &[Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let Some(number) = int(port, "hostPort").filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if seen.contains(&key) {
                errors.push(Error::duplicate(&path.index(index).child("ports").index(at).child("hostPort"), key));
            } else {
                seen.push(key);
            }
        }
    }
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

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FIELD_LABELS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// A field of the pod itself; `allowed` differs between environments and volumes.
pub(super) fn field_selector(selector: &Value, path: &Path, allowed: &[&str]) -> Errors {
    if text(selector, "apiVersion").is_empty() {
        return vec![Error::required(&path.child("apiVersion"), "")];
    }
    let field = text(selector, "fieldPath");
    let path = path.child("fieldPath");
    if field.is_empty() {
        return vec![Error::required(&path, "")];
    }
    if let Some((base, key)) = field.strip_suffix("']").and_then(|field| field.split_once("['")) {
        return match base {
            "metadata.annotations" => all_invalid(&path, key, names::qualified(&key.to_lowercase())),
            "metadata.labels" => all_invalid(&path, key, names::qualified(key)),
            _ => vec![Error::invalid(&path, field, "does not support subscript")],
        };
    }
    if !FIELD_LABELS.contains(&field) {
        return vec![Error::invalid(&path, field, format!("error converting fieldPath: field label not supported: {field}"))];
    }
    if allowed.contains(&field) { Vec::new() } else { vec![Error::not_supported(&path, field, allowed)] }
}

/// An amount of the container's own resources; `volume` says that the container must be named.
pub(super) fn resource_selector(selector: &Value, path: &Path, volume: bool) -> Errors {
    const ALLOWED: &[&str] =
        &["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];
    if volume && text(selector, "containerName").is_empty() {
        return vec![Error::required(&path.child("containerName"), "")];
    }
    let resource = text(selector, "resource");
    let path = path.child("resource");
    if resource.is_empty() {
        return vec![Error::required(&path, "")];
    }
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if ALLOWED.contains(&resource) || huge { Vec::new() } else { vec![Error::not_supported(&path, resource, ALLOWED)] }
}

fn environment(container: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else {
            errors.extend(all_invalid(&path.child("name"), name, names::env_name(name)));
        }
        if let Some(source) = variable.get("valueFrom").filter(|source| !source.is_null()) {
            errors.extend(value_from(variable, source, &path.child("valueFrom")));
        }
    }
    errors
}

fn value_from(variable: &Value, source: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut sources = 0;
    for field in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(given) = source.get(field) else { continue };
        sources += 1;
        let path = path.child(field);
        errors.extend(match field {
            "fieldRef" => field_selector(given, &path, ENV_FIELDS),
            "resourceFieldRef" => resource_selector(given, &path, false),
            "fileKeyRef" => Vec::new(),
            _ => key_selector(given, &path),
        });
    }
    if sources == 0 {
        let words = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.push(Error::invalid(path, "", words));
    } else if !text(variable, "value").is_empty() {
        errors.push(Error::invalid(path, "", "may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(Error::invalid(path, "", "may not have more than one field specified at a time"));
    }
    errors
}

fn key_selector(selector: &Value, path: &Path) -> Errors {
    let (name, key) = (text(selector, "name"), text(selector, "key"));
    let mut errors = all_invalid(&path.child("name"), name, names::subdomain(name));
    if key.is_empty() {
        errors.push(Error::required(&path.child("key"), ""));
    } else {
        errors.extend(all_invalid(&path.child("key"), key, names::config_key(key)));
    }
    errors
}

fn environment_from(container: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let item = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.extend(all_invalid(&item.child("prefix"), prefix, names::env_name(prefix)));
        }
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(given) = source.get(field) {
                sources += 1;
                let name = text(given, "name");
                errors.extend(all_invalid(&item.child(field).child("name"), name, names::subdomain(name)));
            }
        }
        match sources {
            0 => errors.push(Error::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(Error::invalid(path, "", "may not have more than one field specified at a time")),
        }
    }
    errors
}

fn lifecycle(container: &Value, path: &Path) -> Errors {
    let Some(lifecycle) = container.get("lifecycle") else { return Vec::new() };
    ["postStart", "preStop"]
        .iter()
        .filter_map(|field| lifecycle.get(*field).map(|given| handler(given, &path.child(field))))
        .flatten()
        .collect()
}

fn probes(container: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(field).filter(|probe| !probe.is_null()) else { continue };
        let path = path.child(field);
        errors.extend(handler(probe, &path));
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
            errors.extend(not_negative(probe, number, &path));
        }
        let grace = int(probe, "terminationGracePeriodSeconds");
        if field == "readinessProbe" {
            if grace.is_some() {
                errors.push(Error::invalid(
                    &path.child("terminationGracePeriodSeconds"),
                    grace.unwrap_or(0),
                    "must not be set for readinessProbes",
                ));
            }
            continue;
        }
        if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
            errors.push(Error::invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0"));
        }
        if let Some(threshold) = int(probe, "successThreshold").filter(|threshold| *threshold != 1) {
            errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
        }
    }
    errors
}

fn handler(given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut handlers = 0;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = given.get(field).filter(|action| !action.is_null()) else { continue };
        let path = path.child(field);
        handlers += 1;
        if handlers > 1 {
            errors.push(Error::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        let port = action.get("port").unwrap_or(&Value::Null);
        match field {
            "exec" if list(action, "command").is_empty() => errors.push(Error::required(&path.child("command"), "")),
            "httpGet" => {
                if text(action, "path").is_empty() {
                    errors.push(Error::required(&path.child("path"), ""));
                }
                errors.extend(port_or_name(port, &path.child("port")));
                errors.extend(one_of(action, "scheme", &path, &["HTTP", "HTTPS"]));
            }
            "tcpSocket" => errors.extend(port_or_name(port, &path.child("port"))),
            "grpc" => errors.extend(port_number(port.as_i64().unwrap_or(0), &path.child("port"))),
            _ => {}
        }
    }
    if handlers == 0 {
        errors.push(Error::required(path, "must specify a handler type"));
    }
    errors
}

fn id(context: &Value, field: &str, path: &Path) -> Errors {
    match int(context, field) {
        Some(id) if !(0..=MAX_ID).contains(&id) => {
            vec![Error::invalid(&path.child(field), id, "must be between 0 and 2147483647, inclusive")]
        }
        _ => Vec::new(),
    }
}

fn security_context(container: &Value, path: &Path) -> Errors {
    let Some(context) = container.get("securityContext").filter(|context| !context.is_null()) else { return Vec::new() };
    let mut errors = id(context, "runAsUser", path);
    errors.extend(id(context, "runAsGroup", path));
    errors.extend(one_of_if_set(context, "procMount", path, &["Default", "Unmasked"]));
    errors.extend(seccomp(context, &path.child("seccompProfile")));
    if context.get("allowPrivilegeEscalation") == Some(&json!(false)) {
        if flag(context, "privileged") {
            let words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Error::invalid(path, shown_context(context), words));
        }
        if context.pointer("/capabilities/add").and_then(Value::as_array).is_some_and(|add| add.contains(&json!("CAP_SYS_ADMIN"))) {
            let words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(path, shown_context(context), words));
        }
    }
    errors
}

/// A security context as findings print it: the members of Kubernetes' struct, in its order.
fn shown_context(context: &Value) -> BadValue {
    let members: Vec<String> = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ]
    .iter()
    .map(|(shown, field)| format!("\"{shown}\":{}", context.get(*field).map_or_else(|| "null".to_owned(), capitalised)))
    .collect();
    BadValue::Json(format!("{{{}}}", members.join(",")))
}

/// Members named as Go structs name them.
fn capitalised(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<String> = map
                .iter()
                .map(|(key, value)| {
                    let mut letters = key.chars();
                    let first = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
                    format!("\"{}\":{}", first.chain(letters).collect::<String>(), capitalised(value))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

fn seccomp(context: &Value, path: &Path) -> Errors {
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
            errors.push(Error::invalid(&path.child("localhostProfile"), text(profile, "localhostProfile"), words));
        }
        ("RuntimeDefault" | "Unconfined", false) => {}
        _ => errors.push(Error::not_supported(&path.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"])),
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

fn scheduling_gates(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        let path = path.index(index);
        errors.extend(all_invalid(&path, name, names::qualified(name)));
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        seen.push(name);
    }
    errors
}

fn spread_constraints(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(Error::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
        } else {
            errors.extend(all_invalid(&path.child("topologyKey"), key, names::qualified(key)));
        }
        let action = text(constraint, "whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.push(Error::not_supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]));
        }
        errors.extend(labels::selector(constraint.get("labelSelector"), &path.child("labelSelector")));
    }
    errors
}

fn tolerations(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = path.index(index);
        let (key, operator, effect) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
        }
        if key.is_empty() && operator != "Exists" {
            let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&path.child("operator"), operator, words));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            errors.push(Error::invalid(&path.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator {
            "Equal" | "" => {
                let value = text(toleration, "value");
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.push(Error::invalid(&path.child("operator"), value, messages.join(";")));
                }
            }
            "Exists" => {
                if !text(toleration, "value").is_empty() {
                    let words = "value must be empty when `operator` is 'Exists'";
                    errors.push(Error::invalid(&path.child("operator"), shown_toleration(toleration), words));
                }
            }
            other => errors.push(Error::not_supported(&path.child("operator"), other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            errors.push(Error::not_supported(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
    }
    errors
}

fn shown_toleration(toleration: &Value) -> BadValue {
    let member = |field: &str| json!(text(toleration, field)).to_string();
    let seconds = toleration.get("tolerationSeconds").map_or_else(|| "null".to_owned(), Value::to_string);
    BadValue::Json(format!(
        "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{seconds}}}",
        member("key"),
        member("operator"),
        member("value"),
        member("effect")
    ))
}

fn affinity(spec: &Value, path: &Path) -> Errors {
    let Some(affinity) = spec.get("affinity") else { return Vec::new() };
    let mut errors = Vec::new();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = affinity.get("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(selector) = node.get(required) {
            errors.extend(node_selector(selector, &path.child(required)));
        }
        for (index, term) in list(node, preferred).iter().enumerate() {
            let path = path.child(preferred).index(index);
            errors.extend(weight(term, &path));
            errors.extend(node_term(term.get("preference").unwrap_or(&Value::Null), &path.child("preference")));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        let path = path.child(kind);
        for (index, term) in list(pods, required).iter().enumerate() {
            errors.extend(pod_term(term, &path.child(required).index(index)));
        }
        for (index, term) in list(pods, preferred).iter().enumerate() {
            let path = path.child(preferred).index(index);
            errors.extend(weight(term, &path));
            errors.extend(pod_term(term.get("podAffinityTerm").unwrap_or(&Value::Null), &path.child("podAffinityTerm")));
        }
    }
    errors
}

fn weight(term: &Value, path: &Path) -> Errors {
    let weight = int(term, "weight").unwrap_or(0);
    if (1..=100).contains(&weight) { Vec::new() } else { vec![Error::invalid(&path.child("weight"), weight, "must be in the range 1-100")] }
}

fn pod_term(term: &Value, path: &Path) -> Errors {
    let mut errors = labels::selector(term.get("labelSelector"), &path.child("labelSelector"));
    errors.extend(labels::selector(term.get("namespaceSelector"), &path.child("namespaceSelector")));
    for (index, namespace) in texts(term, "namespaces").iter().enumerate() {
        errors.extend(all_invalid(&path.child("namespace").index(index), namespace, names::label(namespace)));
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    errors.extend(if key.is_empty() { Vec::new() } else { all_invalid(&path.child("topologyKey"), key, names::qualified(key)) });
    errors
}

/// Terms that select nodes.
pub(super) fn node_selector(selector: &Value, path: &Path) -> Errors {
    let terms = list(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        return vec![Error::required(&path, "must have at least one node selector term")];
    }
    terms.iter().enumerate().flat_map(|(index, term)| node_term(term, &path.index(index))).collect()
}

fn node_term(term: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = list(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(Error::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(Error::forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.push(Error::required(&path.child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
        }
        let key = text(expression, "key");
        errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
    }
    errors
}
