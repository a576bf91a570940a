//! Sources of volumes that storage systems of their own stand behind: what each must be told.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, flag, has, int, list, text, volumes};

/// Members that must be there, by source.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
];

/// What is wrong with a source of this sort.
pub(super) fn source(field: &str, given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if field == "iscsi" {
        return iscsi(given, path);
    }
    if ["rbd", "cephfs"].contains(&field) && list(given, "monitors").is_empty() {
        errors.push(Error::required(&path.child("monitors"), ""));
    }
    if field == "rbd" {
        errors.extend(volumes::required(given, "image", path));
    }
    for (_, members) in REQUIRED.iter().filter(|(name, _)| *name == field) {
        errors.extend(members.iter().flat_map(|member| volumes::required(given, member, path)));
    }
    match field {
        "gitRepo" => errors.extend(volumes::descending_path(text(given, "directory"), &path.child("directory"))),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            if let Some(partition) = int(given, "partition").filter(|partition| !(0..=255).contains(partition)) {
                errors.push(Error::invalid(&path.child("partition"), partition, "must be between 0 and 255, inclusive"));
            }
        }
        "flocker" => errors.extend(flocker(given, path)),
        "fc" => errors.extend(fibre_channel(given, path)),
        "quobyte" => errors.extend(quobyte(given, path)),
        "storageos" => errors.extend(volumes::required(given, "volumeName", path)),
        _ => {}
    }
    errors
}

fn iscsi(given: &Value, path: &Path) -> Errors {
    let mut errors = volumes::required(given, "targetPortal", path);
    let name = text(given, "iqn");
    if name.is_empty() {
        errors.push(Error::required(&path.child("iqn"), ""));
    } else if !["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix)) {
        errors.push(Error::invalid(&path.child("iqn"), name, "must be valid format starting with iqn, eui, or naa"));
    }
    if let Some(unit) = int(given, "lun").filter(|unit| !(0..=255).contains(unit)) {
        errors.push(Error::invalid(&path.child("lun"), unit, "must be between 0 and 255, inclusive"));
    }
    if (flag(given, "chapAuthDiscovery") || flag(given, "chapAuthSession")) && !has(given, "secretRef") {
        errors.push(Error::required(&path.child("secretRef"), ""));
    }
    let initiator = text(given, "initiatorName");
    if has(given, "initiatorName") && !["iqn", "eui", "naa"].iter().any(|prefix| initiator.starts_with(prefix)) {
        errors.push(Error::invalid(&path.child("initiatorname"), initiator, "must be valid format starting with iqn, eui, or naa"));
    }
    errors
}

fn flocker(given: &Value, path: &Path) -> Errors {
    let (name, id) = (text(given, "datasetName"), text(given, "datasetUUID"));
    let mut errors = Vec::new();
    if name.is_empty() && id.is_empty() {
        errors.push(Error::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !id.is_empty() {
        errors.push(Error::invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"));
    }
    if name.contains('/') {
        errors.push(Error::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
    errors
}

fn fibre_channel(given: &Value, path: &Path) -> Errors {
    let (worldwide, ids) = (list(given, "targetWWNs"), list(given, "wwids"));
    let path = path.clone();
    let mut errors = Vec::new();
    if worldwide.is_empty() && ids.is_empty() {
        errors.push(Error::required(&path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"));
    }
    if !worldwide.is_empty() && !ids.is_empty() {
        let words = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(Error::invalid(&path.child("targetWWNs"), given.get("targetWWNs"), words));
    }
    if !worldwide.is_empty() {
        match int(given, "lun") {
            None => errors.push(Error::required(&path.child("lun"), "lun is required if targetWWNs is specified")),
            Some(unit) if !(0..=255).contains(&unit) => {
                errors.push(Error::invalid(&path.child("lun"), unit, "must be between 0 and 255, inclusive"));
            }
            Some(_) => {}
        }
    }
    errors
}

fn quobyte(given: &Value, path: &Path) -> Errors {
    const PAIR: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(given, "registry");
    let own = path.child("registry");
    let mut errors = Vec::new();
    if registry.is_empty() {
        errors.push(Error::required(&own, PAIR));
    } else if registry.len() >= 65 {
        errors.push(Error::invalid(&own, registry, "must be less than 65 characters"));
    } else if registry.split(',').any(|pair| pair.split_once(':').is_none_or(|(host, port)| host.is_empty() || port.is_empty())) {
        errors.push(Error::invalid(&own, registry, PAIR));
    }
    errors.extend(volumes::required(given, "volume", path));
    errors
}
