//! Statuses that are written through their subresource.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::fields::{Errors, all_invalid, has, int, list, map, not_negative, text};
use super::limits::{quota_amounts, storage_amount};
use super::names;

/// The rules of a set of pods: counters in the order of the findings, each with the counters that it may not exceed.
struct Counters {
    counted: &'static [&'static str],
    at_most: &'static [(&'static str, &'static str)],
    /// The words after "cannot be greater than" for the last pair, which names another counter than the replicas.
    ready: &'static str,
    /// The count of collisions only grows.
    collides: bool,
}

const DEPLOYMENT: Counters = Counters {
    counted: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    at_most: &[
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
    ready: "readyReplicas",
    collides: true,
};

const REPLICA_SET: Counters = Counters {
    counted: &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration", "terminatingReplicas"],
    at_most: &[
        ("fullyLabeledReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
    ready: "readyReplicas",
    collides: false,
};

const STATEFUL_SET: Counters = Counters {
    counted: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    at_most: &[
        ("readyReplicas", "replicas"),
        ("currentReplicas", "replicas"),
        ("updatedReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ],
    ready: "status.readyReplicas",
    collides: true,
};

const DAEMON_SET: Counters = Counters {
    counted: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    at_most: &[],
    ready: "",
    collides: true,
};

const AUTOSCALER: Counters = Counters { counted: &["currentReplicas", "desiredReplicas"], at_most: &[], ready: "", collides: false };

/// Findings about the counters of a status; `None` for kinds that count nothing.
pub(super) fn counters(group_kind: (&str, &str), new: &Value, old: &Value) -> Option<Errors> {
    let rules = match group_kind {
        ("apps", "Deployment") => &DEPLOYMENT,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => &REPLICA_SET,
        ("apps", "StatefulSet") => &STATEFUL_SET,
        ("apps", "DaemonSet") => &DAEMON_SET,
        ("autoscaling", "HorizontalPodAutoscaler") => &AUTOSCALER,
        _ => return None,
    };
    let (status, path) = (status(new), Path::new("status"));
    let mut errors: Errors = rules.counted.iter().flat_map(|field| not_negative(status, field, &path)).collect();
    let count = |field: &str| int(status, field).unwrap_or(0);
    for (field, most) in rules.at_most.iter().filter(|(field, most)| count(field) > count(most)) {
        let most = if *most == "replicas" { "status.replicas" } else { rules.ready };
        errors.push(Error::invalid(&path.child(field), count(field), format!("cannot be greater than {most}")));
    }
    if rules.collides {
        let (now, before) = (int(status, "collisionCount"), int(self::status(old), "collisionCount"));
        if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
            errors.push(Error::invalid(&path.child("collisionCount"), now.unwrap_or(0), "cannot be decremented"));
        }
    }
    Some(errors)
}

fn status(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

/// A budget's conditions and counters.
pub(super) fn budget(object: &Value) -> Errors {
    let (status, path) = (status(object), Path::new("status"));
    let mut errors = conditions(status, &path.child("conditions"));
    let counters = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    errors.extend(counters.into_iter().flat_map(|field| not_negative(status, field, &path)));
    errors
}

/// Conditions of `meta/v1`: each type once, with a state, a time and a reason.
fn conditions(status: &Value, path: &Path) -> Errors {
    const STATES: &[&str] = &["False", "True", "Unknown"];
    const LONGEST_REASON: u64 = 1024;
    const LONGEST_MESSAGE: u64 = 32 * 1024;
    let all = list(status, "conditions");
    let mut errors = Vec::new();
    for (index, condition) in all.iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "type");
        if all[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        errors.extend(all_invalid(&path.child("type"), kind, names::qualified(kind)));
        if !STATES.contains(&text(condition, "status")) {
            errors.push(Error::not_supported(&path.child("status"), text(condition, "status"), STATES));
        }
        if let Some(generation) = int(condition, "observedGeneration").filter(|generation| *generation < 0) {
            errors.push(Error::invalid(&path.child("observedGeneration"), generation, "must be greater than or equal to zero"));
        }
        if !has(condition, "lastTransitionTime") {
            errors.push(Error::required(&path.child("lastTransitionTime"), ""));
        }
        let reason = text(condition, "reason");
        if reason.is_empty() {
            errors.push(Error::required(&path.child("reason"), ""));
        } else {
            errors.extend(all_invalid(&path.child("reason"), reason, condition_reason(reason)));
            if reason.len() as u64 > LONGEST_REASON {
                errors.push(Error::too_long(&path.child("reason"), "", LONGEST_REASON));
            }
        }
        if text(condition, "message").len() as u64 > LONGEST_MESSAGE {
            errors.push(Error::too_long(&path.child("message"), "", LONGEST_MESSAGE));
        }
    }
    errors
}

fn condition_reason(reason: &str) -> Vec<String> {
    let letters = reason.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"_,:".contains(byte);
    let is_good = match letters {
        [first, .., last] => first.is_ascii_alphabetic() && letters.iter().all(inner) && (last.is_ascii_alphanumeric() || *last == b'_'),
        [only] => only.is_ascii_alphabetic(),
        [] => false,
    };
    if is_good {
        return Vec::new();
    }
    let words = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', \
                 and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
                 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    vec![words.to_owned()]
}

/// A policy's conditions, and the warnings of its expressions.
pub(super) fn policy(object: &Value) -> Errors {
    let (status, path) = (status(object), Path::new("status"));
    let mut errors = Vec::new();
    let own = path.child("typeChecking").child("expressionWarnings");
    let warnings = status.pointer("/typeChecking/expressionWarnings").and_then(Value::as_array);
    for (index, warning) in warnings.into_iter().flatten().enumerate() {
        for (field, given) in [("warning", text(warning, "warning")), ("fieldRef", text(warning, "fieldRef").trim())] {
            if given.is_empty() {
                errors.push(Error::required(&own.index(index).child(field), ""));
            }
        }
    }
    errors.extend(conditions(status, &path.child("conditions")));
    errors
}

/// A claim's capacity, and the course of its expansion.
pub(super) fn claim(object: &Value) -> Errors {
    const STATES: &[&str] =
        &["ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"];
    let (status, path) = (status(object), Path::new("status"));
    let mut errors = Vec::new();
    for (name, amount) in map(status, "capacity").into_iter().flatten() {
        errors.extend(storage_amount(amount, &path.child("capacity").key(name)));
    }
    let own = path.child("allocatedResourceStatuses");
    for (name, state) in map(status, "allocatedResourceStatuses").into_iter().flatten() {
        errors.extend(claim_resource(name, &own));
        if !STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.push(Error::not_supported(&own, name.as_str(), STATES));
        }
    }
    let own = path.child("allocatedResources");
    for (name, amount) in map(status, "allocatedResources").into_iter().flatten() {
        let wrong = claim_resource(name, &own);
        errors.extend(if wrong.is_empty() { storage_amount(amount, &own.key(name)) } else { wrong });
    }
    errors
}

/// Findings about a resource of a claim: storage, or one of its vendor.
fn claim_resource(name: &str, path: &Path) -> Errors {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        return all_invalid(path, name, wrong);
    }
    // Storage is the one resource without a domain; those of Kubernetes' own domain are none.
    let is_known = match name.split_once('/') {
        None => name == "storage",
        Some((domain, _)) => domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"),
    };
    if is_known { Vec::new() } else { vec![Error::not_supported(path, name, &["storage"])] }
}

/// A quota's limits and usage.
pub(super) fn quota(object: &Value) -> Errors {
    ["hard", "used"].into_iter().flat_map(|field| quota_amounts(status(object), field, &Path::new("status"))).collect()
}

/// The points at which a load balancer takes requests. Addresses that are there stay under later rules.
pub(super) fn ingress_points(new: &Value, old: &Value, look: impl Fn(&Value, &Path, &mut Errors)) -> Errors {
    let points = |object: &Value| -> Vec<Value> {
        object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let known = points(old);
    let path = Path::new("status").children(&["loadBalancer", "ingress"]);
    let mut errors = Vec::new();
    for (index, point) in points(new).iter().enumerate() {
        let path = path.index(index);
        let (address, name) = (text(point, "ip"), text(point, "hostname"));
        if !address.is_empty() && !known.iter().any(|known| text(known, "ip") == address) {
            errors.extend(all_invalid(&path.child("ip"), address, names::ip(address)));
        }
        look(point, &path, &mut errors);
        if !name.is_empty() {
            errors.extend(all_invalid(&path.child("hostname"), name, names::subdomain(name)));
            if names::address(name).is_some() {
                errors.push(Error::invalid(&path.child("hostname"), name, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}

/// A Service's load balancer, and for each address whether packets keep it.
pub(super) fn service(new: &Value, old: &Value) -> Errors {
    let balanced = new.pointer("/spec/type").and_then(Value::as_str) == Some("LoadBalancer");
    if !balanced && new.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).is_some_and(|points| !points.is_empty()) {
        let path = Path::new("status").children(&["loadBalancer", "ingress"]);
        return vec![Error::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    ingress_points(new, old, |point, path, errors| {
        let path = path.child("ipMode");
        let has_address = !text(point, "ip").is_empty();
        if has(point, "ipMode") {
            let mode = text(point, "ipMode");
            if !has_address {
                errors.push(Error::forbidden(&path, "may not be specified when `ip` is not set"));
            } else if !["Proxy", "VIP"].contains(&mode) {
                errors.push(Error::not_supported(&path, mode, &["Proxy", "VIP"]));
            }
        } else if has_address {
            errors.push(Error::required(&path, "must be specified when `ip` is set"));
        }
    })
}
