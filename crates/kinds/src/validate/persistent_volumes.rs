//! PersistentVolumes: capacity, nodes and source.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value};

use super::storage::{access_modes, amount, positive_storage};
use super::{Errors, all_invalid, csi, has, internal, list, map, names, one_of_if_set, scheduling, text, unified, volume_plugins, volumes};
use crate::quantity::Quantity;

/// Sources in the order in which Kubernetes looks at them.
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
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(Error::required(&path.child("accessModes"), ""));
    }
    errors.extend(access_modes(spec, &path));
    errors.extend(capacity(spec, &path.child("capacity")));
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !["Delete", "Recycle", "Retain"].contains(&policy) {
        errors.push(Error::not_supported(&path.child("persistentVolumeReclaimPolicy"), policy, &["Delete", "Recycle", "Retain"]));
    }
    if let Some(affinity) = spec.get("nodeAffinity").filter(|affinity| !affinity.is_null()) {
        let path = path.children(&["nodeAffinity", "required"]);
        match affinity.get("required").filter(|required| !required.is_null()) {
            Some(required) => errors.extend(scheduling::node_selector(required, &path)),
            None => errors.push(Error::required(&path, "must specify required node constraints")),
        }
    }
    let name = object.get("metadata").map_or("", |metadata| text(metadata, "name"));
    errors.extend(volume_source(spec, name, &path));
    let root = text(spec.get("hostPath").unwrap_or(&Value::Null), "path");
    if is_root(root) && policy == "Recycle" {
        let words = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), words));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("storageClassName"), class, names::subdomain(class)));
    }
    errors.extend(one_of_if_set(spec, "volumeMode", &path, &["Block", "Filesystem"]));
    if has(spec, "volumeAttributesClassName") {
        let (class, own) = (text(spec, "volumeAttributesClassName"), path.child("volumeAttributesClassName"));
        if class.is_empty() {
            errors.push(Error::required(&own, "an empty string is disallowed"));
        } else {
            errors.extend(all_invalid(&own, class, names::subdomain(class)));
        }
        if !has(spec, "csi") {
            errors.push(Error::required(&path.child("csi"), "has to be specified when using volumeAttributesClassName"));
        }
    }
    errors.extend(mount_options(object, spec));
    errors
}

/// Returns true if a path leads to the root of the file system.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn capacity(spec: &Value, path: &Path) -> Errors {
    let empty = Map::new();
    let capacity = map(spec, "capacity").unwrap_or(&empty);
    let mut errors = Vec::new();
    if capacity.is_empty() {
        errors.push(Error::required(path, ""));
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        errors.push(Error::not_supported(path, spec.get("capacity").cloned().unwrap_or(Value::Null), &["storage"]));
    }
    for (name, value) in capacity {
        let path = path.key(name);
        if let Some(given) = amount(value).filter(|given| *given < Quantity::ZERO) {
            // Kubernetes shows the whole number here.
            errors.push(Error::invalid(&path, given.to_int(), "must be a valid resource quantity"));
        }
        errors.extend(positive_storage(value, &path));
    }
    errors
}

/// The source of a volume. `name` is that of the volume.
fn volume_source(spec: &Value, name: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut sources = 0;
    for field in SOURCES {
        let Some(source) = spec.get(*field).filter(|source| !source.is_null()) else { continue };
        sources += 1;
        // Of this one there may always be one more.
        if sources > 1 && *field != "flexVolume" {
            let told = if *field == "cephfs" { "cephFS" } else { field };
            errors.push(Error::forbidden(&path.child(told), "may not specify more than 1 volume type"));
            continue;
        }
        let own = path.child(volumes::looked_at_as(field));
        match *field {
            "csi" => {
                errors.extend(csi::driver_name(text(source, "driver"), &own.child("driver")));
                errors.extend(volumes::required(source, "volumeHandle", &own));
                for secret in ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"] {
                    errors.extend(secret_reference(source, secret, &own));
                }
            }
            "local" => {
                if text(source, "path").is_empty() {
                    errors.push(Error::required(&own.child("path"), ""));
                } else {
                    errors.extend(volumes::no_dots(text(source, "path"), &own.child("path")));
                }
                if !has(spec, "nodeAffinity") {
                    errors.push(Error::required(&path.child("nodeAffinity"), "Local volume requires node affinity"));
                }
            }
            "hostPath" | "nfs" => errors.extend(volumes::one_source(field, source, &own)),
            other => errors.extend(volume_plugins::of_volume(other, source, name, &own)),
        }
    }
    if sources == 0 {
        errors.push(Error::required(path, "must specify a volume type"));
    }
    errors
}

/// An annotation that only some sources heed.
fn mount_options(object: &Value, spec: &Value) -> Errors {
    const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
    const HEED: &[&str] = &[
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let annotated = object.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(OPTIONS).is_some());
    if !annotated || HEED.iter().any(|field| has(spec, field)) {
        return Vec::new();
    }
    let path = Path::new("metadata").children(&["annotations", OPTIONS]);
    vec![Error::forbidden(&path, "may not specify mount options for this volume type")]
}

/// A secret that the driver is given, in any namespace.
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
    let (given, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let mut spec = given.clone();
    // A secret to expand the volume with may be given later.
    if let (Some(known), Some(Value::Object(now))) = (before.get("csi"), spec.get_mut("csi"))
        && !has(known, "controllerExpandSecretRef")
    {
        now.remove("controllerExpandSecretRef");
    }
    let mut errors = Vec::new();
    if SOURCES.iter().any(|field| spec.get(*field) != before.get(*field)) {
        let diff = unified::unified(&internal::lines("PersistentVolumeSource", before), &internal::lines("PersistentVolumeSource", &spec));
        let words = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.push(Error::forbidden(&Path::new("spec").child("persistentvolumesource"), words));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        errors.push(Error::invalid(&Path::new("volumeMode"), spec.get("volumeMode"), "field is immutable"));
    }
    if has(before, "nodeAffinity") && !same_nodes(spec.get("nodeAffinity"), before.get("nodeAffinity")) {
        let shown = internal::shown("*VolumeNodeAffinity", spec.get("nodeAffinity").unwrap_or(&null));
        let words = "field is immutable, except for updating from beta label to GA";
        errors.push(Error::invalid(&Path::new("nodeAffinity"), shown, words));
    }
    if has(before, "volumeAttributesClassName") && !has(&spec, "volumeAttributesClassName") {
        let path = Path::new("spec").child("volumeAttributesClassName");
        errors.push(Error::forbidden(&path, "update from non-nil value to nil is forbidden"));
    }
    errors
}

/// Labels of nodes that got their final names later, and those names.
const FINAL_LABELS: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Returns true if two affinities name the same nodes; labels count as their final names if the new one has those.
fn same_nodes(new: Option<&Value>, old: Option<&Value>) -> bool {
    match (new, old) {
        (Some(Value::Object(new)), Some(Value::Object(old))) => {
            let renamed = |new: &Value, old: &Value| {
                // Kubernetes takes a label that has no final name for one whose final name is empty.
                let final_name = FINAL_LABELS.iter().find(|(beta, _)| old == beta).map_or("", |(_, name)| name);
                new == old || new == final_name
            };
            let same = |(key, value): (&String, &Value)| match (key.as_str(), new.get(key)) {
                ("key", Some(now)) => renamed(now, value),
                (_, now) => same_nodes(now, Some(value)),
            };
            old.iter().all(same) && new.keys().all(|key| old.contains_key(key))
        }
        (Some(Value::Array(new)), Some(Value::Array(old))) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same_nodes(Some(new), Some(old)))
        }
        (new, old) => new == old,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// KAPI-REST-08: mount options are an annotation that some sources do not heed; secrets of sources name their namespace.
    #[test]
    fn options_and_secrets() {
        let volume = |source: Value| {
            let mut object = json!({"metadata": {"name": "v", "annotations": {"volume.beta.kubernetes.io/mount-options": "ro"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
            if let (Some(Value::Object(spec)), Value::Object(source)) = (object.get_mut("spec"), source) {
                spec.extend(source);
            }
            super::volume(&object).iter().map(Error::to_string).collect::<Vec<_>>()
        };
        let refused =
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type";
        assert_eq!(volume(json!({"hostPath": {"path": "/a"}})), [refused]);
        assert_eq!(volume(json!({"nfs": {"server": "s", "path": "/a"}})), Vec::<String>::new());
        assert_eq!(
            volume(json!({"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}})),
            ["spec.cinder.secretRef.namespace: Required value"]
        );
    }

    #[test]
    fn labels_of_nodes_get_their_final_names() {
        let zone = |key: &str| json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}});
        let (beta, ga) = (zone("failure-domain.beta.kubernetes.io/zone"), zone("topology.kubernetes.io/zone"));
        assert!(same_nodes(Some(&ga), Some(&beta)) && same_nodes(Some(&ga), Some(&ga)));
        assert!(!same_nodes(Some(&beta), Some(&ga)) && !same_nodes(None, Some(&ga)));
    }

    #[test]
    fn roots() {
        assert!(is_root("/") && is_root("/x/..") && is_root("//."));
        assert!(!is_root("") && !is_root("/x") && !is_root("x/.."));
    }
}
