//! Facts in a bundle's properties: provided APIs, requirements, and texts for consoles (CATLG-21, OLM0-BUNDLE-11).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::decode::{Fields, Shape};
use crate::model::Bundle;
use crate::validate::decode_base64;

/// Why a property of a bundle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidProperty(String);

/// Maximum nesting depth of constraints.
const MAX_DEPTH: usize = 32;

/// Known property types; `olm.*` is reserved for them (CATLG-20).
pub const KNOWN_PROPERTIES: [&str; 14] = [
    "olm.package",
    "olm.gvk",
    "olm.package.required",
    "olm.gvk.required",
    "olm.constraint",
    "olm.bundle.object",
    "olm.csv.metadata",
    "olm.maxOpenShiftVersion",
    "olm.deprecated",
    "olm.label",
    "olm.label.required",
    "olm.kubeversion",
    "olm.substitutesFor",
    "olm.bundle.mediatype",
];

/// An API: group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Api {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.kind, self.group, self.version)
    }
}

/// A requirement of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A package in a range of versions.
    Package {
        /// Its name.
        package: String,
        /// The range as written, in the catalogs' dialect.
        range: String,
    },
    /// A provider of an API.
    Api(Api),
    /// All of these.
    All(Vec<Need>),
    /// One of these.
    Any(Vec<Need>),
    /// None of these.
    Not(Vec<Need>),
    /// An expression that only a cluster can evaluate.
    Expression(String),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, word: &str, needs: &[Need]| {
            write!(f, "{word} (")?;
            for (i, need) in needs.iter().enumerate() {
                write!(f, "{}{need}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(")")
        };
        match self {
            Self::Package { package, range } => write!(f, "package {package} {range:?}"),
            Self::Api(api) => write!(f, "API {api}"),
            Self::All(needs) => list(f, "all of", needs),
            Self::Any(needs) => list(f, "one of", needs),
            Self::Not(needs) => list(f, "none of", needs),
            Self::Expression(rule) => write!(f, "expression {rule:?}"),
        }
    }
}

/// The APIs that a bundle provides, in order, each once. Properties of the wrong shape are left to validation.
pub fn provided(bundle: &Bundle) -> Vec<Api> {
    let mut apis: Vec<Api> = values(bundle, "olm.gvk").filter_map(|json| api(&Fields::read(json, "value").ok()?).ok()).collect();
    apis.sort();
    apis.dedup();
    apis
}

/// The requirements of a bundle, in order, each once. Properties of the wrong shape are left to validation.
pub fn needs(bundle: &Bundle) -> Vec<Need> {
    let mut needs: Vec<Need> = stated_needs(bundle).map(|(_, need)| need).collect();
    needs.sort();
    needs.dedup();
    needs
}

/// The requirements of a bundle, each with the position of its property among the bundle's properties.
pub fn stated_needs(bundle: &Bundle) -> impl Iterator<Item = (usize, Need)> + '_ {
    let read = |property: &crate::model::Property| {
        let json = property.value.get();
        match property.kind.as_str() {
            "olm.package.required" => package(&Fields::read(json, "value").ok()?).ok(),
            "olm.gvk.required" => api(&Fields::read(json, "value").ok()?).ok().map(Need::Api),
            "olm.constraint" => constraint(&Fields::read(json, "value").ok()?, 0),
            _ => None,
        }
    };
    bundle.properties.iter().enumerate().filter_map(move |(index, property)| Some((index, read(property)?)))
}

/// The values of all properties of one type, as JSON.
pub fn values<'a>(bundle: &'a Bundle, kind: &'a str) -> impl Iterator<Item = &'a str> {
    bundle.properties.iter().filter(move |property| property.kind == kind).map(|property| property.value.get())
}

fn api(fields: &Fields<'_>) -> Result<Api, Shape> {
    Ok(Api {
        group: fields.text("group")?.into_owned(),
        version: fields.text("version")?.into_owned(),
        kind: fields.text("kind")?.into_owned(),
    })
}

fn package(fields: &Fields<'_>) -> Result<Need, Shape> {
    // A constraint of OLM classic may name the range `versionRange` or, in old catalogs, `version`.
    let mut range = fields.text("versionRange")?;
    if range.is_empty() {
        range = fields.text("version")?;
    }
    Ok(Need::Package { package: fields.text("packageName")?.into_owned(), range: range.into_owned() })
}

fn constraint(fields: &Fields<'_>, depth: usize) -> Option<Need> {
    if depth > MAX_DEPTH {
        return None;
    }
    let inner = |name: &'static str| fields.get(name).and_then(|value| Fields::read(value.get(), name).ok());
    let list = |name: &'static str| {
        let list = inner(name)?.mappings("constraints").ok()?;
        Some(list.iter().filter_map(|fields| constraint(fields, depth + 1)).collect())
    };
    if let Some(gvk) = inner("gvk") {
        return api(&gvk).ok().map(Need::Api);
    }
    if let Some(of) = inner("package") {
        return package(&of).ok();
    }
    if let Some(cel) = inner("cel") {
        return cel.text("rule").ok().map(|rule| Need::Expression(rule.into_owned()));
    }
    list("all").map(Need::All).or_else(|| list("any").map(Need::Any)).or_else(|| list("not").map(Need::Not))
}

/// Facts of a bundle that consoles show.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Facts {
    /// The operator's display name.
    #[serde(deserialize_with = "nullable")]
    pub display_name: String,
    /// Its description, Markdown.
    #[serde(deserialize_with = "nullable")]
    pub description: String,
    /// The operator's provider.
    #[serde(deserialize_with = "nullable")]
    pub provider: Provider,
    /// Search keywords.
    #[serde(deserialize_with = "nullable")]
    pub keywords: Vec<String>,
    /// The minimum Kubernetes version.
    #[serde(deserialize_with = "nullable")]
    pub min_kube_version: String,
    /// Annotations of the CSV.
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, Value>,
    /// The install modes.
    #[serde(deserialize_with = "nullable")]
    pub install_modes: Vec<InstallMode>,
    /// The CRDs that it owns and requires.
    #[serde(deserialize_with = "nullable", alias = "customresourcedefinitions")]
    pub custom_resource_definitions: Descriptions,
    /// The aggregated APIs that it owns and requires.
    #[serde(deserialize_with = "nullable", alias = "apiservicedefinitions")]
    pub api_service_definitions: Descriptions,
}

/// Descriptions of APIs, of which only the required ones matter here; the owned ones are properties of their own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Descriptions {
    /// The APIs that the operator uses and others provide.
    #[serde(deserialize_with = "nullable")]
    pub required: Vec<Description>,
}

/// The description of one API.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Description {
    /// The name: `PLURAL.GROUP` for a CRD.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The group; only aggregated APIs name it.
    #[serde(deserialize_with = "nullable")]
    pub group: String,
    /// The version.
    #[serde(deserialize_with = "nullable")]
    pub version: String,
    /// The kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
}

/// The provider of an operator.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// The name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// One install mode.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct InstallMode {
    /// Its name.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// True if it is supported.
    #[serde(deserialize_with = "nullable")]
    pub supported: bool,
}

/// Reads null as absent, like Go.
fn nullable<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Facts {
    /// The facts in a bundle's metadata or, if it has none, in the CSV among its objects.
    pub fn of(bundle: &Bundle) -> Result<Option<Self>, InvalidProperty> {
        if let Some(json) = values(bundle, "olm.csv.metadata").next() {
            return serde_json::from_str(json).map(Some).map_err(|error| InvalidProperty(format!("olm.csv.metadata: {error}")));
        }
        for json in values(bundle, "olm.bundle.object") {
            let Some(csv) = object(json)?.filter(|object| object["kind"] == "ClusterServiceVersion") else { continue };
            let mut spec = csv.get("spec").cloned().unwrap_or_default();
            if let (Some(spec), Some(annotations)) = (spec.as_object_mut(), csv.pointer("/metadata/annotations")) {
                spec.insert("annotations".to_owned(), annotations.clone());
            }
            return serde_json::from_value(spec)
                .map(Some)
                .map_err(|error| InvalidProperty(format!("ClusterServiceVersion in olm.bundle.object: {error}")));
        }
        Ok(None)
    }

    /// The APIs that the CSV names as required, each with its field.
    pub fn required_apis(&self) -> impl Iterator<Item = (String, Api)> + '_ {
        let api = |of: &Description, group: &str| Api { group: group.to_owned(), version: of.version.clone(), kind: of.kind.clone() };
        let crds = self.custom_resource_definitions.required.iter().enumerate().filter_map(move |(index, of)| {
            let (_, group) = of.name.split_once('.')?;
            Some((format!("customResourceDefinitions.required[{index}]"), api(of, group)))
        });
        let services = self.api_service_definitions.required.iter().enumerate();
        crds.chain(services.map(move |(index, of)| (format!("apiServiceDefinitions.required[{index}]"), api(of, &of.group))))
    }

    /// An annotation of the CSV.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)?.as_str()
    }
}

/// The manifest of an `olm.bundle.object` property; `None` if it refers to a file.
pub fn object(json: &str) -> Result<Option<Value>, InvalidProperty> {
    let wrong = |error: &dyn fmt::Display| InvalidProperty(format!("olm.bundle.object: {error}"));
    let fields = Fields::read(json, "value").map_err(|shape| wrong(&shape))?;
    let data: Cow<'_, str> = fields.text("data").map_err(|shape| wrong(&shape))?;
    if data.is_empty() {
        return Ok(None);
    }
    let bytes = decode_base64(&data).map_err(|error| wrong(&error))?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(&error));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| wrong(&error))?;
    mainstay_yaml::parse(text).map(Some).map_err(|error| wrong(&error.problem))
}
