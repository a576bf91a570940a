//! Entries: bundles as the resolver sees them, and the indexed content of a catalog.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use mainstay_golang::json::{Html, write_string};
use mainstay_golang::json_reader::{Struct, Type};
use mainstay_versions::{CatalogRange, Version};
use serde::Deserialize;
use serde_json::Value;

use crate::api::Api;
use crate::properties::Property;

use super::error::Problem;
use super::predicate::{self, Predicate};

/// A bundle as a registry lists it: one entry for each channel.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegistryBundle {
    /// The name of its CSV.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The channel.
    pub channel: String,
    /// True if the channel is the package's default.
    pub default_channel: bool,
    /// The bundle that it replaces in the channel.
    pub replaces: String,
    /// The bundles that it skips.
    pub skips: Vec<String>,
    /// The range of versions that it skips.
    pub skip_range: String,
    /// Its image; empty if the content is inline.
    pub bundle_path: String,
    /// Its CSV as JSON, if the content is inline.
    pub csv_json: String,
    /// Its objects as JSON, if the content is inline.
    pub objects: Vec<String>,
    /// Its properties.
    pub properties: Vec<Property>,
    /// Its dependencies.
    pub dependencies: Vec<Property>,
    /// The APIs that it provides.
    pub provided_apis: Vec<Api>,
    /// The APIs that it requires.
    pub required_apis: Vec<Api>,
    /// What its catalog deprecates of it.
    pub deprecations: Deprecations,
}

/// Messages of deprecations by scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Deprecations {
    /// Of the package.
    pub package: Option<String>,
    /// Of the channel.
    pub channel: Option<String>,
    /// Of the bundle.
    pub bundle: Option<String>,
}

/// The content of a bundle that comes with the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline {
    /// The CSV, JSON.
    pub csv_json: String,
    /// The objects, JSON or YAML.
    pub objects: Vec<String>,
    /// The properties that the catalog lists.
    pub properties: Vec<Property>,
}

/// A bundle in a channel, or an installed CSV.
#[derive(Debug)]
pub struct Entry {
    /// The name of the CSV.
    pub name: String,
    /// The bundle that it replaces.
    pub replaces: String,
    /// The bundles that it skips.
    pub skips: Vec<String>,
    /// The versions that it skips; a range that cannot be read is none.
    pub skip_range: Option<CatalogRange>,
    /// Its version, if it can be read.
    pub version: Option<Version>,
    /// Its package.
    pub package: String,
    /// The channel; empty for an installed CSV.
    pub channel: String,
    /// True if the channel is the package's default.
    pub default_channel: bool,
    /// Its image; empty if the content is inline.
    pub bundle_path: String,
    /// The content, if it is inline.
    pub inline: Option<Arc<Inline>>,
    /// What its catalog deprecates of it.
    pub deprecations: Deprecations,
    /// True for an installed CSV that a Subscription owns.
    pub subscribed: bool,
    content: Arc<Properties>,
}

/// The properties of a bundle and what is read from them. All channels of a bundle share them: most of a catalog in memory are these.
#[derive(Debug, Default)]
struct Properties {
    /// Those made of dependencies too.
    all: Vec<Property>,
    facts: Facts,
    requirements: OnceLock<Result<Arc<[Predicate]>, Problem>>,
    json: OnceLock<mainstay_cel::Value>,
}

impl Properties {
    fn new(mut all: Vec<Property>) -> Self {
        all.shrink_to_fit();
        Self { facts: Facts::of(&all), all, ..Self::default() }
    }
}

/// The facts in the properties.
#[derive(Debug, Default)]
struct Facts {
    packages: Vec<(String, Option<Version>)>,
    apis: Vec<Api>,
    labels: Vec<String>,
    deprecated: bool,
}

/// The struct of `olm.gvk` and of a dependency on an API.
pub(super) static GVK: Struct = Struct {
    full_name: r#"struct { Group string "json:\"group\""; Version string "json:\"version\""; Kind string "json:\"kind\"" }"#,
    name: "",
    fields: &[("group", Type::Text), ("version", Type::Text), ("kind", Type::Text)],
};
static NAMED_GVK: Struct = Struct { full_name: "resolver.gvk", name: "gvk", fields: GVK.fields };
static PACKAGE: Struct = Struct {
    full_name: r#"struct { PackageName string "json:\"packageName\""; VersionRange string "json:\"version\"" }"#,
    name: "",
    fields: &[("packageName", Type::Text), ("version", Type::Text)],
};
static LABEL: Struct = Struct { full_name: r#"struct { Label string "json:\"label\"" }"#, name: "", fields: &[("label", Type::Text)] };

/// The text of a field in any case; empty if there is none.
pub(super) fn text(value: &Value, name: &str) -> String {
    mainstay_bundle::go::member(value, name).as_str().unwrap_or_default().to_owned()
}

pub(super) fn api_of(value: &Value) -> Api {
    Api { group: text(value, "group"), version: text(value, "version"), kind: text(value, "kind") }
}

impl Facts {
    /// Reads the properties; those of the wrong shape are passed over, as upstream does.
    fn of(properties: &[Property]) -> Self {
        let mut facts = Self::default();
        for Property { kind, value } in properties {
            match kind.as_str() {
                "olm.package" => {
                    if let Ok(value) = PACKAGE.read(value) {
                        facts.packages.push((text(&value, "packageName"), Version::parse(&text(&value, "version")).ok()));
                    }
                }
                "olm.gvk" => facts.apis.extend(GVK.read(value).ok().map(|value| api_of(&value))),
                "olm.label" => facts.labels.extend(LABEL.read(value).ok().map(|value| text(&value, "label"))),
                "olm.deprecated" => facts.deprecated = true,
                _ => {}
            }
        }
        facts
    }
}

impl Entry {
    /// An entry with these properties and nothing else.
    pub(super) fn new(name: &str, properties: Vec<Property>) -> Self {
        Self {
            name: name.to_owned(),
            replaces: String::new(),
            skips: Vec::new(),
            skip_range: None,
            version: None,
            package: String::new(),
            channel: String::new(),
            default_channel: false,
            bundle_path: String::new(),
            inline: None,
            deprecations: Deprecations::default(),
            subscribed: false,
            content: Arc::new(Properties::new(properties)),
        }
    }

    /// The entry of a bundle in a channel; `others` are those of the same bundle in channels that were listed before.
    fn of_bundle<'a>(bundle: RegistryBundle, others: impl Iterator<Item = &'a Self>) -> Result<Self, Problem> {
        let inline = bundle
            .bundle_path
            .is_empty()
            .then(|| Arc::new(Inline { csv_json: bundle.csv_json, objects: bundle.objects, properties: bundle.properties.clone() }));
        // Registries that know no properties give the APIs by themselves.
        let mut properties = if bundle.properties.is_empty() { provided(bundle.provided_apis.into_iter()) } else { bundle.properties };
        if bundle.dependencies.is_empty() {
            properties.extend(required(bundle.required_apis.into_iter()));
        } else {
            for dependency in &bundle.dependencies {
                properties.extend(property_of(dependency)?);
            }
        }
        if !properties.iter().any(|property| property.kind == "olm.package") {
            properties.push(package_property(&bundle.package, &bundle.version));
        }
        let same = others.map(|other| &other.content).find(|content| content.all == properties).cloned();
        Ok(Self {
            name: bundle.name,
            replaces: bundle.replaces,
            skips: bundle.skips,
            skip_range: CatalogRange::parse(&bundle.skip_range).ok(),
            version: Version::parse_tolerant(&bundle.version).ok(),
            package: bundle.package,
            channel: bundle.channel,
            default_channel: bundle.default_channel,
            bundle_path: bundle.bundle_path,
            inline,
            deprecations: bundle.deprecations,
            subscribed: false,
            content: same.unwrap_or_else(|| Arc::new(Properties::new(properties))),
        })
    }

    /// Its properties, those made of dependencies too.
    pub fn properties(&self) -> &[Property] {
        &self.content.all
    }

    /// The packages that its properties name, with their versions.
    pub(super) fn packages(&self) -> &[(String, Option<Version>)] {
        &self.content.facts.packages
    }

    /// The APIs that it provides, as often as properties name them.
    pub(super) fn apis(&self) -> &[Api] {
        &self.content.facts.apis
    }

    pub(super) fn has_label(&self, label: &str) -> bool {
        self.content.facts.labels.iter().any(|own| own == label)
    }

    /// Returns whether its catalog forbids new installations of it (OLM0-RES-21).
    pub(super) fn is_deprecated(&self) -> bool {
        self.content.facts.deprecated
    }

    /// Returns whether it is of a package, by its properties or by its catalog.
    pub(super) fn is_of_package(&self, package: &str) -> bool {
        self.package == package || self.content.facts.packages.iter().any(|(name, _)| name == package)
    }

    /// The requirements in its properties.
    pub(super) fn requirements(&self) -> Result<Arc<[Predicate]>, Problem> {
        self.content.requirements.get_or_init(|| predicate::read(&self.content.all).map(Into::into)).clone()
    }

    /// The properties in the form that an expression reads. Go decodes every number as a float.
    pub(super) fn cel_properties(&self) -> mainstay_cel::Value {
        let read = |Property { kind, value }: &Property| match serde_json::from_str(value) {
            Ok(value) => serde_json::json!({"type": kind, "value": floats(value)}),
            Err(_) => serde_json::json!({}),
        };
        self.content.json.get_or_init(|| mainstay_cel::Value::from_json(&self.content.all.iter().map(read).collect())).clone()
    }
}

fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().and_then(serde_json::Number::from_f64).map_or(Value::Number(number), Value::Number),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, value)| (key, floats(value))).collect()),
        other => other,
    }
}

/// `olm.gvk` properties of some APIs, each once, in the order of their JSON.
pub(super) fn provided(apis: impl Iterator<Item = Api>) -> Vec<Property> {
    properties_of(apis, "olm.gvk", Api::provided_json)
}

/// `olm.gvk.required` properties of some APIs.
pub(super) fn required(apis: impl Iterator<Item = Api>) -> Vec<Property> {
    properties_of(apis, "olm.gvk.required", Api::required_json)
}

fn properties_of(apis: impl Iterator<Item = Api>, kind: &str, json: fn(&Api) -> String) -> Vec<Property> {
    let values: std::collections::BTreeSet<String> = apis.map(|api| json(&api)).collect();
    values.into_iter().map(|value| Property { kind: kind.to_owned(), value }).collect()
}

/// An `olm.package` property as upstream makes it.
pub(super) fn package_property(package: &str, version: &str) -> Property {
    Property { kind: "olm.package".to_owned(), value: object(&[("packageName", package), ("version", version)]) }
}

/// A JSON object of texts.
fn object(fields: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(&mut out, name, Html::Escaped);
        out.push(':');
        write_string(&mut out, value, Html::Escaped);
    }
    out.push('}');
    out
}

/// The property that a dependency becomes; `None` for a type that is not known.
fn property_of(dependency: &Property) -> Result<Option<Property>, Problem> {
    let unreadable = |error| Problem::Dependency { kind: dependency.kind.clone(), error };
    let property = |kind: &str, value: String| Ok(Some(Property { kind: kind.to_owned(), value }));
    match dependency.kind.as_str() {
        "olm.gvk" => {
            let value = NAMED_GVK.read(&dependency.value).map_err(unreadable)?;
            property("olm.gvk.required", api_of(&value).required_json())
        }
        "olm.package" => {
            let value = PACKAGE.read(&dependency.value).map_err(unreadable)?;
            let fields = [("packageName", text(&value, "packageName")), ("versionRange", text(&value, "version"))];
            property("olm.package.required", object(&fields.each_ref().map(|(name, value)| (*name, value.as_str()))))
        }
        "olm.label" => property("olm.label.required", dependency.value.clone()),
        "olm.constraint" => property("olm.constraint", dependency.value.clone()),
        _ => Ok(None),
    }
}

/// A bundle of a catalog that cannot be read; the rest of the catalog counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedBundle {
    /// Its name.
    pub name: String,
    /// The problem.
    pub problem: Problem,
}

/// The entries of a source, indexed.
#[derive(Debug, Default)]
pub struct Content {
    /// The entries in the order of the registry.
    pub entries: Vec<Entry>,
    /// The bundles that cannot be read.
    pub skipped: Vec<SkippedBundle>,
    by_name: HashMap<String, Vec<usize>>,
    by_package: HashMap<String, Vec<usize>>,
    by_api: HashMap<Api, Vec<usize>>,
}

impl Content {
    /// The content of a registry.
    pub fn of_registry(bundles: impl IntoIterator<Item = RegistryBundle>) -> Self {
        let (mut entries, mut skipped) = (Vec::<Entry>::new(), Vec::new());
        let mut by_name = HashMap::<String, Vec<usize>>::new();
        for bundle in bundles {
            let name = bundle.name.clone();
            let others = by_name.get(&name).into_iter().flatten().filter_map(|at| entries.get(*at));
            match Entry::of_bundle(bundle, others) {
                Ok(entry) => {
                    by_name.entry(name).or_default().push(entries.len());
                    entries.push(entry);
                }
                Err(problem) => skipped.push(SkippedBundle { name, problem }),
            }
        }
        Self { skipped, ..Self::of_entries(entries) }
    }

    pub(super) fn of_entries(mut entries: Vec<Entry>) -> Self {
        entries.shrink_to_fit();
        let mut content = Self { entries, ..Self::default() };
        for (at, entry) in content.entries.iter().enumerate() {
            content.by_name.entry(entry.name.clone()).or_default().push(at);
            let mut packages: Vec<&String> = entry.content.facts.packages.iter().map(|(name, _)| name).chain([&entry.package]).collect();
            packages.sort();
            packages.dedup();
            for package in packages {
                content.by_package.entry(package.clone()).or_default().push(at);
            }
            let apis: std::collections::BTreeSet<&Api> = entry.content.facts.apis.iter().collect();
            for api in apis {
                content.by_api.entry(api.clone()).or_default().push(at);
            }
        }
        content
    }

    /// Returns the deprecations of a bundle in a channel; in any channel if none is given. None if it is not listed.
    pub fn deprecations(&self, package: &str, channel: &str, name: &str) -> Option<&Deprecations> {
        let entries = self.named(name).iter().map(|at| &self.entries[*at]).filter(|entry| entry.package == package);
        let mut entries = entries.filter(|entry| channel.is_empty() || entry.channel == channel);
        entries.next().map(|entry| &entry.deprecations)
    }

    /// The entries of this name, ascending.
    pub(super) fn named(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The entries of this package, ascending.
    pub(super) fn of_package(&self, package: &str) -> &[usize] {
        self.by_package.get(package).map_or(&[], Vec::as_slice)
    }

    /// The entries that provide this API, ascending.
    pub(super) fn providing(&self, api: &Api) -> &[usize] {
        self.by_api.get(api).map_or(&[], Vec::as_slice)
    }
}
