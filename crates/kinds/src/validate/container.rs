//! A container: image, ports, environment, probes, security.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::pod_spec::{app_armor, id, seccomp};
use super::{Errors, all_invalid, flag, int, internal, list, names, not_negative, one_of, one_of_if_set, resources, text, volumes};

pub(super) fn container(container: &Value, known: &[&str], path: &Path) -> Errors {
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
    errors.extend(resize_policy(container, &path.child("resizePolicy")));
    errors.extend(security_context(container, &path.child("securityContext")));
    errors
}

/// What a change of a resource takes: findings name the list, not the item, but for a resource named twice.
fn resize_policy(container: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let resource = text(policy, "resourceName");
        if seen.contains(&resource) {
            errors.push(Error::duplicate(&path.index(index), resource));
        }
        seen.push(resource);
        for (given, known) in [(resource, ["cpu", "memory"]), (text(policy, "restartPolicy"), ["NotRequired", "RestartContainer"])] {
            if given.is_empty() {
                errors.push(Error::required(path, ""));
            } else if !known.contains(&given) {
                errors.push(Error::not_supported(path, given, &known));
            }
        }
    }
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

pub(super) fn host_ports(containers: &[Value], path: &Path) -> Errors {
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
                let (name, path) = (text(given, "name"), item.child(field).child("name"));
                if name.is_empty() {
                    errors.push(Error::required(&path, ""));
                } else {
                    errors.extend(all_invalid(&path, name, names::subdomain(name)));
                }
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

pub(super) fn lifecycle(container: &Value, path: &Path) -> Errors {
    let Some(lifecycle) = container.get("lifecycle") else { return Vec::new() };
    ["postStart", "preStop"]
        .iter()
        .filter_map(|field| lifecycle.get(*field).map(|given| handler(given, &path.child(field))))
        .flatten()
        .collect()
}

pub(super) fn probes(container: &Value, path: &Path) -> Errors {
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

fn security_context(container: &Value, path: &Path) -> Errors {
    let Some(context) = container.get("securityContext").filter(|context| !context.is_null()) else { return Vec::new() };
    let mut errors = id(context, "runAsUser", path);
    errors.extend(id(context, "runAsGroup", path));
    errors.extend(one_of_if_set(context, "procMount", path, &["Default", "Unmasked"]));
    errors.extend(seccomp(context, &path.child("seccompProfile")));
    errors.extend(app_armor(context, &path.child("appArmorProfile")));
    if context.get("allowPrivilegeEscalation") == Some(&json!(false)) {
        if flag(context, "privileged") {
            let words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Error::invalid(path, internal::shown("SecurityContext", context), words));
        }
        if context.pointer("/capabilities/add").and_then(Value::as_array).is_some_and(|add| add.contains(&json!("CAP_SYS_ADMIN"))) {
            let words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(path, internal::shown("SecurityContext", context), words));
        }
    }
    errors
}
