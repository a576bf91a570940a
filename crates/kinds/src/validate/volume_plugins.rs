//! Sources of volumes that storage systems of their own stand behind: what each must be told.

use std::sync::LazyLock;

use mainstay_schema::field::{Error, Path};
use regex::Regex;
use serde_json::Value;

use super::{Errors, all_invalid, flag, has, int, list, map, names, one_of_if_set, text, volumes};

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

/// Findings about a source of a pod's volume.
pub(super) fn source(field: &str, given: &Value, path: &Path) -> Errors {
    if field == "iscsi" {
        return iscsi(given, None, path);
    }
    let mut errors = common(field, given, path);
    if ["cinder", "storageos"].contains(&field) {
        errors.extend(named_secret(given, path));
    }
    errors
}

/// Findings about a source of a PersistentVolume of this name: secrets are of any namespace, and must say of which.
pub(super) fn of_volume(field: &str, given: &Value, name: &str, path: &Path) -> Errors {
    if field == "iscsi" {
        return iscsi(given, Some(name), path);
    }
    let mut errors = common(field, given, path);
    match field {
        "cinder" | "storageos" => {
            errors.extend(named_secret(given, path));
            if let Some(secret) = given.get("secretRef").filter(|secret| !secret.is_null()) {
                errors.extend(volumes::required(secret, "namespace", &path.child("secretRef")));
            }
        }
        "glusterfs" if has(given, "endpointsNamespace") => {
            let (namespace, path) = (text(given, "endpointsNamespace"), path.child("endpointsNamespace"));
            if namespace.is_empty() {
                let words = "if the endpointnamespace is set, it must be a valid namespace name";
                errors.push(Error::invalid(&path, namespace, words));
            } else {
                errors.extend(all_invalid(&path, namespace, names::label(namespace)));
            }
        }
        "azureFile" if has(given, "secretNamespace") => errors.extend(volumes::required(given, "secretNamespace", path)),
        _ => {}
    }
    errors
}

fn named_secret(given: &Value, path: &Path) -> Errors {
    let secret = given.get("secretRef").filter(|secret| !secret.is_null());
    secret.map(|secret| volumes::required(secret, "name", &path.child("secretRef"))).unwrap_or_default()
}

fn common(field: &str, given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
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
                errors.push(Error::invalid(&path.child("partition"), partition, "must be between 1 and 255, inclusive"));
            }
        }
        "flexVolume" => errors.extend(flex(given, path)),
        "azureDisk" => errors.extend(azure_disk(given, path)),
        "flocker" => errors.extend(flocker(given, path)),
        "fc" => errors.extend(fibre_channel(given, path)),
        "quobyte" => errors.extend(quobyte(given, path)),
        "storageos" => {
            let (name, namespace) = (text(given, "volumeName"), text(given, "volumeNamespace"));
            if name.is_empty() {
                errors.push(Error::required(&path.child("volumeName"), ""));
            } else {
                errors.extend(all_invalid(&path.child("volumeName"), name, names::label(name)));
            }
            if !namespace.is_empty() {
                errors.extend(all_invalid(&path.child("volumeNamespace"), namespace, names::label(namespace)));
            }
        }
        _ => {}
    }
    errors
}

/// Options of Kubernetes' own are not for users.
fn flex(given: &Value, path: &Path) -> Errors {
    let reserved = |key: &String| {
        let namespace = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io")
    };
    let keys = map(given, "options").into_iter().flatten().map(|(key, _)| key).filter(|key| reserved(key));
    keys.map(|key| Error::invalid(&path.child("options").key(key), key.as_str(), "kubernetes.io and k8s.io namespaces are reserved"))
        .collect()
}

fn azure_disk(given: &Value, path: &Path) -> Errors {
    let mut errors = one_of_if_set(given, "cachingMode", path, &["None", "ReadOnly", "ReadWrite"]);
    errors.extend(one_of_if_set(given, "kind", path, &["Dedicated", "Managed", "Shared"]));
    let (place, own) = (text(given, "diskURI"), path.child("diskURI"));
    let (start, form) = match text(given, "kind") {
        _ if !has(given, "kind") => return errors,
        "Managed" => ("/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !place.starts_with(start) {
        errors.push(Error::not_supported(&own, place, &[form]));
    }
    errors
}

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
            Regex::new($text).expect("a valid pattern")
        });
    };
}

pattern!(IQN, r"iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$");
pattern!(EUI, r"^eui.[[:alnum:]]{16}$");
pattern!(NAA, r"^naa.[[:alnum:]]{32}$");

/// The problem with the name of a target or an initiator. Those of pods' volumes are told how they must begin.
fn iscsi_name(name: &str, in_pod: bool) -> Option<&'static str> {
    let known = [("iqn", &IQN), ("eui", &EUI), ("naa", &NAA)];
    match known.iter().find(|(start, _)| name.starts_with(start)) {
        Some((_, pattern)) => (!pattern.is_match(name)).then_some("must be valid format"),
        None if in_pod => Some("must be valid format starting with iqn, eui, or naa"),
        None => Some("must be valid format"),
    }
}

/// `volume` is the name of the PersistentVolume, if it is one.
fn iscsi(given: &Value, volume: Option<&str>, path: &Path) -> Errors {
    let mut errors = volumes::required(given, "targetPortal", path);
    let portal = text(given, "targetPortal");
    if has(given, "initiatorName") && volume.is_some_and(|volume| volume.len() + 1 + portal.len() > 64) {
        let words = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(Error::invalid(&path.child("targetportal"), portal, words));
    }
    let name = text(given, "iqn");
    if name.is_empty() {
        errors.push(Error::required(&path.child("iqn"), ""));
    } else {
        errors.extend(iscsi_name(name, volume.is_none()).map(|words| Error::invalid(&path.child("iqn"), name, words)));
    }
    if let Some(unit) = int(given, "lun").filter(|unit| !(0..=255).contains(unit)) {
        errors.push(Error::invalid(&path.child("lun"), unit, "must be between 0 and 255, inclusive"));
    }
    if (flag(given, "chapAuthDiscovery") || flag(given, "chapAuthSession")) && !has(given, "secretRef") {
        errors.push(Error::required(&path.child("secretRef"), ""));
    }
    if volume.is_some() {
        errors.extend(named_secret(given, path));
    }
    if has(given, "initiatorName") {
        let initiator = text(given, "initiatorName");
        let words = iscsi_name(initiator, volume.is_none());
        errors.extend(words.map(|words| Error::invalid(&path.child("initiatorname"), initiator, words)));
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
    } else if text(given, "tenant").len() >= 65 {
        errors.push(Error::required(&path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let bad = registry.split(',').filter(|pair| !is_host_and_port(pair)).count();
        errors.extend((0..bad).map(|_| Error::invalid(&own, registry, PAIR)));
    }
    errors.extend(volumes::required(given, "volume", path));
    errors
}

/// `host:port`, with brackets around hosts that have colons themselves. Both may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(rest) => match rest.strip_suffix(']') {
            Some(inner) => inner,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iscsi() {
        assert_eq!(iscsi_name("iqn.2015-02.example.com:test", true), None);
        assert_eq!(iscsi_name("eui.0123456789ABCDEF", true), None);
        assert_eq!(iscsi_name("naa.60014053", true), Some("must be valid format"));
        assert_eq!(iscsi_name("a", true), Some("must be valid format starting with iqn, eui, or naa"));
        assert_eq!(iscsi_name("a", false), Some("must be valid format"));
    }

    #[test]
    fn hosts_and_ports() {
        assert!(is_host_and_port("a:1") && is_host_and_port("[::1]:2") && is_host_and_port(":"));
        assert!(!is_host_and_port("a") && !is_host_and_port("::1:2") && !is_host_and_port("[a:1"));
    }
}
