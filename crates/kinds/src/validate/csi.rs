//! Statements of storage drivers about themselves, about nodes and about volumes.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, has, internal, labels, list, map, names, storage, text, texts};
use crate::quantity::Quantity;

pub(super) fn driver_name(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(Error::too_long(path, name, 63));
    }
    errors.extend(all_invalid(path, name, names::subdomain(&name.to_lowercase())));
    errors
}

pub(super) fn driver(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    for field in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if !has(spec, field) {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    let known = ["ReadWriteOnceWithFSType", "File", "None"];
    if has(spec, "fsGroupPolicy") && !known.contains(&text(spec, "fsGroupPolicy")) {
        let sorted = ["File", "None", "ReadWriteOnceWithFSType"];
        errors.push(Error::not_supported(&path.child("fsGroupPolicy"), text(spec, "fsGroupPolicy"), &sorted));
    }
    let mut audiences: Vec<&str> = Vec::new();
    for (index, request) in list(spec, "tokenRequests").iter().enumerate() {
        let path = path.child("tokenRequests").index(index);
        let audience = text(request, "audience");
        if audiences.contains(&audience) {
            errors.push(Error::duplicate(&path.child("audience"), audience));
        }
        audiences.push(audience);
        if let Some(seconds) = super::int(request, "expirationSeconds").filter(|seconds| *seconds < 600) {
            errors.push(Error::invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"));
        }
    }
    for mode in texts(spec, "volumeLifecycleModes") {
        if !["Persistent", "Ephemeral"].contains(&mode) {
            errors.push(Error::not_supported(&path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]));
        }
    }
    errors
}

pub(super) fn node(object: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, driver) in object.get("spec").map_or(&[] as &[Value], |spec| list(spec, "drivers")).iter().enumerate() {
        let path = Path::new("spec").child("drivers").index(index);
        let name = text(driver, "name");
        errors.extend(driver_name(name, &path.child("name")));
        let id = text(driver, "nodeID");
        if id.is_empty() {
            errors.push(Error::required(&path.child("nodeID"), ""));
        } else if id.len() > 256 {
            errors.push(Error::invalid(&path.child("nodeID"), id, "must be 256 characters or less"));
        }
        if let Some(allocatable) = driver.get("allocatable") {
            errors.extend(super::not_negative(allocatable, "count", &path.child("allocatable")));
        }
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        let keys = texts(driver, "topologyKeys");
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].contains(key) {
                errors.push(Error::duplicate(&path, *key));
            }
            if key.is_empty() {
                errors.push(Error::required(&path, ""));
            }
            errors.extend(all_invalid(&path, key, names::qualified(key)));
        }
    }
    errors
}

/// Drivers may come and go, and stay as they are.
pub(super) fn node_update(new: &Value, old: &Value) -> Errors {
    let drivers = |object: &Value| object.pointer("/spec/drivers").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = drivers(old);
    let mut errors = Vec::new();
    for driver in drivers(new) {
        if before.iter().any(|known| text(known, "name") == text(&driver, "name") && *known != driver) {
            let shown = internal::shown("CSINodeDriver", &driver);
            errors.push(Error::invalid(&Path::new("spec").child("drivers"), shown, "field is immutable"));
        }
    }
    errors
}

pub(super) fn driver_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        let of = |object: &Value| object.get("spec").and_then(|spec| spec.get(field)).cloned();
        if of(new) != of(old) {
            errors.push(Error::invalid(&Path::new("spec").child(shown), of(new).unwrap_or(Value::Null), "field is immutable"));
        }
    }
    errors
}

pub(super) fn capacity_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    if new.get("nodeTopology") != old.get("nodeTopology") {
        let shown = new.get("nodeTopology").map_or(Value::Null.into(), |selector| internal::shown("meta", selector));
        errors.push(Error::invalid(&Path::new("nodeTopology"), shown, "field is immutable"));
    }
    if text(new, "storageClassName") != text(old, "storageClassName") {
        errors.push(Error::invalid(&Path::new("storageClassName"), text(new, "storageClassName"), "field is immutable"));
    }
    errors
}

pub(super) fn attachment_update(new: &Value, old: &Value) -> Errors {
    if new.get("spec") == old.get("spec") {
        return Vec::new();
    }
    let shown = internal::shown("VolumeAttachmentSpec", new.get("spec").unwrap_or(&Value::Null));
    vec![Error::invalid(&Path::new("spec"), shown, "field is immutable")]
}

pub(super) fn attributes_class_update(new: &Value, old: &Value) -> Errors {
    [("driverName", "updates to driverName are forbidden."), ("parameters", "updates to parameters are forbidden.")]
        .into_iter()
        .filter(|(field, _)| new.get(*field) != old.get(*field))
        .map(|(field, words)| Error::forbidden(&Path::new(field), words))
        .collect()
}

pub(super) fn capacity(object: &Value) -> Errors {
    let mut errors = labels::selector(object.get("nodeTopology"), &Path::new("nodeTopology"));
    let class = text(object, "storageClassName");
    errors.extend(all_invalid(&Path::new("storageClassName"), class, names::subdomain(class)));
    // maximumVolumeSize is not checked.
    let amount = object.get("capacity").and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok());
    if amount.is_some_and(|amount| amount < Quantity::ZERO) {
        errors.push(Error::invalid(&Path::new("capacity"), object.get("capacity"), "must be greater than or equal to 0"));
    }
    errors
}

/// An attachment's spec, and the errors of its status.
pub(super) fn attachment(object: &Value) -> Errors {
    const LONGEST_MESSAGE: usize = 1024;
    const MOST_METADATA: u64 = 256 * 1024;
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = driver_name(text(spec, "attacher"), &path.child("attacher"));
    let source = spec.get("source").unwrap_or(&Value::Null);
    match (has(source, "persistentVolumeName"), has(source, "inlineVolumeSpec")) {
        (false, false) => {
            errors.push(Error::required(&path.child("source"), "must specify exactly one of inlineVolumeSpec and persistentVolumeName"));
        }
        (true, true) => {
            errors.push(Error::forbidden(&path.child("source"), "must specify exactly one of inlineVolumeSpec and persistentVolumeName"));
        }
        (true, false) if text(source, "persistentVolumeName").is_empty() => {
            errors
                .push(Error::required(&path.child("source").child("persistentVolumeName"), "must specify non empty persistentVolumeName"));
        }
        _ => {}
    }
    let node = text(spec, "nodeName");
    errors.extend(all_invalid(&path.child("nodeName"), node, names::subdomain(node)));
    let status = object.get("status").unwrap_or(&Value::Null);
    let size: usize = map(status, "attachmentMetadata")
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if size as u64 > MOST_METADATA {
        errors.push(Error::too_long(&Path::new("status").child("attachmentMetadata"), "", MOST_METADATA));
    }
    for field in ["attachError", "detachError"] {
        let message = status.get(field).map_or("", |error| text(error, "message"));
        if message.len() > LONGEST_MESSAGE {
            // Kubernetes tells the limit of another field.
            errors.push(Error::too_long(&Path::new("status").child(field).child("message"), "", MOST_METADATA));
        }
    }
    if let Some(volume) = source.get("persistentVolumeName").and_then(Value::as_str) {
        errors.extend(all_invalid(&path.child("source").child("persistentVolumeName"), volume, names::subdomain(volume)));
    }
    errors
}

pub(super) fn attributes_class(object: &Value) -> Errors {
    let mut errors = storage::provisioner(text(object, "driverName"), &Path::new("driverName"));
    errors.extend(storage::parameters(object, false));
    errors
}
