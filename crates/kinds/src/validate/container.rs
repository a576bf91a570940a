//! A container: image, ports, environment, probes, security.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::pod_spec::Frame;
use super::{Errors, all_invalid, int, list, names, not_negative, one_of, resources, security, text, volumes};
use crate::quantity::Quantity;

pub(super) fn container(container: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    } else {
        errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
    }
    if text(container, "image").is_empty() {
        errors.push(Error::required(&path.child("image"), ""));
    }
    errors.extend(one_of(container, "terminationMessagePolicy", path, &["File", "FallbackToLogsOnError"]));
    errors.extend(ports(container, &path.child("ports")));
    errors.extend(environment(container, &path.child("env")));
    errors.extend(environment_from(container, &path.child("envFrom")));
    errors.extend(volumes::mounts(container, &frame.volumes, path));
    errors.extend(one_of(container, "imagePullPolicy", path, &["Always", "IfNotPresent", "Never"]));
    let amounts = container.get("resources").unwrap_or(&Value::Null);
    errors.extend(resources::of_container(amounts, &frame.claims, &path.child("resources")));
    errors.extend(resize_policy(container, frame.restart_policy, &path.child("resizePolicy")));
    errors.extend(security::of_container(container, frame.own_users, &path.child("securityContext")));
    errors
}

/// Images of pods have no blanks around them; those of templates may, for what fills them in later.
pub(super) fn bare_image(container: &Value, path: &Path) -> Errors {
    let image = text(container, "image");
    if image.trim() == image {
        return Vec::new();
    }
    vec![Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace")]
}

/// Findings about `resizePolicy`: they name the list, not the item, except for a resource named twice.
fn resize_policy(container: &Value, restart_policy: &str, path: &Path) -> Errors {
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
        let restart = text(policy, "restartPolicy");
        if restart_policy == "Never" && restart != "NotRequired" {
            errors.push(Error::invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
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
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// A field of the pod itself; `allowed` differs between environments and volumes.
pub(super) fn field_selector(selector: &Value, path: &Path, allowed: &[&str]) -> Errors {
    let (version, field) = (text(selector, "apiVersion"), text(selector, "fieldPath"));
    if version.is_empty() {
        return vec![Error::required(&path.child("apiVersion"), "")];
    }
    let own = path.child("fieldPath");
    if field.is_empty() {
        return vec![Error::required(&own, "")];
    }
    let subscript = field.strip_suffix("']").and_then(|field| field.split_once("['")).filter(|(base, _)| !base.is_empty());
    let problem = match subscript {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some((base, _)) if !["metadata.annotations", "metadata.labels"].contains(&base) => {
            Some(format!("field label does not support subscript: {field}"))
        }
        None if !FIELD_LABELS.contains(&field) && field != "spec.host" => Some(format!("field label not supported: {field}")),
        _ => None,
    };
    if let Some(problem) = problem {
        return vec![Error::invalid(&own, field, format!("error converting fieldPath: {problem}"))];
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            all_invalid(path, &key, names::qualified(&key))
        }
        Some((_, key)) => all_invalid(path, key, names::qualified(key)),
        None => {
            // An old name of the same thing.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if allowed.contains(&field) { Vec::new() } else { vec![Error::not_supported(&own, field, allowed)] }
        }
    }
}

/// An amount of the container's own resources; `volume` says that the container must be named.
pub(super) fn resource_selector(selector: &Value, path: &Path, volume: bool) -> Errors {
    const ALLOWED: &[&str] =
        &["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];
    let resource = text(selector, "resource");
    let mut errors = Vec::new();
    if volume && text(selector, "containerName").is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !ALLOWED.contains(&resource) && !is_huge_pages(resource) {
        errors.push(Error::not_supported(&path.child("resource"), resource, ALLOWED));
    }
    errors.extend(divisor(resource, selector, &path.child("divisor")));
    errors
}

fn is_huge_pages(resource: &str) -> bool {
    ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix))
}

/// Findings about the divisor of an amount, which is one unit of the resource.
fn divisor(resource: &str, selector: &Value, path: &Path) -> Errors {
    let given = selector.get("divisor").and_then(Value::as_str).unwrap_or("0");
    if Quantity::parse(given).is_ok_and(|given| given.sign().is_eq()) {
        return Vec::new();
    }
    let units = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (known, told, of) = match resource.split_once('.') {
        Some(("limits" | "requests", "cpu")) => ("1m, 1", "1m and 1", "cpu"),
        Some(("limits" | "requests", "memory")) => (units, units, "memory"),
        Some(("limits" | "requests", "ephemeral-storage")) => (units, units, "local ephemeral storage"),
        _ if is_huge_pages(resource) => (units, units, "hugepages"),
        _ => return Vec::new(),
    };
    if known.split(", ").any(|unit| unit == given) {
        return Vec::new();
    }
    vec![Error::invalid(path, resource, format!("only divisor's values {told} are supported with the {of} resource"))]
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

pub(super) fn lifecycle(container: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    let Some(lifecycle) = container.get("lifecycle") else { return Vec::new() };
    ["postStart", "preStop"]
        .iter()
        .filter_map(|field| {
            lifecycle.get(*field).map(|given| handler(given, &["exec", "httpGet", "tcpSocket", "sleep"], frame, &path.child(field)))
        })
        .flatten()
        .collect()
}

pub(super) fn probes(container: &Value, frame: &Frame<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(field).filter(|probe| !probe.is_null()) else { continue };
        let path = path.child(field);
        errors.extend(handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], frame, &path));
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
            errors.extend(not_negative(probe, number, &path));
        }
        let (grace, own) = (int(probe, "terminationGracePeriodSeconds"), path.child("terminationGracePeriodSeconds"));
        if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
            errors.push(Error::invalid(&own, seconds, "must be greater than 0"));
        }
        if field == "readinessProbe" {
            errors.extend(grace.map(|seconds| Error::invalid(&own, seconds, "must not be set for readinessProbes")));
        } else if let Some(threshold) = int(probe, "successThreshold").filter(|threshold| *threshold != 1) {
            errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
        }
    }
    errors
}

fn handler(given: &Value, kinds: &[&str], frame: &Frame<'_>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut handlers = 0;
    for field in kinds {
        let Some(action) = given.get(*field).filter(|action| !action.is_null()) else { continue };
        let path = path.child(field);
        handlers += 1;
        if handlers > 1 {
            errors.push(Error::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        let port = action.get("port").unwrap_or(&Value::Null);
        match *field {
            "exec" if list(action, "command").is_empty() => errors.push(Error::required(&path.child("command"), "")),
            "httpGet" => {
                if text(action, "path").is_empty() {
                    errors.push(Error::required(&path.child("path"), ""));
                }
                errors.extend(port_or_name(port, &path.child("port")));
                let scheme = text(action, "scheme");
                if !["HTTP", "HTTPS"].contains(&scheme) {
                    errors.push(Error::not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
                }
                for header in list(action, "httpHeaders") {
                    let name = text(header, "name");
                    errors.extend(all_invalid(&path.child("httpHeaders"), name, names::header_name(name)));
                }
            }
            "tcpSocket" => errors.extend(port_or_name(port, &path.child("port"))),
            "grpc" => errors.extend(port_number(port.as_i64().unwrap_or(0), &path.child("port"))),
            "sleep" => {
                let seconds = int(action, "seconds").unwrap_or(0);
                if let Some(grace) = frame.grace_period.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let words = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.push(Error::invalid(&path, seconds, words));
                }
            }
            _ => {}
        }
    }
    if handlers == 0 {
        errors.push(Error::required(path, "must specify a handler type"));
    }
    errors
}
