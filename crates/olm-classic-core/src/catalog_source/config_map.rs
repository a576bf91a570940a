//! Catalogs in ConfigMaps, as a file-based catalog (OLM0-CAT-05).
//!
//! The registry of upstream reads three keys, each a YAML list: packages with channels, CSVs, CRDs. A channel begins with its current CSV and goes
//! on along `replaces`, as far as there are CSVs.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_bundle::Csv;
use mainstay_bundle::go::Mismatch;
use serde::Deserialize;
use serde_json::{Value, json};

/// The keys of the ConfigMap.
const CRDS: &str = "customResourceDefinitions";
const CSVS: &str = "clusterServiceVersions";
const PACKAGES: &str = "packages";

/// Why a ConfigMap is no catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigMapError {
    /// A key is no YAML list.
    #[error("data[{key:?}] is no YAML list: {problem}")]
    Yaml {
        /// The key.
        key: &'static str,
        /// The problem.
        problem: String,
    },
    /// A package has another form.
    #[error("data[\"packages\"][{place}]: {problem}")]
    Package {
        /// Its place.
        place: usize,
        /// The problem.
        problem: String,
    },
    /// A CSV has a field of the wrong type.
    #[error("data[\"clusterServiceVersions\"][{place}]: {problem}")]
    Csv {
        /// Its place.
        place: usize,
        /// The problem.
        #[source]
        problem: Mismatch,
    },
    /// A channel begins with a CSV that is not there.
    #[error("package {package}, channel {channel}: currentCSV {csv} is not among the clusterServiceVersions")]
    NoCsv {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The CSV.
        csv: String,
    },
    /// A package with several channels names no default.
    #[error("package {0} has several channels and no defaultChannel")]
    NoDefault(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    #[serde(rename = "packageName")]
    name: String,
    #[serde(default)]
    default_channel: String,
    #[serde(default)]
    channels: Vec<Channel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Channel {
    name: String,
    #[serde(rename = "currentCSV")]
    current_csv: String,
}

/// The blobs of the catalog in the data of a ConfigMap.
pub fn catalog(data: &Value) -> Result<Vec<Value>, ConfigMapError> {
    let crds = list(data, CRDS)?;
    let crds: BTreeMap<&str, &Value> = crds.iter().filter_map(|crd| Some((crd["metadata"]["name"].as_str()?, crd))).collect();
    let written = list(data, CSVS)?;
    let mut csvs = BTreeMap::new();
    for (place, object) in written.iter().enumerate() {
        let csv = Csv::parse(object).map_err(|problem| ConfigMapError::Csv { place, problem })?;
        csvs.insert(csv.name.clone(), (csv, object));
    }
    let mut blobs = Vec::new();
    for (place, package) in list(data, PACKAGES)?.into_iter().enumerate() {
        let unreadable = |error: serde_json::Error| ConfigMapError::Package { place, problem: error.to_string() };
        let package = Package::deserialize(package).map_err(unreadable)?;
        let default = match (package.default_channel.as_str(), package.channels.as_slice()) {
            ("", [one]) => one.name.as_str(),
            ("", _) => return Err(ConfigMapError::NoDefault(package.name)),
            (named, _) => named,
        };
        blobs.push(json!({"schema": "olm.package", "name": package.name, "defaultChannel": default}));
        let mut bundles = BTreeSet::new();
        for channel in &package.channels {
            let (mut entries, mut seen, mut next) = (Vec::new(), BTreeSet::new(), channel.current_csv.as_str());
            while let Some((csv, _)) = csvs.get(next).filter(|_| seen.insert(next)) {
                entries.push(entry(csv));
                bundles.insert(csv.name.as_str());
                next = &csv.replaces;
            }
            if entries.is_empty() {
                let (package, channel, csv) = (package.name, channel.name.clone(), channel.current_csv.clone());
                return Err(ConfigMapError::NoCsv { package, channel, csv });
            }
            blobs.push(json!({"schema": "olm.channel", "package": package.name, "name": channel.name, "entries": entries}));
        }
        for (csv, object) in bundles.into_iter().filter_map(|name| csvs.get(name)) {
            blobs.push(bundle(&package.name, csv, object, &crds));
        }
    }
    Ok(blobs)
}

fn list(data: &Value, key: &'static str) -> Result<Vec<Value>, ConfigMapError> {
    let Some(text) = data[key].as_str() else { return Ok(Vec::new()) };
    let wrong = |problem: String| ConfigMapError::Yaml { key, problem };
    match mainstay_yaml::parse(text).map_err(|error| wrong(error.to_string()))? {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(wrong("found something else".to_owned())),
    }
}

fn entry(csv: &Csv) -> Value {
    let mut entry = json!({"name": csv.name});
    if !csv.replaces.is_empty() {
        entry["replaces"] = json!(csv.replaces);
    }
    if !csv.skips.is_empty() {
        entry["skips"] = json!(csv.skips);
    }
    if let Some(range) = csv.annotations.get("olm.skipRange") {
        entry["skipRange"] = json!(range);
    }
    entry
}

/// A bundle whose objects stand in the catalog.
fn bundle(package: &str, csv: &Csv, object: &Value, crds: &BTreeMap<&str, &Value>) -> Value {
    let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": csv.version}})];
    let group = |name: &str| name.split_once('.').map_or_else(String::new, |(_, group)| group.to_owned());
    for (kind, described) in [("olm.gvk", &csv.owned_crds), ("olm.gvk.required", &csv.required_crds)] {
        properties.extend(
            described
                .iter()
                .map(|crd| json!({"type": kind, "value": {"group": group(&crd.name), "version": crd.version, "kind": crd.kind}})),
        );
    }
    for (kind, apis) in [("olm.gvk", &csv.owned_api_services), ("olm.gvk.required", &csv.required_api_services)] {
        properties
            .extend(apis.iter().map(|api| json!({"type": kind, "value": {"group": api.group, "version": api.version, "kind": api.kind}})));
    }
    let owned = csv.owned_crds.iter().filter_map(|crd| crds.get(crd.name.as_str()).copied());
    let objects = std::iter::once(object).chain(owned);
    properties.extend(objects.map(|object| json!({"type": "olm.bundle.object", "value": {"data": base64(object.to_string().as_bytes())}})));
    json!({"schema": "olm.bundle", "package": package, "name": csv.name, "image": "", "properties": properties})
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn csv(name: &str, version: &str, replaces: &str) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
            "spec": {"displayName": "Widgets", "version": version, "replaces": replaces, "install": {"strategy": "deployment"},
                "customresourcedefinitions": {"owned": [{"name": "widgets.test.io", "version": "v1", "kind": "Widget"}]}},
        })
    }

    /// OLM0-CAT-05: a channel goes along `replaces`, and a bundle carries its CSV and the CRDs that it owns.
    #[test]
    fn a_config_map_is_a_catalog() {
        let text = |value: Value| Value::String(mainstay_yaml::to_string(&value));
        let crd =
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.test.io"}});
        let csvs =
            json!([csv("widgets.v2", "2.0.0", "widgets.v1"), csv("widgets.v1", "1.0.0", "widgets.v0"), csv("other.v1", "1.0.0", "")]);
        let package = json!([{"packageName": "widgets", "channels": [{"name": "stable", "currentCSV": "widgets.v2"}]}]);
        let data = json!({CRDS: text(json!([crd])), CSVS: text(csvs), PACKAGES: text(package)});
        let blobs = catalog(&data).unwrap();
        assert_eq!(blobs[0], json!({"schema": "olm.package", "name": "widgets", "defaultChannel": "stable"}));
        let entries = json!([{"name": "widgets.v2", "replaces": "widgets.v1"}, {"name": "widgets.v1", "replaces": "widgets.v0"}]);
        assert_eq!(blobs[1]["entries"], entries);
        let names: Vec<&str> = blobs[2..].iter().map(|blob| blob["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["widgets.v1", "widgets.v2"]);
        let kinds: Vec<&str> =
            blobs[2]["properties"].as_array().unwrap().iter().map(|property| property["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["olm.package", "olm.gvk", "olm.bundle.object", "olm.bundle.object"]);
        for (change, problem) in [
            (
                json!({PACKAGES: "- packageName: widgets\n  channels: [{name: a, currentCSV: none.v1}]"}),
                "package widgets, channel a: currentCSV none.v1 is not among the clusterServiceVersions",
            ),
            (
                json!({PACKAGES: "- packageName: widgets\n  channels: [{name: a, currentCSV: b}, {name: c, currentCSV: d}]"}),
                "package widgets has several channels and no defaultChannel",
            ),
            (json!({PACKAGES: "{}"}), "data[\"packages\"] is no YAML list: found something else"),
            (json!({PACKAGES: "- channels: []"}), "data[\"packages\"][0]: missing field `packageName`"),
        ] {
            assert_eq!(catalog(&change).unwrap_err().to_string(), problem);
        }
    }
}
