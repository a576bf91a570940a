//! Volumes, claims and classes.

use std::collections::{BTreeMap, BTreeSet};

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

/// Who makes volumes of a class: a qualified name, whose case counts for nothing.
pub(super) fn provisioner(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let name = name.to_lowercase();
    all_invalid(path, &name, names::qualified(&name))
}

/// What a class tells its provisioner.
pub(super) fn parameters(object: &Value, may_be_empty: bool) -> Errors {
    const MOST: usize = 512;
    const LONGEST: usize = 256 * 1024;
    let path = Path::new("parameters");
    let given = map(object, "parameters");
    let count = given.map_or(0, serde_json::Map::len);
    let mut errors = Vec::new();
    if count == 0 && !may_be_empty {
        errors.push(Error::required(&path, "must contain at least one key/value pair"));
    }
    if count > MOST {
        errors.push(Error::too_long(&path, "Provisioner Parameters exceeded max allowed", MOST as u64));
        return errors;
    }
    let mut size = 0;
    for (key, value) in given.into_iter().flatten() {
        if key.is_empty() {
            errors.push(Error::invalid(&path, key, "field can not be empty."));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > LONGEST {
        errors.push(Error::too_long(&path, "", LONGEST as u64));
    }
    errors
}

pub(super) fn class(object: &Value) -> Errors {
    let mut errors = provisioner(text(object, "provisioner"), &Path::new("provisioner"));
    errors.extend(parameters(object, true));
    if !text(object, "reclaimPolicy").is_empty() {
        errors.extend(one_of_if_set(object, "reclaimPolicy", &Path::root(), &["Delete", "Retain"]));
    }
    if has(object, "volumeBindingMode") {
        errors.extend(one_of_if_set(object, "volumeBindingMode", &Path::root(), &["Immediate", "WaitForFirstConsumer"]));
    } else {
        errors.push(Error::required(&Path::new("volumeBindingMode"), ""));
    }
    errors.extend(topologies(list(object, "allowedTopologies"), &Path::new("allowedTopologies")));
    errors
}

/// Where volumes of a class may be made: each place once.
fn topologies(given: &[Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    // Kubernetes begins with as many places that say nothing as there are terms, so that a term that says nothing repeats them all.
    let mut seen = vec![BTreeMap::new(); given.len()];
    for (index, topology) in given.iter().enumerate() {
        let path = path.index(index).child("matchLabelExpressions");
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(at);
            let among = texts(expression, "values");
            if among.is_empty() {
                errors.push(Error::required(&path.child("values"), ""));
            }
            for (number, value) in among.iter().enumerate().filter(|(number, value)| among[..*number].contains(value)) {
                errors.push(Error::duplicate(&path.child("values").index(number), *value));
            }
            let key = text(expression, "key");
            errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
            if values.insert(key, among.into_iter().collect()).is_some() {
                errors.push(Error::duplicate(&path.child("key"), key));
            }
        }
        errors.extend(seen.iter().filter(|earlier| **earlier == values).map(|_| Error::duplicate(&path, "")));
        seen.push(values);
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
