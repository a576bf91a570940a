//! Network policies, ingresses, endpoints.

use std::net::IpAddr;

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, labels, list, map, names, one_of, text, texts};

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(super) fn network_policy(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = labels::selector(spec.get("podSelector"), &path.child("podSelector"));
    for (field, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, field).iter().enumerate() {
            let path = path.child(field).index(index);
            for (at, port) in list(rule, "ports").iter().enumerate() {
                errors.extend(policy_port(port, &path.child("ports").index(at)));
            }
            for (at, peer) in list(rule, peers).iter().enumerate() {
                errors.extend(policy_peer(peer, &path.child(peers).index(at)));
            }
        }
    }
    let types = texts(spec, "policyTypes");
    if types.len() > 2 {
        errors.push(Error::invalid(&path.child("policyTypes"), json!(types), "may not specify more than two policyTypes"));
        return errors;
    }
    for (index, kind) in types.iter().enumerate() {
        if !["Ingress", "Egress"].contains(kind) {
            errors.push(Error::not_supported(&path.child("policyTypes").index(index), *kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

fn policy_port(port: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if has(port, "protocol") && !["TCP", "UDP", "SCTP"].contains(&text(port, "protocol")) {
        errors.push(Error::not_supported(&path.child("protocol"), text(port, "protocol"), &["TCP", "UDP", "SCTP"]));
    }
    match port.get("port").filter(|number| !number.is_null()) {
        Some(Value::String(name)) => {
            if has(port, "endPort") {
                errors.push(Error::invalid(&path.child("endPort"), port.get("endPort"), "may not be specified when `port` is non-numeric"));
            }
            errors.extend(all_invalid(&path.child("port"), name, names::port_name(name)));
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or(0);
            errors.extend(names::port(number).into_iter().map(|words| Error::invalid(&path.child("port"), number, words)));
            if let Some(end) = int(port, "endPort") {
                if end < number {
                    errors.push(Error::invalid(&path.child("endPort"), number, "must be greater than or equal to `port`"));
                }
                errors.extend(names::port(end).into_iter().map(|words| Error::invalid(&path.child("endPort"), end, words)));
            }
        }
        None => {
            if let Some(end) = int(port, "endPort") {
                errors.push(Error::invalid(&path.child("endPort"), end, "may not be specified when `port` is not specified"));
            }
        }
    }
    errors
}

fn policy_peer(peer: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut kinds = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if has(peer, field) {
            kinds += 1;
            errors.extend(labels::selector(peer.get(field), &path.child(field)));
        }
    }
    if let Some(block) = peer.get("ipBlock").filter(|block| !block.is_null()) {
        let whole = path;
        let path = path.child("ipBlock");
        let range = text(block, "cidr");
        if range.is_empty() {
            errors.push(Error::required(&path.child("cidr"), ""));
        } else {
            errors.extend(all_invalid(&path.child("cidr"), range, names::cidr(range)));
        }
        for (index, except) in texts(block, "except").iter().enumerate() {
            let path = path.child("except").index(index);
            let messages = names::cidr(except);
            if messages.is_empty() && names::cidr(range).is_empty() && !contains(range, except) {
                errors.push(Error::invalid(&path, *except, "must be a strict subset of `cidr`"));
            }
            errors.extend(all_invalid(&path, except, messages));
        }
        if kinds > 0 {
            errors.push(Error::forbidden(whole, "may not specify both ipBlock and another peer"));
        }
        kinds += 1;
    }
    if kinds == 0 {
        errors.push(Error::required(path, "must specify a peer"));
    }
    errors
}

/// Returns true if the second range lies within the first and is smaller.
fn contains(outer: &str, inner: &str) -> bool {
    let parse = |text: &str| -> Option<(u128, u32, u32)> {
        let (ip, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        Some(match names::address(ip)? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), length, 32),
            IpAddr::V6(ip) => (u128::from(ip), length, 128),
        })
    };
    let (Some((base, length, bits)), Some((other, longer, other_bits))) = (parse(outer), parse(inner)) else { return false };
    let shift = bits - length.min(bits);
    bits == other_bits && longer > length && base.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
}

pub(super) fn ingress(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    if list(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        errors.push(Error::invalid(&path, spec.get("rules"), "either `defaultBackend` or `rules` must be specified"));
    }
    if let Some(backend) = spec.get("defaultBackend").filter(|backend| !backend.is_null()) {
        errors.extend(ingress_backend(backend, &path.child("defaultBackend")));
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        errors.extend(ingress_rule(rule, &path.child("rules").index(index)));
    }
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(index);
        for (at, host) in texts(tls, "hosts").iter().enumerate() {
            let messages = if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
            errors.extend(all_invalid(&path.child("hosts").index(at), host, messages));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            errors.extend(all_invalid(&path.child("secretName"), secret, names::subdomain(secret)));
        }
    }
    if has(spec, "ingressClassName") {
        let class = text(spec, "ingressClassName");
        errors.extend(all_invalid(&path.child("ingressClassName"), class, names::subdomain(class)));
        let annotation = object.pointer("/metadata/annotations/kubernetes.io~1ingress.class");
        if annotation.is_some_and(|annotation| annotation != class) {
            let path = Path::new("annotations").child("kubernetes.io/ingress.class");
            errors.push(Error::invalid(&path, annotation, "must match `ingressClassName` when both are specified"));
        }
    }
    errors
}

fn ingress_rule(rule: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let host = text(rule, "host");
    if !host.is_empty() {
        if names::address(host).is_some() {
            errors.push(Error::invalid(&path.child("host"), host, "must be a DNS name, not an IP address"));
        }
        let messages = if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
        errors.extend(all_invalid(&path.child("host"), host, messages));
    }
    let Some(http) = rule.get("http") else { return errors };
    let path = path.child("http");
    if list(http, "paths").is_empty() {
        errors.push(Error::required(&path.child("paths"), ""));
    }
    for (index, entry) in list(http, "paths").iter().enumerate() {
        let path = path.child("paths").index(index);
        if !has(entry, "pathType") {
            errors.push(Error::required(&path.child("pathType"), "pathType must be specified"));
            continue;
        }
        let place = text(entry, "path");
        match text(entry, "pathType") {
            "Exact" | "Prefix" => {
                if !place.starts_with('/') {
                    errors.push(Error::invalid(&path.child("path"), place, "must be an absolute path"));
                }
                for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                    if place.contains(bad) {
                        errors.push(Error::invalid(&path.child("path"), place, format!("must not contain '{bad}'")));
                    }
                }
                for bad in ["/..", "/."] {
                    if place.ends_with(bad) {
                        errors.push(Error::invalid(&path.child("path"), place, format!("cannot end with '{bad}'")));
                    }
                }
            }
            "ImplementationSpecific" => {
                if !place.is_empty() && !place.starts_with('/') {
                    errors.push(Error::invalid(&path.child("path"), place, "must be an absolute path"));
                }
            }
            other => {
                errors.push(Error::not_supported(&path.child("pathType"), other, &["Exact", "ImplementationSpecific", "Prefix"]));
            }
        }
        errors.extend(ingress_backend(entry.get("backend").unwrap_or(&Value::Null), &path.child("backend")));
    }
    errors
}

fn ingress_backend(backend: &Value, path: &Path) -> Errors {
    match (backend.get("service"), backend.get("resource")) {
        (Some(_), Some(_)) => vec![Error::invalid(path, "", "cannot set both resource and service backends")],
        (None, None) => vec![Error::invalid(path, "", "resource or service backend is required")],
        (None, Some(resource)) => {
            let path = path.child("resource");
            let group = text(resource, "apiGroup");
            let mut errors =
                if has(resource, "apiGroup") { all_invalid(&path.child("apiGroup"), group, names::subdomain(group)) } else { Vec::new() };
            for field in ["kind", "name"] {
                let value = text(resource, field);
                if value.is_empty() {
                    errors.push(Error::required(&path.child(field), ""));
                } else {
                    errors.extend(all_invalid(&path.child(field), value, names::path_segment(value)));
                }
            }
            errors
        }
        (Some(service), None) => {
            let whole = path;
            let path = path.child("service");
            let mut errors = Vec::new();
            let name = text(service, "name");
            if name.is_empty() {
                errors.push(Error::required(&path.child("name"), ""));
            } else {
                errors.extend(all_invalid(&path.child("name"), name, names::label_1035(name)));
            }
            let port = service.get("port").unwrap_or(&Value::Null);
            let (name, number) = (text(port, "name"), int(port, "number").unwrap_or(0));
            let own = path.child("port");
            match (name.is_empty(), number) {
                (false, 0) => errors.extend(all_invalid(&own.child("name"), name, names::port_name(name))),
                (false, _) => errors.push(Error::invalid(whole, "", "cannot set both port name & port number")),
                (true, 0) => errors.push(Error::required(whole, "port name or number is required")),
                (true, _) => {
                    errors.extend(names::port(number).into_iter().map(|words| Error::invalid(&own.child("number"), number, words)));
                }
            }
            errors
        }
    }
}

pub(super) fn ingress_class(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let (own, controller) = (path.child("controller"), text(spec, "controller"));
    if controller.len() > 250 {
        errors.push(Error::too_long(&own, controller, 250));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.push(Error::required(&own, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            errors.extend(names::subdomain(domain).into_iter().map(|words| Error::invalid(&own, domain, words)));
            errors.extend(all_invalid(&own, controller, url_path(rest)));
        }
        _ => errors.push(Error::invalid(&own, controller, "must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
    let Some(parameters) = spec.get("parameters").filter(|parameters| !parameters.is_null()) else { return errors };
    let path = path.child("parameters");
    let group = text(parameters, "apiGroup");
    if has(parameters, "apiGroup") {
        errors.extend(all_invalid(&path.child("apiGroup"), group, names::subdomain(group)));
    }
    for field in ["kind", "name"] {
        let value = text(parameters, field);
        if value.is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        } else {
            errors.extend(all_invalid(&path.child(field), value, names::path_segment(value)));
        }
    }
    match text(parameters, "scope") {
        "Namespace" if !has(parameters, "namespace") => {
            errors.push(Error::required(&path.child("namespace"), "`parameters.scope` is set to 'Namespace'"));
        }
        "Cluster" if has(parameters, "namespace") => {
            errors.push(Error::forbidden(&path.child("namespace"), "`parameters.scope` is set to 'Cluster'"));
        }
        "Namespace" => {
            let namespace = text(parameters, "namespace");
            errors.extend(all_invalid(&path.child("namespace"), namespace, names::label(namespace)));
        }
        "Cluster" => {}
        _ if !has(parameters, "scope") => errors.push(Error::required(&path.child("scope"), "")),
        other => errors.push(Error::not_supported(&path.child("scope"), other, &["Cluster", "Namespace"])),
    }
    errors
}

pub(super) fn controller_is_immutable(new: &Value, old: &Value) -> Errors {
    let (now, before) = (text(spec(new), "controller"), text(spec(old), "controller"));
    if now == before {
        return Vec::new();
    }
    vec![Error::invalid(&Path::new("spec").child("controller"), now, "field is immutable")]
}

/// The path of a URL: any of it is told by one text.
fn url_path(text: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if text.bytes().all(fits) {
        return Vec::new();
    }
    vec![r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')".to_owned()]
}

pub(super) fn endpoints(object: &Value) -> Errors {
    let mut errors = Vec::new();
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        let path = Path::new("subsets").index(index);
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.push(Error::required(&path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ["addresses", "notReadyAddresses"] {
            for (at, address) in list(subset, field).iter().enumerate() {
                let path = path.child(field).index(at);
                let ip = text(address, "ip");
                errors.extend(all_invalid(&path.child("ip"), ip, names::ip(ip)));
                let host = text(address, "hostname");
                if !host.is_empty() {
                    errors.extend(all_invalid(&path.child("hostname"), host, names::label(host)));
                }
                if has(address, "nodeName") {
                    let node = text(address, "nodeName");
                    errors.extend(all_invalid(&path.child("nodeName"), node, names::subdomain(node)));
                }
                errors.extend(all_invalid(&path.child("ip"), ip, names::not_special(ip)));
            }
        }
        let ports = list(subset, "ports");
        for (at, port) in ports.iter().enumerate() {
            let path = path.child("ports").index(at);
            let name = text(port, "name");
            if name.is_empty() {
                if ports.len() > 1 {
                    errors.push(Error::required(&path.child("name"), ""));
                }
            } else {
                errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
            }
            let number = int(port, "port").unwrap_or(0);
            errors.extend(names::port(number).into_iter().map(|words| Error::invalid(&path.child("port"), number, words)));
            errors.extend(one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
            errors.extend(app_protocol(port, &path));
        }
    }
    errors
}

pub(super) fn endpoint_slice(object: &Value) -> Errors {
    let kind = text(object, "addressType");
    let path = Path::new("addressType");
    if kind.is_empty() {
        return vec![Error::required(&path, "")];
    }
    if !["FQDN", "IPv4", "IPv6"].contains(&kind) {
        return vec![Error::not_supported(&path, kind, &["FQDN", "IPv4", "IPv6"])];
    }
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, port) in list(object, "ports").iter().enumerate() {
        let path = Path::new("ports").index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
        }
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        errors.extend(one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
        errors.extend(app_protocol(port, &path));
    }
    if list(object, "endpoints").len() > 1000 {
        errors.push(Error::too_many(&Path::new("endpoints"), list(object, "endpoints").len() as u64, 1000));
    }
    for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
        let path = Path::new("endpoints").index(index);
        let addresses = texts(endpoint, "addresses");
        let own = path.child("addresses");
        if addresses.is_empty() {
            errors.push(Error::required(&own, "must contain at least 1 address"));
        } else if addresses.len() > 100 {
            errors.push(Error::too_many(&own, addresses.len() as u64, 100));
        }
        for (at, address) in addresses.iter().enumerate() {
            let parsed = names::address(address);
            if kind != "FQDN" && parsed.is_none() {
                errors.extend(all_invalid(&own.index(at), address, names::ip(address)));
                continue;
            }
            match kind {
                // An IPv4-mapped IPv6 address counts as IPv4.
                "IPv4" if !matches!(parsed, Some(IpAddr::V4(_))) && !address.starts_with("::ffff:") => {
                    errors.push(Error::invalid(&own, *address, "must be an IPv4 address"));
                }
                "IPv6" if !matches!(parsed, Some(IpAddr::V6(_))) => errors.push(Error::invalid(&own, *address, "must be an IPv6 address")),
                "FQDN" => errors.extend(full_domain(address, &own.index(at))),
                _ => {}
            }
            if kind != "FQDN" && parsed.is_some() {
                errors.extend(all_invalid(&own.index(at), address, names::not_special(address)));
            }
        }
        if has(endpoint, "nodeName") {
            let node = text(endpoint, "nodeName");
            errors.extend(all_invalid(&path.child("nodeName"), node, names::subdomain(node)));
        }
        errors.extend(labels::labels(map(endpoint, "deprecatedTopology"), &path.child("deprecatedTopology")));
        if has(endpoint, "hostname") {
            let host = text(endpoint, "hostname");
            errors.extend(all_invalid(&path.child("hostname"), host, names::label(host)));
        }
        errors.extend(hints(endpoint, &path.child("hints")));
    }
    errors
}

/// A domain of two or more labels, with or without the dot at its end.
fn full_domain(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        return vec![Error::invalid(path, name, wrong.join(","))];
    }
    if !name.contains('.') {
        return vec![Error::invalid(path, name, "should be a domain with at least two segments separated by dots")];
    }
    let label = name.split('.').map(|label| (label, names::label(label))).find(|(_, wrong)| !wrong.is_empty());
    label.map(|(label, wrong)| Error::invalid(path, label, wrong.join(","))).into_iter().collect()
}

fn app_protocol(port: &Value, path: &Path) -> Errors {
    let protocol = text(port, "appProtocol");
    if has(port, "appProtocol") { all_invalid(&path.child("appProtocol"), protocol, names::qualified(protocol)) } else { Vec::new() }
}

/// Zones and nodes that an endpoint is meant for: each once.
fn hints(endpoint: &Value, path: &Path) -> Errors {
    let Some(hints) = endpoint.get("hints").filter(|hints| !hints.is_null()) else { return Vec::new() };
    let mut errors = Vec::new();
    for (field, rule) in [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)] {
        let path = path.child(field);
        let given = list(hints, field);
        if given.len() > 8 {
            errors.push(Error::too_many(&path, given.len() as u64, 8));
            continue;
        }
        let mut seen: Vec<&str> = Vec::new();
        for (index, hint) in given.iter().enumerate() {
            let (name, path) = (text(hint, "name"), path.index(index).child("name"));
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path, name));
            } else {
                seen.push(name);
            }
            errors.extend(all_invalid(&path, name, rule(name)));
        }
    }
    errors
}
