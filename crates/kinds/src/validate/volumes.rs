//! Volumes of a pod and where containers mount them.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, container, csi, flag, int, list, names, one_of_if_set, storage, text, volume_plugins};
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

/// What is wrong with volumes, and the names of the good ones: only those can be mounted.
pub(super) fn volumes<'a>(volumes: &'a [Value], path: &Path) -> (Errors, Vec<&'a str>) {
    let mut errors = Vec::new();
    let mut good: Vec<&str> = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let mut found = source(volume, &path);
        let name = text(volume, "name");
        if name.is_empty() {
            found.push(Error::required(&path.child("name"), ""));
        } else {
            found.extend(all_invalid(&path.child("name"), name, names::label(name)));
        }
        if good.contains(&name) {
            found.push(Error::duplicate(&path.child("name"), name));
        }
        if found.is_empty() {
            good.push(name);
        }
        errors.extend(found);
    }
    (errors, good)
}

fn source(volume: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut sources = 0;
    for field in SOURCES {
        let Some(given) = volume.get(*field).filter(|given| !given.is_null()) else { continue };
        sources += 1;
        if sources > 1 {
            errors.push(Error::forbidden(&path.child(told_as(field)), "may not specify more than 1 volume type"));
            continue;
        }
        errors.extend(one_source(field, given, &path.child(if *field == "gcePersistentDisk" { "persistentDisk" } else { field })));
    }
    if sources == 0 {
        errors.push(Error::required(path, "must specify a volume type"));
    }
    errors
}

/// Kubernetes spells two of them otherwise where one is too many.
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
            if let Some(secret) = given.get("nodePublishSecretRef").filter(|secret| !secret.is_null())
                && text(secret, "name").is_empty()
            {
                errors.push(Error::required(&path.child("nodePublishSecretRef").child("name"), ""));
            }
        }
        "downwardAPI" => {
            errors.extend(mode(given, "defaultMode", path));
            for (index, file) in list(given, "items").iter().enumerate() {
                errors.extend(downward_file(file, &path.index(index)));
            }
        }
        "projected" => errors.extend(projected(given, path)),
        "ephemeral" => match given.get("volumeClaimTemplate").filter(|template| !template.is_null()) {
            None => errors.push(Error::required(&path.child("volumeClaimTemplate"), "")),
            Some(template) => {
                let spec = template.get("spec").unwrap_or(&Value::Null);
                errors.extend(storage::claim_spec(spec, &path.children(&["volumeClaimTemplate", "spec"])));
            }
        },
        other => errors.extend(volume_plugins::source(other, given, path)),
    }
    errors
}

fn mode(given: &Value, field: &str, path: &Path) -> Errors {
    match int(given, field) {
        Some(mode) if !(0..=0o777).contains(&mode) => {
            vec![Error::invalid(&path.child(field), mode, "must be a number between 0 and 0777 (octal), both inclusive")]
        }
        _ => Vec::new(),
    }
}

fn files(given: &Value, path: &Path) -> Errors {
    let mut errors = mode(given, "defaultMode", path);
    for (index, item) in list(given, "items").iter().enumerate() {
        let path = path.child("items").index(index);
        errors.extend(required(item, "key", &path));
        errors.extend(file_path(item, &path));
        errors.extend(mode(item, "mode", &path));
    }
    errors
}

fn file_path(item: &Value, path: &Path) -> Errors {
    let name = text(item, "path");
    let path = path.child("path");
    if name.is_empty() {
        return vec![Error::required(&path, "")];
    }
    let mut errors = descending_path(name, &path);
    if name.starts_with("..") && !name.starts_with("../") && name != ".." {
        errors.push(Error::invalid(&path, name, "must not start with '..'"));
    }
    errors
}

fn downward_file(file: &Value, path: &Path) -> Errors {
    const FIELDS: &[&str] = &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let mut errors = file_path(file, path);
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(field), None) => errors.extend(container::field_selector(field, &path.child("fieldRef"), FIELDS)),
        (None, Some(resource)) => errors.extend(container::resource_selector(resource, &path.child("resourceFieldRef"), true)),
        (Some(_), Some(_)) => {
            errors.push(Error::invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"));
        }
        (None, None) => errors.push(Error::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    errors.extend(mode(file, "mode", path));
    errors
}

fn projected(given: &Value, path: &Path) -> Errors {
    let mut errors = mode(given, "defaultMode", path);
    for (index, source) in list(given, "sources").iter().enumerate() {
        let path = path.child("sources").index(index);
        let mut kinds = 0;
        for field in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"] {
            let Some(given) = source.get(field).filter(|given| !given.is_null()) else { continue };
            let path = path.child(field);
            kinds += 1;
            if kinds > 1 {
                errors.push(Error::forbidden(&path, "may not specify more than 1 volume type per source"));
                continue;
            }
            match field {
                "secret" | "configMap" => {
                    errors.extend(required(given, "name", &path));
                    errors.extend(files(given, &path));
                }
                "downwardAPI" => {
                    for (at, file) in list(given, "items").iter().enumerate() {
                        errors.extend(downward_file(file, &path.index(at)));
                    }
                }
                "serviceAccountToken" => {
                    match int(given, "expirationSeconds") {
                        Some(seconds) if seconds < 600 => {
                            errors.push(Error::invalid(
                                &path.child("expirationSeconds"),
                                seconds,
                                "may not specify a duration less than 10 minutes",
                            ));
                        }
                        Some(seconds) if seconds > 1 << 32 => {
                            errors.push(Error::invalid(
                                &path.child("expirationSeconds"),
                                seconds,
                                "may not specify a duration larger than 2^32 seconds",
                            ));
                        }
                        _ => {}
                    }
                    errors.extend(file_path(given, &path));
                }
                _ => {}
            }
        }
        if kinds == 0 {
            errors.push(Error::required(&path, "no volume source specified"));
        }
    }
    errors
}

/// A path that stays below where it starts.
pub(super) fn descending_path(text: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must be a relative path"));
    }
    errors.extend(no_dots(text, path));
    errors
}

fn no_dots(text: &str, path: &Path) -> Errors {
    if text.split('/').any(|part| part == "..") { vec![Error::invalid(path, text, "must not contain '..'")] } else { Vec::new() }
}

pub(super) fn mounts(container: &Value, known: &[&str], path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut places: Vec<&str> = Vec::new();
    // Some findings do not say which mount they mean.
    let all = path.child("volumeMounts");
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = path.child("volumeMounts").index(index);
        let name = text(mount, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        if !known.contains(&name) {
            errors.push(Error::not_found(&path.child("name"), name));
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            errors.push(Error::required(&path.child("mountPath"), ""));
        } else if places.contains(&place) {
            errors.push(Error::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        places.push(place);
        let below = text(mount, "subPath");
        if !below.is_empty() {
            errors.extend(descending_path(below, &all.child("subPath")));
        }
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() {
            if !below.is_empty() {
                errors.push(Error::invalid(&all.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive"));
            }
            errors.extend(descending_path(expression, &all.child("subPathExpr")));
        }
        errors.extend(one_of_if_set(mount, "recursiveReadOnly", &all, &["Disabled", "Enabled", "IfPossible"]));
        errors.extend(one_of_if_set(mount, "mountPropagation", &all, &["Bidirectional", "HostToContainer", "None"]));
        if text(mount, "mountPropagation") == "Bidirectional"
            && !container.get("securityContext").is_some_and(|context| flag(context, "privileged"))
        {
            let words = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(Error::forbidden(&all.child("mountPropagation"), words));
        }
    }
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = path.child("volumeDevices").index(index);
        let name = text(device, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !known.contains(&name) {
            errors.push(Error::not_found(&path.child("name"), name));
        }
        let place = text(device, "devicePath");
        if place.is_empty() {
            errors.push(Error::required(&path.child("devicePath"), ""));
        } else if places.contains(&place) {
            errors.push(Error::invalid(&path.child("devicePath"), place, "must not already exist in volumeMounts"));
        }
        places.push(place);
    }
    errors
}
