//! Volumes, claims and classes.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, all_invalid, csi, has, internal, labels, list, map, names, one_of_if_set, scheduling, text, texts, unified, volumes};
use crate::quantity::Quantity;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn access_modes(spec: &Value, path: &Path, required: &str) -> Errors {
    let modes = texts(spec, "accessModes");
    let path = path.child("accessModes");
    let mut errors = Vec::new();
    if modes.is_empty() {
        errors.push(Error::required(&path, required));
    }
    for mode in &modes {
        if !ACCESS_MODES.contains(mode) {
            errors.push(Error::not_supported(&path, *mode, ACCESS_MODES));
        }
    }
    if modes.contains(&"ReadWriteOncePod") && modes.len() > 1 {
        errors.push(Error::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

fn positive_storage(value: &Value, path: &Path) -> Errors {
    if amount(value).is_some_and(|amount| amount <= Quantity::ZERO) {
        vec![Error::invalid(path, value, "must be greater than zero")]
    } else {
        Vec::new()
    }
}

pub(super) fn claim(object: &Value) -> Errors {
    claim_spec(object.get("spec").unwrap_or(&Value::Null), &Path::new("spec"))
}

pub(super) fn claim_spec(spec: &Value, path: &Path) -> Errors {
    let mut errors = access_modes(spec, path, "at least 1 access mode is required");
    errors.extend(labels::selector(spec.get("selector"), &path.child("selector")));
    let own = path.child("resources").key("storage");
    match spec.pointer("/resources/requests/storage") {
        None => errors.push(Error::required(&own, "")),
        Some(storage) => errors.extend(positive_storage(storage, &own)),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("storageClassName"), class, names::subdomain(class)));
    }
    errors.extend(one_of_if_set(spec, "volumeMode", path, &["Block", "Filesystem"]));
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = spec.get(field).filter(|source| !source.is_null()) else { continue };
        let path = path.child(field);
        for member in ["name", "kind"] {
            if text(source, member).is_empty() {
                errors.push(Error::required(&path.child(member), ""));
            }
        }
        if text(source, "apiGroup").is_empty() && !["", "PersistentVolumeClaim"].contains(&text(source, "kind")) {
            let words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(Error::invalid(&path, text(source, "kind"), words));
        }
    }
    errors
}

pub(super) fn claim_update(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let null = Value::Null;
    let (spec, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let mut errors = Vec::new();
    // The binder names the volume; owners ask for more room; nothing else changes.
    let mut masked = spec.clone();
    if let Value::Object(masked) = &mut masked {
        if text(before, "volumeName").is_empty() {
            masked.remove("volumeName");
        }
        if let (Some(storage), Some(request)) = (
            before.pointer("/resources/requests/storage"),
            masked.get_mut("resources").and_then(|resources| resources.pointer_mut("/requests/storage")),
        ) {
            *request = storage.clone();
        }
        if !has(before, "storageClassName") {
            masked.remove("storageClassName");
        }
        if !has(before, "volumeAttributesClassName") || has(spec, "volumeAttributesClassName") {
            match before.get("volumeAttributesClassName") {
                Some(class) => masked.insert("volumeAttributesClassName".into(), class.clone()),
                None => masked.remove("volumeAttributesClassName"),
            };
        }
    }
    let mut unbound = before.clone();
    if let Value::Object(unbound) = &mut unbound
        && text(before, "volumeName").is_empty()
    {
        unbound.remove("volumeName");
    }
    if masked != unbound {
        let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        let diff = unified::unified(
            &internal::lines("PersistentVolumeClaimSpec", &unbound),
            &internal::lines("PersistentVolumeClaimSpec", &masked),
        );
        errors.push(Error::forbidden(&path, format!("{words}\n{diff}")));
    }
    let size = |spec: &Value| spec.pointer("/resources/requests/storage").and_then(amount);
    if let (Some(now), Some(then)) = (size(spec), size(before)) {
        if now < then {
            let words = "field can not be less than status.capacity";
            let capacity = old.pointer("/status/capacity/storage").and_then(amount);
            if capacity.is_none_or(|capacity| now < capacity) {
                errors.push(Error::forbidden(&path.children(&["resources", "requests", "storage"]), words));
            }
        } else if now > then && old.pointer("/status/phase").and_then(Value::as_str) != Some("Bound") {
            let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            if errors.is_empty() {
                errors.push(Error::forbidden(&path, words));
            }
        }
    }
    errors
}

const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn volume(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = access_modes(spec, &path, "");
    let empty = Map::new();
    let capacity = map(spec, "capacity").unwrap_or(&empty);
    if capacity.is_empty() {
        errors.push(Error::required(&path.child("capacity"), ""));
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let shown = if capacity.is_empty() { Value::Null } else { Value::Object(capacity.clone()) };
        errors.push(Error::not_supported(&path.child("capacity"), shown, &["storage"]));
    }
    for (name, value) in capacity.iter().filter(|(name, _)| *name == "storage") {
        errors.extend(positive_storage(value, &path.child("capacity").key(name)));
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !["Delete", "Recycle", "Retain"].contains(&policy) {
        errors.push(Error::not_supported(&path.child("persistentVolumeReclaimPolicy"), policy, &["Delete", "Recycle", "Retain"]));
    }
    if let Some(required) = spec.pointer("/nodeAffinity/required") {
        errors.extend(scheduling::node_selector(required, &path.children(&["nodeAffinity", "required"])));
    }
    let mut sources = 0;
    for field in SOURCES {
        let Some(source) = spec.get(*field).filter(|source| !source.is_null()) else { continue };
        sources += 1;
        if sources > 1 {
            errors.push(Error::forbidden(&path.child(field), "may not specify more than 1 volume type"));
            continue;
        }
        match *field {
            "csi" => {
                let path = path.child("csi");
                errors.extend(csi::driver_name(text(source, "driver"), &path.child("driver")));
                errors.extend(volumes::required(source, "volumeHandle", &path));
                for secret in ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"] {
                    errors.extend(secret_reference(source, secret, &path));
                }
            }
            "local" => {
                if text(source, "path").is_empty() {
                    errors.push(Error::required(&path.child("local").child("path"), ""));
                }
                if !has(spec, "nodeAffinity") {
                    errors.push(Error::required(&Path::new("metadata").child("annotations"), "Local volume requires node affinity"));
                }
            }
            _ => errors.extend(volumes::one_source(field, source, &path.child(field))),
        }
    }
    if sources == 0 {
        errors.push(Error::required(&path, "must specify a volume type"));
    }
    if spec.pointer("/hostPath/path") == Some(&json!("/")) && policy == "Recycle" {
        let words = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), words));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("storageClassName"), class, names::subdomain(class)));
    }
    errors.extend(one_of_if_set(spec, "volumeMode", &path, &["Block", "Filesystem"]));
    errors
}

/// A secret that the driver is given, in whatever namespace.
fn secret_reference(source: &Value, field: &str, path: &Path) -> Errors {
    let Some(secret) = source.get(field).filter(|secret| !secret.is_null()) else { return Vec::new() };
    let path = path.child(field);
    let mut errors = Vec::new();
    for (member, rule) in [("name", names::subdomain as fn(&str) -> Vec<String>), ("namespace", names::label)] {
        let value = text(secret, member);
        if value.is_empty() {
            errors.push(Error::required(&path.child(member), ""));
        } else {
            errors.extend(all_invalid(&path.child(member), value, rule(value)));
        }
    }
    errors
}

pub(super) fn volume_update(new: &Value, old: &Value) -> Errors {
    let null = Value::Null;
    let (spec, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let changed = SOURCES.iter().any(|field| spec.get(*field) != before.get(*field));
    let mut errors = Vec::new();
    if changed {
        let diff = unified::unified(&internal::lines("PersistentVolumeSource", before), &internal::lines("PersistentVolumeSource", spec));
        let words = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.push(Error::forbidden(&Path::new("spec").child("persistentvolumesource"), words));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        errors.push(Error::invalid(&Path::new("volumeMode"), spec.get("volumeMode"), "field is immutable"));
    }
    if has(before, "nodeAffinity") && spec.get("nodeAffinity") != before.get("nodeAffinity") {
        let shown = spec.get("nodeAffinity").map_or(Value::Null.into(), |affinity| internal::shown("VolumeNodeAffinity", affinity));
        let words = "field is immutable, except for updating from beta label to GA";
        errors.push(Error::invalid(&Path::new("nodeAffinity"), shown, words));
    }
    errors
}

pub(super) fn class(object: &Value) -> Errors {
    let mut errors = Vec::new();
    let provisioner = text(object, "provisioner");
    if provisioner.is_empty() {
        errors.push(Error::required(&Path::new("provisioner"), provisioner));
    } else {
        errors.extend(all_invalid(&Path::new("provisioner"), provisioner, names::qualified(&provisioner.to_lowercase())));
    }
    for key in map(object, "parameters").into_iter().flatten().map(|(key, _)| key).filter(|key| key.is_empty()) {
        errors.push(Error::invalid(&Path::new("parameters"), key, "field can not be empty."));
    }
    if !text(object, "reclaimPolicy").is_empty() {
        errors.extend(one_of_if_set(object, "reclaimPolicy", &Path::root(), &["Delete", "Retain"]));
    }
    let mode = text(object, "volumeBindingMode");
    if mode.is_empty() {
        errors.push(Error::required(&Path::new("volumeBindingMode"), ""));
    } else if !["Immediate", "WaitForFirstConsumer"].contains(&mode) {
        errors.push(Error::not_supported(&Path::new("volumeBindingMode"), mode, &["Immediate", "WaitForFirstConsumer"]));
    }
    for (index, topology) in list(object, "allowedTopologies").iter().enumerate() {
        let path = Path::new("allowedTopologies").index(index).child("matchLabelExpressions");
        for (at, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            if list(expression, "values").is_empty() {
                errors.push(Error::required(&path.index(at).child("values"), ""));
            }
            let key = text(expression, "key");
            errors.extend(all_invalid(&path.index(at).child("key"), key, names::qualified(key)));
        }
    }
    errors
}

pub(super) fn class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    for (field, words) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new.get(field) != old.get(field) {
            errors.push(Error::forbidden(&Path::new(field), words));
        }
    }
    if new.get("volumeBindingMode") != old.get("volumeBindingMode") {
        errors.push(Error::invalid(&Path::new("volumeBindingMode"), new.get("volumeBindingMode"), "field is immutable"));
    }
    errors
}
