//! The files of a pod's volumes, and the places where containers find them (KAPI-WL-07). All of it is pure: `directory` writes them.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::Value;

use super::error::ProcessError;
use super::fields::{self, Addresses};
use super::sources::{self, Held, Holder, TokenSpec};
use crate::object::items;

/// The largest content of all volumes of a pod, in bytes.
const LARGEST: usize = 32 << 20;
/// The most files of all volumes of a pod.
const MOST: usize = 10_000;

/// The ConfigMap that admission projects beside every token, as OpenShift's does. A cluster whose service CA does not run has none, and no pod
/// waits for it.
const SERVICE_CA: &str = "openshift-service-ca.crt";

/// A file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its content.
    pub content: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

/// The content of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// An empty directory that lives as long as the pod.
    Empty,
    /// Files by their path below the volume, which are kept up to date.
    Files(BTreeMap<String, File>),
}

/// The tokens of a pod's service account.
pub type Tokens = BTreeMap<TokenSpec, String>;

/// Fills in the volumes of a pod, by name.
///
/// # Errors
/// A volume cannot be given to processes, or something that it needs is not there.
pub fn volumes(pod: &DynamicObject, held: &Held, tokens: &Tokens, addresses: &Addresses) -> Result<BTreeMap<String, Volume>, ProcessError> {
    let mut all = BTreeMap::new();
    let (mut bytes, mut count) = (0, 0);
    for volume in items(pod, "/spec/volumes") {
        let name = volume["name"].as_str().unwrap_or_default();
        let content = content(pod, volume, held, tokens, addresses).map_err(|why| format!("volume {name:?}: {why}"))?;
        if let Volume::Files(files) = &content {
            bytes += files.values().map(|file| file.content.len()).sum::<usize>();
            count += files.len();
        }
        if bytes > LARGEST || count > MOST {
            return Err(format!("volume {name:?}: the volumes of the pod hold more than {LARGEST} bytes or {MOST} files").into());
        }
        all.insert(name.to_owned(), content);
    }
    Ok(all)
}

fn content(pod: &DynamicObject, volume: &Value, held: &Held, tokens: &Tokens, addresses: &Addresses) -> Result<Volume, ProcessError> {
    let kinds = ["configMap", "secret", "downwardAPI", "projected"];
    let kind = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).find(|key| *key != "name").unwrap_or("emptyDir");
    if kind == "emptyDir" {
        return Ok(Volume::Empty);
    }
    if !kinds.contains(&kind) {
        return Err(format!("{kind} volumes are not available to processes of this machine").into());
    }
    let default = mode(&volume[kind]["defaultMode"]).unwrap_or(0o644);
    let mut files = BTreeMap::new();
    for part in sources::parts(volume) {
        add_keys(part, default, held, &mut files)?;
        add_fields(pod, part, default, addresses, &mut files)?;
        if let Some(token) = sources::token(part) {
            let path = safe(part["serviceAccountToken"]["path"].as_str().unwrap_or_default())?;
            let content = tokens.get(&token).ok_or("the token of the service account is not there")?.clone().into_bytes();
            // Tokens are their owner's, as the kubelet writes them.
            files.insert(
                path,
                File { content, mode: if volume["projected"]["defaultMode"].is_null() { 0o600 } else { default & 0o700 | 0o400 } },
            );
        }
        let known = ["configMap", "secret", "downwardAPI", "serviceAccountToken"];
        if volume["projected"].is_object() && !known.iter().any(|known| part[*known].is_object()) {
            return Err("a source of a projected volume is not available to processes of this machine".into());
        }
    }
    Ok(Volume::Files(files))
}

fn add_keys(part: &Value, default: u32, held: &Held, files: &mut BTreeMap<String, File>) -> Result<(), ProcessError> {
    let Some((kind, name)) = sources::holder(part) else { return Ok(()) };
    let source = if part["configMap"].is_object() { &part["configMap"] } else { &part["secret"] };
    let optional = source["optional"] == true || (kind == Holder::ConfigMap && name == SERVICE_CA);
    let Some(content) = held.get(&(kind, name.to_owned())).and_then(Option::as_ref) else {
        return if optional { Ok(()) } else { Err(format!("{} {name:?} not found", kind.word()).into()) };
    };
    let Some(chosen) = source["items"].as_array().filter(|chosen| !chosen.is_empty()) else {
        for (key, value) in content {
            files.insert(safe(key)?, File { content: value.clone(), mode: default });
        }
        return Ok(());
    };
    for item in chosen {
        let key = item["key"].as_str().unwrap_or_default();
        match content.get(key) {
            Some(value) => {
                let path = safe(item["path"].as_str().unwrap_or_default())?;
                files.insert(path, File { content: value.clone(), mode: mode(&item["mode"]).unwrap_or(default) });
            }
            None if optional => {}
            None => return Err(format!("references non-existent {} key: {key}", kind.word()).into()),
        }
    }
    Ok(())
}

fn add_fields(
    pod: &DynamicObject,
    part: &Value,
    default: u32,
    addresses: &Addresses,
    files: &mut BTreeMap<String, File>,
) -> Result<(), ProcessError> {
    for item in part.pointer("/downwardAPI/items").and_then(Value::as_array).into_iter().flatten() {
        let text = match item.pointer("/fieldRef/fieldPath").and_then(Value::as_str) {
            Some(path) => fields::field(pod, addresses, path)?,
            None => fields::resource(pod, "", &item["resourceFieldRef"])?,
        };
        let path = safe(item["path"].as_str().unwrap_or_default())?;
        files.insert(path, File { content: text.into_bytes(), mode: mode(&item["mode"]).unwrap_or(default) });
    }
    Ok(())
}

fn mode(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|mode| u32::try_from(mode).ok()).map(|mode| mode & 0o777)
}

/// Returns a path below a directory that leads nowhere else.
///
/// # Errors
/// It is empty, absolute, or leads up.
pub fn safe(path: &str) -> Result<String, ProcessError> {
    let parts: Vec<&str> = path.split('/').collect();
    let bad = |part: &&str| part.is_empty() || matches!(*part, "." | "..") || part.contains('\0');
    if parts.iter().any(bad) || parts.first().is_some_and(|first| first.starts_with("..")) {
        return Err(format!("path {path:?} cannot be used: it is to be relative, without \"..\"").into());
    }
    Ok(parts.join("/"))
}

/// A place of a container where a volume is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The path below the container's root.
    pub path: String,
    /// The volume.
    pub volume: String,
    /// The path below the volume; empty for all of it.
    pub below: String,
}

/// Returns the mounts of a container, outer ones first.
///
/// # Errors
/// A path leads out of the container's root or its volume.
pub fn mounts(container: &Value, expand: &dyn Fn(&str) -> String) -> Result<Vec<Mount>, ProcessError> {
    let mut all = Vec::new();
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let volume = mount["name"].as_str().unwrap_or_default().to_owned();
        let at = mount["mountPath"].as_str().unwrap_or_default();
        let path = safe(at.trim_matches('/')).map_err(|_| format!("mountPath {at:?} of volume {volume:?} cannot be used"))?;
        let below = match mount["subPathExpr"].as_str() {
            Some(expression) => expand(expression),
            None => mount["subPath"].as_str().unwrap_or_default().to_owned(),
        };
        let below = below.trim_end_matches('/');
        let below =
            if below.is_empty() { String::new() } else { safe(below).map_err(|why| format!("subPath of volume {volume:?}: {why}"))? };
        all.push(Mount { path, volume, below });
    }
    all.sort_by(|one, other| one.path.len().cmp(&other.path.len()).then(one.path.cmp(&other.path)));
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use serde_json::json;

    use super::*;

    fn filled(volume: &Value) -> Result<BTreeMap<String, (String, u32)>, ProcessError> {
        let mut volume = volume.clone();
        volume["name"] = json!("v");
        let pod: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"b": "2", "a": "1"}},
            "spec": {"volumes": [volume], "containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
        }))
        .unwrap();
        let content =
            |pairs: &[(&str, &str)]| Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect());
        let held: Held = [
            ((Holder::ConfigMap, "m".to_owned()), content(&[("a", "1"), ("b", "2")])),
            ((Holder::Secret, "s".to_owned()), content(&[("k", "secret")])),
        ]
        .into();
        let tokens: Tokens = [((String::new(), 3_600), "token".to_owned()), (("vault".to_owned(), 600), "other".to_owned())].into();
        match volumes(&pod, &held, &tokens, &Addresses::default())?.remove("v").unwrap() {
            Volume::Empty => Ok(BTreeMap::new()),
            Volume::Files(files) => {
                Ok(files.into_iter().map(|(path, file)| (path, (String::from_utf8(file.content).unwrap(), file.mode))).collect())
            }
        }
    }

    /// KAPI-WL-07: volumes hold ConfigMaps, Secrets, fields of the pod and tokens, by items, with modes; optional ones may be missing.
    #[test]
    fn volumes_are_filled() {
        let files = |all: &[(&str, &str, u32)]| {
            all.iter().map(|(path, text, mode)| ((*path).to_owned(), ((*text).to_owned(), *mode))).collect::<BTreeMap<_, _>>()
        };
        for (volume, expected) in [
            (json!({"emptyDir": {}}), files(&[])),
            (json!({"configMap": {"name": "m"}}), files(&[("a", "1", 0o644), ("b", "2", 0o644)])),
            (
                json!({"configMap": {"name": "m", "defaultMode": 0o400, "items": [{"key": "a", "path": "x/y", "mode": 0o755}, {"key": "b", "path": "z"}]}}),
                files(&[("x/y", "1", 0o755), ("z", "2", 0o400)]),
            ),
            (json!({"secret": {"secretName": "s", "defaultMode": 0o600}}), files(&[("k", "secret", 0o600)])),
            (json!({"secret": {"secretName": "none", "optional": true}}), files(&[])),
            (
                json!({"projected": {"sources": [{"configMap": {"name": SERVICE_CA, "items": [{"key": "service-ca.crt", "path": "x"}]}}]}}),
                files(&[]),
            ),
            (json!({"configMap": {"name": "m", "optional": true, "items": [{"key": "no", "path": "x"}]}}), files(&[])),
            (
                json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}}),
                files(&[("labels", "a=\"1\"\nb=\"2\"", 0o644), ("cpu", "2", 0o644)]),
            ),
            (
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "m", "items": [{"key": "a", "path": "a"}]}},
                {"secret": {"name": "s"}}, {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}}]}}),
                files(&[
                    ("token", "token", 0o600),
                    ("a", "1", 0o644),
                    ("k", "secret", 0o644),
                    ("ns", "n", 0o644),
                    ("vault", "other", 0o600),
                ]),
            ),
        ] {
            assert_eq!(filled(&volume).unwrap(), expected, "{volume}");
        }
    }

    /// KAPI-WL-07: what cannot be had, or would lead out of the volume, is refused with the volume's name.
    #[test]
    fn volumes_are_refused() {
        let item = |path: &str| json!({"configMap": {"name": "m", "items": [{"key": "a", "path": path}]}});
        for (volume, why) in [
            (json!({"hostPath": {"path": "/"}}), "volume \"v\": hostPath volumes are not available to processes of this machine"),
            (json!({"configMap": {"name": "none"}}), "volume \"v\": configmap \"none\" not found"),
            (
                json!({"secret": {"secretName": "s", "items": [{"key": "no", "path": "x"}]}}),
                "volume \"v\": references non-existent secret key: no",
            ),
            (item("../x"), "volume \"v\": path \"../x\" cannot be used: it is to be relative, without \"..\""),
            (item("/x"), "volume \"v\": path \"/x\" cannot be used: it is to be relative, without \"..\""),
            (item("..data/x"), "volume \"v\": path \"..data/x\" cannot be used: it is to be relative, without \"..\""),
            (
                json!({"projected": {"sources": [{"clusterTrustBundle": {}}]}}),
                "volume \"v\": a source of a projected volume is not available to processes of this machine",
            ),
        ] {
            assert_eq!(filled(&volume).unwrap_err().to_string(), why);
        }
    }

    /// KAPI-WL-07: mounts stay below the container's root and below their volume, and outer ones come first.
    #[test]
    fn mounts_are_read() {
        let read = |list: Value| mounts(&json!({"volumeMounts": list}), &|text| text.replace("$(N)", "7"));
        let all =
            read(json!([{"name": "b", "mountPath": "/x/y/", "subPathExpr": "d$(N)"}, {"name": "a", "mountPath": "/x", "subPath": "s/t"}]))
                .unwrap();
        let shown: Vec<_> = all.iter().map(|one| (one.path.as_str(), one.volume.as_str(), one.below.as_str())).collect();
        assert_eq!(shown, [("x", "a", "s/t"), ("x/y", "b", "d7")]);
        for bad in [
            json!({"name": "a", "mountPath": "/../x"}),
            json!({"name": "a", "mountPath": "/"}),
            json!({"name": "a", "mountPath": "/x", "subPath": "../y"}),
            json!({"name": "a", "mountPath": "/x", "subPath": "/y"}),
        ] {
            assert!(read(json!([bad])).is_err(), "{bad}");
        }
    }
}
