//! A bundle to be added to a database.

use std::collections::BTreeSet;

use mainstay_bundle::{Bundle, go};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::Error;
use crate::manifest::{Api, Manifest};

const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";

/// A bundle to be added.
#[derive(Debug, Clone)]
pub struct Addition {
    pub(crate) image: String,
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) channels: Vec<String>,
    pub(crate) default_channel: String,
    pub(crate) version: String,
    pub(crate) replaces: String,
    pub(crate) skips: Vec<String>,
    pub(crate) skip_range: String,
    pub(crate) substitutes_for: String,
    pub(crate) csv: String,
    pub(crate) manifests: String,
    pub(crate) images: BTreeSet<String>,
    pub(crate) provided: BTreeSet<Api>,
    pub(crate) required: Vec<Api>,
    /// Type and value of each dependency.
    pub(crate) dependencies: Vec<(String, String)>,
    /// Type and value of each property, each pair once.
    pub(crate) properties: BTreeSet<(String, String)>,
}

impl Addition {
    /// Creates an addition from a bundle that was read for a catalog, with the given image reference.
    pub fn new(image: &str, bundle: &Bundle) -> Result<Self, Error> {
        let objects = &bundle.objects;
        let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion");
        let csv = csv.ok_or_else(|| Error::content("no csv in bundle"))?;
        let manifest = Manifest::new(csv.clone());
        let annotation = |key: &str| bundle.annotations.get(key).cloned().unwrap_or_default();
        let line = |object: &Value| go::to_string(object) + "\n";
        let name = csv["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let named = |what: &'static str| move |error: Error| Error::content(format!("unable to obtain {what} : {error}"));
        let crds = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
        let mut addition = Self {
            image: image.to_owned(),
            package: annotation(PACKAGE),
            channels: split(&annotation(CHANNELS)),
            default_channel: annotation(DEFAULT_CHANNEL),
            version: manifest.version().map_err(named("bundle version"))?,
            replaces: manifest.replaces().map_err(named("replaces"))?,
            skips: manifest.skips().map_err(named("skips"))?,
            skip_range: manifest.annotation("olm.skipRange").to_owned(),
            substitutes_for: manifest.annotation("olm.substitutesFor").to_owned(),
            csv: line(csv),
            manifests: objects.iter().map(line).collect(),
            images: std::iter::once(image.to_owned()).filter(|image| !image.is_empty()).chain(manifest.images()).collect(),
            provided: crds.flat_map(Api::of_crd).chain(manifest.owned_services()).collect(),
            required: manifest.required()?,
            dependencies: bundle.dependencies.iter().map(|it| (it.kind.clone(), it.value.get().to_owned())).collect(),
            properties: bundle.properties.iter().map(|it| (it.kind.clone(), it.value.get().to_owned())).collect(),
            name,
        };
        let required = addition.required.iter().map(|api| ("olm.gvk".to_owned(), gvk(api)));
        addition.dependencies.extend(required.collect::<Vec<_>>());
        addition.properties.extend(addition.provided.iter().map(|api| ("olm.gvk".to_owned(), gvk(api))));
        addition.properties.extend(annotated(&manifest)?);
        if !addition.package.is_empty() {
            let value = addition.package_property(csv)?;
            addition.properties.insert(("olm.package".to_owned(), value));
        }
        Ok(addition)
    }

    /// The image reference.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// The package with its version and, if there is one, its release.
    fn package_property(&self, csv: &Value) -> Result<String, Error> {
        let (mut version, mut release) = (self.version.as_str(), release(&csv["spec"]["release"])?);
        if release.is_empty() && !self.substitutes_for.is_empty() {
            let Some((bare, build)) = version.split_once('+') else {
                let problem = format!("no release version expressed as build metadata: {version:?}");
                return Err(Error::content(format!("failed to derive properties: bundle {:?} error: {problem}", self.name)));
            };
            (version, release) = (bare, build.to_owned());
        }
        let mut value = json!({"packageName": self.package, "version": version});
        let text = go::to_string(&value);
        if release.is_empty() {
            return Ok(text);
        }
        value = Value::from(release);
        Ok(format!("{},\"release\":{}}}", text.trim_end_matches('}'), go::to_string(&value)))
    }
}

fn release(value: &Value) -> Result<String, Error> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(Error::content("failed to derive properties: release field must be a string or number")),
    }
}

/// The properties of the CSV's annotation. A property of a known type must have the form of that type.
fn annotated(manifest: &Manifest) -> Result<Vec<(String, String)>, Error> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        r#type: String,
        value: Option<Box<RawValue>>,
    }
    let text = manifest.annotation("olm.properties");
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let refuse = |error: serde_json::Error| Error::content(format!("failed to add properties : {error}"));
    let entries: Option<Vec<Entry>> = serde_json::from_str(text).map_err(refuse)?;
    let mut found = Vec::new();
    for entry in entries.unwrap_or_default() {
        let value = entry.value.as_deref().map_or("null", RawValue::get);
        let keys: &[&str] = match entry.r#type.as_str() {
            "olm.label" => &["label"],
            "olm.package" => &["packageName", "version"],
            "olm.gvk" => &["group", "kind", "version"],
            _ => &[],
        };
        if !keys.is_empty() {
            let tree: Value = serde_json::from_str(value).map_err(refuse)?;
            let fits = tree.is_null() || tree.is_object() && keys.iter().all(|key| tree[key].is_null() || tree[key].is_string());
            if !fits {
                return Err(Error::content(format!("failed to add properties : value of {} has another form: {value}", entry.r#type)));
            }
        }
        found.push((entry.r#type, go::compact_raw(value)));
    }
    Ok(found)
}

/// An API in the form of a property or dependency.
pub(crate) fn gvk(api: &Api) -> String {
    go::to_string(&json!({"group": api.group, "kind": api.kind, "version": api.version}))
}

fn split(channels: &str) -> Vec<String> {
    if channels.is_empty() { Vec::new() } else { channels.split(',').map(str::to_owned).collect() }
}
