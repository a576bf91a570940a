//! Warnings of volumes, claims and classes.

use mainstay_schema::field::Path;
use serde_json::Value;

use super::pod::{fractional, node_selector_term};
use super::{annotation, node_label, part};
use crate::validate::{has, list, map, text};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const CLASS_TEXT: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";

/// Plugins of volumes that are gone or going; `gitRepo` is of Pods alone.
pub(super) const PLUGINS: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warning about a plugin that is used, with the plugin's name in Kubernetes' internal form.
pub(super) fn plugin(source: &Value, field: &str, path: &Path) -> Option<String> {
    let (_, message) = PLUGINS.iter().find(|(plugin, _)| *plugin == field && has(source, plugin))?;
    Some(format!("{}: {message}", path.child(if field == "storageos" { "storageOS" } else { field })))
}

pub(super) fn volume(volume: &Value) -> Vec<String> {
    let spec = part(volume, "spec");
    let path = Path::new("spec");
    let mut found = Vec::new();
    for (key, message) in
        [(CLASS, CLASS_TEXT), ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead")]
    {
        if annotation(volume, key).is_some() {
            found.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        found.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            path.child("persistentVolumeReclaimPolicy")
        ));
    }
    let terms = list(part(part(spec, "nodeAffinity"), "required"), "nodeSelectorTerms");
    let terms_path = path.children(&["nodeAffinity", "required", "nodeSelectorTerms"]);
    for (index, term) in terms.iter().enumerate() {
        found.extend(node_selector_term(term, false, &terms_path.index(index)));
    }
    let plugins = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
    found.extend(plugins.iter().filter_map(|field| plugin(spec, field, &path)));
    found
}

pub(super) fn claim(claim: &Value) -> Vec<String> {
    let old_way = annotation(claim, CLASS).map(|_| format!("metadata.annotations[{CLASS}]: {CLASS_TEXT}"));
    old_way.into_iter().chain(claim_spec(part(claim, "spec"), &Path::new("spec"))).collect()
}

/// Storage comes in whole bytes.
pub(super) fn claim_spec(spec: &Value, path: &Path) -> Vec<String> {
    let path = path.child("resources");
    let resources = part(spec, "resources");
    ["requests", "limits"].iter().filter_map(|field| fractional(resources, field, "storage", &path)).collect()
}

pub(super) fn class(class: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (index, topology) in list(class, "allowedTopologies").iter().enumerate() {
        let path = Path::new("allowedTopologies").index(index).child("matchLabelExpressions");
        for (index, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            if let Some(message) = node_label(text(expression, "key")) {
                found.push(format!("{}: {message}", path.index(index).child("key")));
            }
        }
    }
    found
}

pub(super) fn capacity(capacity: &Value) -> Vec<String> {
    let (selector, path) = (part(capacity, "nodeTopology"), Path::new("nodeTopology"));
    let mut found = node_selector_term(selector, false, &path);
    for (label, _) in map(selector, "matchLabels").into_iter().flatten() {
        if let Some(message) = node_label(label) {
            found.push(format!("{}: {message}", path.child("matchLabels").child(label)));
        }
    }
    found
}
