//! The catalog of a scenario: bundles whose manifests stand in it, so that nothing needs an image.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_e2e::bundles::{Toy, write};
use mainstay_testing::bundles;
use serde::Deserialize;
use serde_json::{Value, json};

/// A package of a scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    name: String,
    /// The entries of each channel; the first channel is the default one.
    channels: Vec<Channel>,
    bundles: Vec<Bundle>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    name: String,
    entries: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    version: String,
    /// A version of a package of the recorded bundles, instead of a small one of our own.
    real: Option<String>,
    /// The differences from the small CSV, as a merge patch.
    #[serde(default)]
    csv: Value,
    /// The differences from the small CRD, as a merge patch; `false` for no CRD.
    #[serde(default)]
    crd: Value,
    /// More manifests.
    #[serde(default)]
    objects: Vec<Value>,
    /// More properties.
    #[serde(default)]
    properties: Vec<Value>,
}

/// Writes the packages as a file-based catalog.
pub fn write_catalog(packages: &[Package], folder: &Path) {
    let blobs: Vec<String> = packages.iter().flat_map(blobs).map(|blob| blob.to_string()).collect();
    write(&folder.join("catalog.json"), &blobs.join("\n"));
}

fn blobs(package: &Package) -> Vec<Value> {
    let mut blobs = vec![json!({"schema": "olm.package", "name": package.name, "defaultChannel": package.channels[0].name})];
    for channel in &package.channels {
        blobs.push(json!({"schema": "olm.channel", "package": package.name, "name": channel.name, "entries": channel.entries}));
    }
    blobs.extend(package.bundles.iter().map(|bundle| bundle.blob(&package.name)));
    blobs
}

impl Bundle {
    fn blob(&self, package: &str) -> Value {
        let manifests = self.manifests(package);
        let csv = manifests.iter().find(|object| object["kind"] == "ClusterServiceVersion").expect("a bundle has a CSV");
        let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": self.version}})];
        for (list, kind) in [("owned", "olm.gvk"), ("required", "olm.gvk.required")] {
            for api in csv["spec"]["customresourcedefinitions"][list].as_array().into_iter().flatten() {
                let group = api["name"].as_str().and_then(|name| name.split_once('.')).map(|(_, group)| group);
                properties.push(json!({"type": kind, "value": {"group": group, "version": api["version"], "kind": api["kind"]}}));
            }
            for api in csv["spec"]["apiservicedefinitions"][list].as_array().into_iter().flatten() {
                properties.push(json!({"type": kind, "value": {"group": api["group"], "version": api["version"], "kind": api["kind"]}}));
            }
        }
        properties.extend(self.properties.clone());
        for manifest in &manifests {
            properties.push(json!({"type": "olm.bundle.object", "value": {"data": STANDARD.encode(manifest.to_string())}}));
        }
        json!({"schema": "olm.bundle", "package": package, "name": csv["metadata"]["name"], "properties": properties})
    }

    fn manifests(&self, package: &str) -> Vec<Value> {
        let mut manifests = if let Some(real) = &self.real {
            recorded(real, &self.version)
        } else {
            // The type of the other tests has texts of the program; a handful of names may stay for ever.
            let toy = Toy::new(package.to_owned().leak(), self.version.clone().leak());
            let mut manifests = vec![toy.csv()];
            manifests.extend((self.crd != Value::Bool(false)).then(|| toy.crd()));
            manifests
        };
        for manifest in &mut manifests {
            match manifest["kind"].as_str() {
                Some("ClusterServiceVersion") => merge(manifest, &self.csv),
                Some("CustomResourceDefinition") => merge(manifest, &self.crd),
                _ => {}
            }
        }
        manifests.extend(self.objects.clone());
        manifests
    }
}

fn recorded(package: &str, version: &str) -> Vec<Value> {
    let all = bundles::bundles().expect("the recorded bundles are there");
    let files = all.get(&format!("{package}/{version}")).expect("the bundle is recorded");
    let manifests = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
    manifests
        .map(|(path, text)| mainstay_yaml::parse(&String::from_utf8_lossy(text)).unwrap_or_else(|error| panic!("{path}: {error}")))
        .collect()
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        if !patch.is_null() && !patch.is_boolean() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().map(|object| object.remove(key))),
            Value::Object(_) => merge(&mut target[key], value),
            other => target[key] = other.clone(),
        }
    }
}
