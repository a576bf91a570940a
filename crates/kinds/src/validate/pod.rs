//! Pods as objects: creation, the few changes that are allowed, status.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, has, list, names, pod_spec, text};

pub(super) fn create(pod: &Value) -> Errors {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = pod_spec::pod_spec(spec, &path);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    errors
}

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let null = Value::Null;
    let (new_spec, old_spec) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let mut errors = pod_spec::pod_spec(new_spec, &path);
    for field in ["containers", "initContainers"] {
        if list(new_spec, field).len() != list(old_spec, field).len() {
            errors.push(Error::forbidden(&path.child(field), "pod updates may not add or remove containers"));
            return errors;
        }
    }
    if let Some(before) = super::int(old_spec, "activeDeadlineSeconds") {
        match super::int(new_spec, "activeDeadlineSeconds") {
            Some(now) if now > before => errors.push(Error::invalid(
                &path.child("activeDeadlineSeconds"),
                now,
                format!("must be less than or equal to previous value {before}"),
            )),
            None => errors.push(Error::invalid(
                &path.child("activeDeadlineSeconds"),
                Value::Null,
                "must not update from a positive integer to nil value",
            )),
            Some(_) => {}
        }
    }
    let (before, now) = (list(old_spec, "tolerations"), list(new_spec, "tolerations"));
    let only_added = before.iter().all(|toleration| now.contains(toleration));
    if !only_added {
        errors.push(Error::forbidden(&path.child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"));
    }
    // What may change is made equal; anything else that differs may not.
    let mut masked = new_spec.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in masked.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            if let Some(image) = list(old_spec, field).get(index).and_then(|container| container.get("image")) {
                container["image"] = image.clone();
            }
        }
    }
    if let Value::Object(masked) = &mut masked {
        let gated = !list(old_spec, "schedulingGates").is_empty();
        let mut free = vec!["activeDeadlineSeconds", "tolerations", "ephemeralContainers"];
        if gated {
            // A pod that waits may still be moved: its gates go, its node selector narrows.
            free.extend(["schedulingGates", "nodeSelector", "affinity"]);
        }
        if super::int(old_spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
            free.push("terminationGracePeriodSeconds");
        }
        for field in free {
            match old_spec.get(field) {
                Some(value) => masked.insert(field.into(), value.clone()),
                None => masked.remove(field),
            };
        }
    }
    if masked != *old_spec {
        errors.push(Error::forbidden(&path, CHANGEABLE));
    }
    errors
}

pub(super) fn status(pod: &Value) -> Errors {
    let status = pod.get("status").unwrap_or(&Value::Null);
    let path = Path::new("status");
    let mut errors = Vec::new();
    for (field, member) in [("podIPs", "ip"), ("hostIPs", "ip")] {
        for (index, entry) in list(status, field).iter().enumerate() {
            let address = text(entry, member);
            errors.extend(all_invalid(&path.child(field).index(index), address, names::ip(address)));
        }
    }
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() {
        errors.extend(all_invalid(&path.child("nominatedNodeName"), nominated, names::subdomain(nominated)));
    }
    if has(status, "conditions") {
        for (index, condition) in list(status, "conditions").iter().enumerate() {
            if text(condition, "type").is_empty() {
                errors.push(Error::required(&path.child("conditions").index(index).child("type"), ""));
            }
        }
    }
    errors
}
