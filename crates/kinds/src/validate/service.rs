//! Services.

use std::net::IpAddr;

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, labels, list, map, names, one_of, one_of_if_set, text, texts};

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

const NONE: &str = "None";

pub(super) fn service(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let kind = text(spec, "type");
    let addresses = texts(spec, "clusterIPs");
    let headless = text(spec, "clusterIP") == NONE || addresses.first() == Some(&NONE);
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    match kind {
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if has(spec, field) && spec.get(field) != Some(&json!([])) {
                    errors.push(Error::forbidden(&path.child(field), "may not be set for ExternalName services"));
                }
            }
            let name = text(spec, "externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.push(Error::required(&path.child("externalName"), ""));
            } else {
                errors.extend(all_invalid(&path.child("externalName"), name, names::subdomain(name)));
            }
        }
        "LoadBalancer" | "NodePort" | "ClusterIP" if kind != "ClusterIP" && headless => {
            let words = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid(&path.child("clusterIPs").index(0), NONE, words));
        }
        _ => {}
    }
    errors.extend(ports(spec, &path));
    errors.extend(labels::labels(map(spec, "selector"), &path.child("selector")));
    errors.extend(one_of(spec, "sessionAffinity", &path, &["ClientIP", "None"]));
    errors.extend(affinity(spec, &path));
    errors.extend(cluster_addresses(spec, &path));
    for (index, address) in texts(spec, "externalIPs").iter().enumerate() {
        let path = path.child("externalIPs").index(index);
        let messages = names::ip(address);
        if messages.is_empty() {
            errors.extend(all_invalid(&path, address, names::not_special(address)));
        } else {
            errors.extend(all_invalid(&path, address, messages));
        }
    }
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), ""));
    } else if !["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"].contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    }
    errors.extend(load_balancer(spec, &path, kind));
    errors.extend(traffic_policies(spec, &path, kind));
    errors
}

fn ports(spec: &Value, path: &Path) -> Errors {
    let given = list(spec, "ports");
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, port) in given.iter().enumerate() {
        let path = path.child("ports").index(index);
        let name = text(port, "name");
        if name.is_empty() {
            if given.len() > 1 {
                errors.push(Error::required(&path.child("name"), ""));
            }
        } else {
            errors.extend(all_invalid(&path.child("name"), name, names::label(name)));
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            seen.push(name);
        }
        let number = int(port, "port").unwrap_or(0);
        errors.extend(names::port(number).into_iter().map(|words| Error::invalid(&path.child("port"), number, words)));
        errors.extend(one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        errors.extend(super::container::port_or_name(target, &path.child("targetPort")));
        let protocol = text(port, "appProtocol");
        if !protocol.is_empty() {
            errors.extend(all_invalid(&path.child("appProtocol"), protocol, names::qualified(protocol)));
        }
        if text(spec, "type") == "ClusterIP" && int(port, "nodePort").is_some_and(|port| port != 0) {
            errors.push(Error::forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'"));
        }
    }
    // The same port and protocol twice would be ambiguous.
    let mut taken: Vec<(i64, &str)> = Vec::new();
    for (index, port) in given.iter().enumerate() {
        let key = (int(port, "port").unwrap_or(0), text(port, "protocol"));
        if taken.contains(&key) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(key.1),
                key.0
            );
            errors.push(Error::duplicate(&path.child("ports").index(index), BadValue::Json(shown)));
        }
        taken.push(key);
    }
    errors
}

fn affinity(spec: &Value, path: &Path) -> Errors {
    let path = path.child("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {}
        "None" if has(spec, "sessionAffinityConfig") => {
            return vec![Error::forbidden(&path, "must not be set when session affinity is None")];
        }
        _ => return Vec::new(),
    }
    let seconds = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").and_then(Value::as_i64);
    match seconds {
        Some(seconds) if !(1..=86400).contains(&seconds) => {
            vec![Error::invalid(&path.child("clientIP").child("timeoutSeconds"), seconds, "must be greater than 0 and less than 86400")]
        }
        _ => Vec::new(),
    }
}

/// Findings that come before all others, since Kubernetes gives out addresses first: addresses and their families. Refusals of these stand alone.
/// The cluster is one of IPv4 only.
pub(super) fn families(object: &Value, old: Option<&Value>) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    if text(spec, "type") == "ExternalName" || old.is_some_and(|old| prefers_as_before(spec, self::spec(old))) {
        return Vec::new();
    }
    let mut errors = cluster_addresses(spec, &path);
    if !errors.is_empty() {
        return errors;
    }
    let (addresses, given, policy) = (texts(spec, "clusterIPs"), texts(spec, "ipFamilies"), text(spec, "ipFamilyPolicy"));
    let own = path.child("ipFamilyPolicy");
    if policy == "SingleStack" {
        for (_, what) in [(addresses.len(), "cluster IPs"), (given.len(), "IP families")].into_iter().filter(|(count, _)| *count == 2) {
            let words = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(Error::invalid(&own, policy, words));
        }
    }
    let headless = addresses.first() == Some(&NONE);
    for (index, address) in addresses.iter().enumerate().skip(given.len()).filter(|_| !headless) {
        if names::address(address).is_some_and(|address| address.is_ipv6() && address.to_canonical() == address) {
            errors.push(Error::invalid(&path.child("clusterIPs").index(index), json!(addresses), "IPv6 is not configured on this cluster"));
        }
    }
    // A Service that selects no pods of its own may say anything about families.
    if !errors.is_empty() || headless && map(spec, "selector").is_none_or(serde_json::Map::is_empty) {
        return errors;
    }
    if policy == "RequireDualStack" {
        errors.push(Error::invalid(&own, policy, "this cluster is not configured for dual-stack services"));
    }
    for (index, family) in given.iter().enumerate().filter(|(_, family)| **family == "IPv6") {
        errors.push(Error::invalid(&path.child("ipFamilies").index(index), *family, "not configured on this cluster"));
    }
    errors
}

/// Returns true for a Service that took two families when there were two: it keeps what it has.
fn prefers_as_before(spec: &Value, before: &Value) -> bool {
    let same = |field: &str| spec.get(field) == before.get(field);
    text(spec, "ipFamilyPolicy") == "PreferDualStack" && ["ipFamilyPolicy", "ipFamilies", "clusterIPs"].into_iter().all(same)
}

fn cluster_addresses(spec: &Value, path: &Path) -> Errors {
    if text(spec, "type") == "ExternalName" {
        return Vec::new();
    }
    let (own, addresses, single) = (path.child("clusterIPs"), texts(spec, "clusterIPs"), text(spec, "clusterIP"));
    let mut errors = Vec::new();
    match addresses.first() {
        None if !single.is_empty() => errors.push(Error::required(&own, "")),
        Some(_) if single.is_empty() => {
            errors.push(Error::invalid(&own, json!(addresses), "must be empty when `clusterIP` is not specified"));
        }
        Some(first) if *first != single => errors.push(Error::invalid(&own, json!(addresses), "first value must match `clusterIP`")),
        _ => {}
    }
    let families = texts(spec, "ipFamilies");
    for (index, family) in families.iter().enumerate() {
        let path = path.child("ipFamilies").index(index);
        if !["IPv4", "IPv6"].contains(family) {
            errors.push(Error::not_supported(&path, *family, &["IPv4", "IPv6"]));
        }
        if families[..index].contains(family) {
            errors.push(Error::duplicate(&path, *family));
        }
    }
    errors.extend(one_of_if_set(spec, "ipFamilyPolicy", path, &["PreferDualStack", "RequireDualStack", "SingleStack"]));
    let headless = addresses.first() == Some(&NONE);
    let mut unreadable = headless && addresses.len() > 1;
    if unreadable {
        errors.push(Error::invalid(&own, json!(addresses), "'None' must be the first and only value"));
    }
    for (index, address) in addresses.iter().enumerate().skip(usize::from(headless)) {
        let messages = names::ip(address);
        unreadable |= !messages.is_empty();
        errors.extend(all_invalid(&own.index(index), address, messages));
    }
    if addresses.len() > 2 {
        errors.push(Error::invalid(&own, json!(addresses), "may only hold up to 2 values"));
    }
    if unreadable {
        return errors;
    }
    let is_six = |address: &str| matches!(names::address(address), Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none());
    if addresses.len() > 1 && addresses.iter().all(|address| is_six(address) == is_six(addresses[0])) {
        errors.push(Error::invalid(&own, json!(addresses), "may specify no more than one IP for each IP family"));
    }
    for (index, (address, family)) in addresses.iter().zip(&families).enumerate().filter(|_| !headless) {
        if (*family == "IPv4" && is_six(address)) || (*family == "IPv6" && !is_six(address)) {
            let words = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid(&own.index(index), *address, words));
        }
    }
    errors
}

fn load_balancer(spec: &Value, path: &Path, kind: &str) -> Errors {
    let mut errors = Vec::new();
    let ranges = texts(spec, "loadBalancerSourceRanges");
    let own = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && kind != "LoadBalancer" {
        errors.push(Error::forbidden(&own, "may only be used when `type` is 'LoadBalancer'"));
    }
    for (index, range) in ranges.iter().map(|range| range.trim()).enumerate() {
        errors.extend(all_invalid(&own.index(index), range, names::cidr(range)));
    }
    if kind != "LoadBalancer" && has(spec, "allocateLoadBalancerNodePorts") {
        let words = "may only be used when `type` is 'LoadBalancer'";
        errors.push(Error::forbidden(&path.child("allocateLoadBalancerNodePorts"), words));
    }
    if kind == "LoadBalancer" && !has(spec, "allocateLoadBalancerNodePorts") {
        errors.push(Error::required(&path.child("allocateLoadBalancerNodePorts"), ""));
    }
    errors.extend(load_balancer_class(spec, path));
    errors
}

fn load_balancer_class(spec: &Value, path: &Path) -> Errors {
    if !has(spec, "loadBalancerClass") {
        return Vec::new();
    }
    let (path, class) = (path.child("loadBalancerClass"), text(spec, "loadBalancerClass"));
    if text(spec, "type") == "LoadBalancer" {
        all_invalid(&path, class, names::qualified(class))
    } else {
        vec![Error::forbidden(&path, "may only be used when `type` is 'LoadBalancer'")]
    }
}

fn traffic_policies(spec: &Value, path: &Path, kind: &str) -> Errors {
    let mut errors = Vec::new();
    let external = matches!(kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    if external {
        if policy.is_empty() {
            errors.push(Error::required(&path.child("externalTrafficPolicy"), ""));
        } else if !["Cluster", "Local"].contains(&policy) {
            errors.push(Error::not_supported(&path.child("externalTrafficPolicy"), policy, &["Cluster", "Local"]));
        }
    } else if !policy.is_empty() {
        errors.push(Error::invalid(&path.child("externalTrafficPolicy"), policy, "may only be set for externally-accessible services"));
    }
    let health = int(spec, "healthCheckNodePort").unwrap_or(0);
    if health != 0 && !(kind == "LoadBalancer" && policy == "Local") {
        let words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(Error::invalid(&path.child("healthCheckNodePort"), health, words));
    }
    let internal = text(spec, "internalTrafficPolicy");
    if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        if !has(spec, "internalTrafficPolicy") {
            errors.push(Error::required(&path.child("internalTrafficPolicy"), ""));
        } else if !["Cluster", "Local"].contains(&internal) {
            errors.push(Error::not_supported(&path.child("internalTrafficPolicy"), internal, &["Cluster", "Local"]));
        }
    }
    if has(spec, "trafficDistribution") {
        let given = text(spec, "trafficDistribution");
        if !["PreferClose", "PreferSameZone", "PreferSameNode"].contains(&given) {
            let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
            errors.push(Error::not_supported(&path.child("trafficDistribution"), given, &known));
        }
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let (spec, before) = (spec(new), spec(old));
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let both = |kind: &str| text(spec, "type") == kind && text(before, "type") == kind;
    let addressed = |spec: &Value| text(spec, "type") != "ExternalName";
    if addressed(before) && addressed(spec) {
        let (known, addresses) = (texts(before, "clusterIPs"), texts(spec, "clusterIPs"));
        let own = path.child("clusterIPs");
        if addresses.is_empty() && !known.is_empty() {
            errors.push(Error::invalid(&own.index(0), json!(addresses), "primary clusterIP can not be unset"));
        }
        for (index, _) in known.iter().zip(&addresses).enumerate().filter(|(_, (known, now))| known != now) {
            errors.push(Error::invalid(&own.index(index), json!(addresses), "may not change once set"));
        }
    }
    if both("LoadBalancer") && spec.get("loadBalancerClass") != before.get("loadBalancerClass") {
        let class = if has(spec, "loadBalancerClass") { spec.get("loadBalancerClass") } else { None };
        errors.push(Error::invalid(&path.child("loadBalancerClass"), class, "may not change once set"));
    }
    errors.extend(load_balancer_class(spec, &path));
    errors.extend(service(new));
    errors
}
