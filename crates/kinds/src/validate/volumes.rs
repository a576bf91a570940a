//! Volumes of a pod and their mounts in containers.

use mainstay_schema::field::{Error, Path};
use mainstay_schema::metadata::GO_ORDER;
use serde_json::Value;

use super::{
    Errors, all_invalid, container, csi, flag, has, int, labels, list, map, meta, names, one_of_if_set, projections, storage, text,
    volume_plugins,
};
use crate::quantity::Quantity;

/// Sources in the order in which Kubernetes looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Findings about volumes, and the good ones: only those can be mounted. `pod` is the name of the pod, if there is one.
pub(super) fn volumes<'a>(volumes: &'a [Value], pod: &str, path: &Path) -> (Errors, Vec<&'a Value>) {
    let mut errors = Vec::new();
    let mut good: Vec<&Value> = Vec::new();
    // Claims of ephemeral volumes are named after pod and volume.
    let claim = |volume: &Value| format!("{pod}-{}", text(volume, "name"));
    let is_ephemeral = |volume: &&Value| volume.get("ephemeral").is_some_and(|given| !given.is_null());
    let made: Vec<String> = volumes.iter().filter(is_ephemeral).filter(|_| !pod.is_empty()).map(claim).collect();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let (name, own) = (text(volume, "name"), path.child("name"));
        let mut found = source(volume, pod, &path);
        if name.is_empty() {
            found.push(Error::required(&own, ""));
        } else {
            found.extend(all_invalid(&own, name, names::label(name)));
        }
        if good.iter().any(|known| text(known, "name") == name) {
            found.push(Error::duplicate(&own, name));
        }
        if found.is_empty() {
            good.push(volume);
        }
        errors.extend(found);
        let used = volume.get("persistentVolumeClaim").map_or("", |given| text(given, "claimName"));
        if made.iter().any(|claim| claim == used) {
            let words = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(Error::invalid(&path.children(&["persistentVolumeClaim", "claimName"]), used, words));
        }
    }
    (errors, good)
}

fn source(volume: &Value, pod: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut sources = 0;
    for field in SOURCES {
        let Some(given) = volume.get(*field).filter(|given| !given.is_null()) else { continue };
        sources += 1;
        if sources > 1 {
            errors.push(Error::forbidden(&path.child(told_as(field)), "may not specify more than 1 volume type"));
            continue;
        }
        errors.extend(one_source(field, given, &path.child(looked_at_as(field))));
        let name = text(volume, "name");
        if *field == "ephemeral" && !pod.is_empty() && !name.is_empty() {
            let claim = format!("{pod}-{name}");
            let messages = names::subdomain(&claim).into_iter().map(|why| format!("PVC name {claim:?}: {why}")).collect();
            errors.extend(all_invalid(&path.child("name"), name, messages));
        }
    }
    if sources == 0 {
        errors.push(Error::required(path, "must specify a volume type"));
    }
    errors
}

/// One of them has another name in findings about its members.
pub(super) fn looked_at_as(field: &str) -> &str {
    if field == "gcePersistentDisk" { "persistentDisk" } else { field }
}

/// The name of a source in findings about one source too many: Kubernetes spells two of them otherwise there.
fn told_as(field: &str) -> &str {
    match field {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        other => other,
    }
}

pub(super) fn required(given: &Value, field: &str, path: &Path) -> Errors {
    if text(given, field).is_empty() { vec![Error::required(&path.child(field), "")] } else { Vec::new() }
}

/// Sources that pods and PersistentVolumes share.
pub(super) fn one_source(field: &str, given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    match field {
        "emptyDir" => {
            if let Some(limit) = given.get("sizeLimit").and_then(Value::as_str)
                && Quantity::parse(limit).is_ok_and(|limit| limit < Quantity::ZERO)
            {
                errors.push(Error::forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity"));
            }
        }
        "hostPath" => {
            if text(given, "path").is_empty() {
                return required(given, "path", path);
            }
            errors.extend(no_dots(text(given, "path"), &path.child("path")));
            let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            errors.extend(one_of_if_set(given, "type", path, &kinds));
        }
        "secret" => {
            errors.extend(required(given, "secretName", path));
            errors.extend(files(given, path));
        }
        "configMap" => {
            errors.extend(required(given, "name", path));
            errors.extend(files(given, path));
        }
        "nfs" => {
            errors.extend(required(given, "server", path));
            errors.extend(required(given, "path", path));
            if !text(given, "path").starts_with('/') {
                errors.push(Error::invalid(&path.child("path"), text(given, "path"), "must be an absolute path"));
            }
        }
        "persistentVolumeClaim" => errors.extend(required(given, "claimName", path)),
        "csi" => {
            errors.extend(csi::driver_name(text(given, "driver"), &path.child("driver")));
            if let Some(secret) = given.get("nodePublishSecretRef").filter(|secret| !secret.is_null()) {
                let name = text(secret, "name");
                if name.is_empty() {
                    errors.push(Error::required(&path.child("nodePublishSecretRef").child("name"), ""));
                } else {
                    errors.extend(all_invalid(&path.child("name"), name, names::subdomain(name)));
                }
            }
        }
        "downwardAPI" => {
            errors.extend(mode(given, "defaultMode", path));
            // Findings do not say which file they mean.
            errors.extend(list(given, "items").iter().flat_map(|file| downward_file(file, path)));
        }
        "projected" => errors.extend(projections::projected(given, path)),
        "ephemeral" => match given.get("volumeClaimTemplate").filter(|template| !template.is_null()) {
            None => errors.push(Error::required(&path.child("volumeClaimTemplate"), "")),
            Some(template) => {
                errors.extend(claim_template(template, &path.child("volumeClaimTemplate")));
            }
        },
        other => errors.extend(volume_plugins::source(other, given, path)),
    }
    errors
}

fn claim_template(template: &Value, path: &Path) -> Errors {
    let mut errors = template_metadata(template.get("metadata").unwrap_or(&Value::Null), &path.child("metadata"));
    errors.extend(storage::claim_spec(template.get("spec").unwrap_or(&Value::Null), &path.child("spec")));
    errors
}

/// Of a template's metadata only labels and annotations go to the claim.
pub(super) fn template_metadata(metadata: &Value, path: &Path) -> Errors {
    let mut errors = meta::annotations(map(metadata, "annotations"), &path.child("annotations"));
    errors.extend(labels::labels(map(metadata, "labels"), &path.child("labels")));
    for field in GO_ORDER.iter().filter(|field| !["labels", "annotations"].contains(field) && has(metadata, field)) {
        errors.push(Error::forbidden(&path.child(field), "cannot be set"));
    }
    errors
}

pub(super) fn mode(given: &Value, field: &str, path: &Path) -> Errors {
    match int(given, field) {
        Some(mode) if !(0..=0o777).contains(&mode) => {
            vec![Error::invalid(&path.child(field), mode, "must be a number between 0 and 0777 (octal), both inclusive")]
        }
        _ => Vec::new(),
    }
}

pub(super) fn files(given: &Value, path: &Path) -> Errors {
    let mut errors = mode(given, "defaultMode", path);
    for (index, item) in list(given, "items").iter().enumerate() {
        let path = path.child("items").index(index);
        errors.extend(required(item, "key", &path));
        errors.extend(file_path(item, &path));
        errors.extend(mode(item, "mode", &path));
    }
    errors
}

pub(super) fn file_path(item: &Value, path: &Path) -> Errors {
    let (name, path) = (text(item, "path"), path.child("path"));
    if name.is_empty() { vec![Error::required(&path, "")] } else { own_path(name, &path) }
}

/// A path below its start, not beginning with what Kubernetes keeps for itself.
fn own_path(name: &str, path: &Path) -> Errors {
    let mut errors = descending_path(name, path);
    if name.starts_with("..") && !name.starts_with("../") {
        errors.push(Error::invalid(path, name, "must not start with '..'"));
    }
    errors
}

pub(super) fn downward_file(file: &Value, path: &Path) -> Errors {
    const FIELDS: &[&str] = &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let mut errors = file_path(file, path);
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(field), resource) => {
            errors.extend(container::field_selector(field, &path.child("fieldRef"), FIELDS));
            if resource.is_some() {
                errors.push(Error::invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"));
            }
        }
        (None, Some(resource)) => errors.extend(container::resource_selector(resource, &path.child("resourceFieldRef"), true)),
        (None, None) => errors.push(Error::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    errors.extend(mode(file, "mode", path));
    errors
}

/// A path that stays below its start.
pub(super) fn descending_path(text: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must be a relative path"));
    }
    errors.extend(no_dots(text, path));
    errors
}

pub(super) fn no_dots(text: &str, path: &Path) -> Errors {
    if text.split('/').any(|part| part == "..") { vec![Error::invalid(path, text, "must not contain '..'")] } else { Vec::new() }
}

/// Findings about the mounts of a container, and about its devices.
pub(super) fn mounts(container: &Value, volumes: &[&Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    let (mounts, devices) = (list(container, "volumeMounts"), list(container, "volumeDevices"));
    let find = |name: &str| volumes.iter().find(|volume| text(volume, "name") == name);
    let mut places: Vec<&str> = Vec::new();
    // Some findings do not say which mount they mean.
    let all = path.child("volumeMounts");
    for (index, mount) in mounts.iter().enumerate() {
        let path = all.index(index);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        if find(name).is_none() {
            errors.push(Error::not_found(&path.child("name"), name));
        }
        if place.is_empty() {
            errors.push(Error::required(&path.child("mountPath"), ""));
        }
        if places.contains(&place) {
            errors.push(Error::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        places.push(place);
        if devices.iter().any(|device| text(device, "name") == name) {
            errors.push(Error::invalid(&path.child("name"), name, "must not already exist in volumeDevices"));
        }
        if devices.iter().any(|device| text(device, "devicePath") == place) {
            errors.push(Error::invalid(&path.child("mountPath"), place, "must not already exist as a path in volumeDevices"));
        }
        let below = text(mount, "subPath");
        if !below.is_empty() {
            errors.extend(descending_path(below, &all.child("subPath")));
        }
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() {
            if !below.is_empty() {
                errors.push(Error::invalid(&path.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive"));
            }
            errors.extend(descending_path(expression, &all.child("subPathExpr")));
        }
        errors.extend(propagation(mount, container, &all));
        errors.extend(recursive_read_only(mount, &all.child("recursiveReadOnly")));
    }
    errors.extend(block_devices(devices, mounts, &find, &path.child("volumeDevices")));
    errors
}

fn propagation(mount: &Value, container: &Value, path: &Path) -> Errors {
    let mut errors = one_of_if_set(mount, "mountPropagation", path, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = container.get("securityContext").is_some_and(|context| flag(context, "privileged"));
    if text(mount, "mountPropagation") == "Bidirectional" && !privileged {
        let words = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(Error::forbidden(&path.child("mountPropagation"), words));
    }
    errors
}

fn recursive_read_only(mount: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    match text(mount, "recursiveReadOnly") {
        _ if !has(mount, "recursiveReadOnly") => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                errors.push(Error::forbidden(path, "may only be specified when readOnly is true"));
            }
            if has(mount, "mountPropagation") && text(mount, "mountPropagation") != "None" {
                errors.push(Error::forbidden(path, "may only be specified when mountPropagation is None or not specified"));
            }
        }
        other => errors.push(Error::not_supported(path, other, &["Disabled", "Enabled", "IfPossible"])),
    }
    errors
}

fn block_devices<'a>(devices: &[Value], mounts: &[Value], find: &dyn Fn(&str) -> Option<&'a &'a Value>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let (mut names, mut places): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        let (own, at) = (path.child("name"), path.child("devicePath"));
        if name.is_empty() {
            errors.push(Error::required(&own, ""));
        }
        if names.contains(&name) {
            errors.push(Error::invalid(&own, name, "must be unique"));
        }
        match find(name) {
            None => errors.push(Error::not_found(&own, name)),
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(Error::invalid(&own, name, words));
            }
            Some(_) => {}
        }
        if place.is_empty() {
            errors.push(Error::required(&at, ""));
        }
        if places.contains(&place) {
            errors.push(Error::invalid(&at, place, "must be unique"));
        }
        if no_dots(place, &at).is_empty() {
            places.push(place);
        } else {
            errors.push(Error::invalid(&at, place, "can not contain backsteps ('..')"));
        }
        if mounts.iter().any(|mount| text(mount, "name") == name) {
            errors.push(Error::invalid(&own, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| text(mount, "mountPath") == place) {
            errors.push(Error::invalid(&at, place, "must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            names.push(name);
        }
    }
    errors
}
