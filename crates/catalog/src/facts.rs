//! The facts of one package that a resolver needs, borrowed from an index or from the model.

use crate::decode::{Fields, Shape};
use crate::model::{Catalog, Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};

/// One package of one catalog.
#[derive(Debug, Clone, Default)]
pub struct PackageFacts<'a> {
    /// Name of the package.
    pub name: &'a str,
    /// Its default channel, if it names one.
    pub default_channel: Option<&'a str>,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Its channels.
    pub channels: Vec<ChannelFacts<'a>>,
    /// Its bundles.
    pub bundles: Vec<BundleFacts<'a>>,
}

/// One channel.
#[derive(Debug, Clone, Default)]
pub struct ChannelFacts<'a> {
    /// Name of the channel.
    pub name: &'a str,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Its entries.
    pub entries: Vec<EntryFacts<'a>>,
}

/// One entry of a channel.
#[derive(Debug, Clone, Default)]
pub struct EntryFacts<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Bundle it replaces.
    pub replaces: Option<&'a str>,
    /// Bundles it skips.
    pub skips: Vec<&'a str>,
    /// Versions it updates.
    pub skip_range: Option<&'a str>,
}

/// One bundle.
#[derive(Debug, Clone, Default)]
pub struct BundleFacts<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Version of its `olm.package` property as written, if it has exactly one such property.
    pub version: Option<&'a str>,
    /// Pull spec.
    pub image: &'a str,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Type of its first property that declares a dependency (OLM1-INST-04).
    pub dependency: Option<&'a str>,
    /// Its properties, without those that carry manifests or metadata ([`CONTENT_TYPES`]).
    pub properties: Vec<PropertyFacts<'a>>,
}

/// One property of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PropertyFacts<'a> {
    /// Its type.
    pub kind: &'a str,
    /// Its value, as JSON.
    pub value: &'a str,
}

/// Property types that carry the content of a bundle rather than facts about it; a registry's lists also leave them out.
pub const CONTENT_TYPES: [&str; 2] = ["olm.bundle.object", "olm.csv.metadata"];

/// Property types that declare a dependency (OLM1-INST-04).
pub(crate) const DEPENDENCY_TYPES: [&str; 3] = ["olm.package.required", "olm.gvk.required", "olm.constraint"];

/// Name and version of an `olm.package` property.
pub(crate) fn package_property(json: &str) -> Result<(String, String), Shape> {
    let fields = Fields::read(json, "value")?;
    Ok((fields.text("packageName")?.into_owned(), fields.text("version")?.into_owned()))
}

/// The version of a bundle, from its only `olm.package` property.
pub(crate) fn version_of<'p>(properties: impl Iterator<Item = (&'p str, &'p str)>) -> Option<String> {
    let mut of_package = properties.filter(|(kind, _)| *kind == SCHEMA_PACKAGE);
    let (_, value) = of_package.next()?;
    if of_package.next().is_some() {
        return None;
    }
    package_property(value).ok().map(|(_, version)| version).filter(|version| !version.is_empty())
}

impl Catalog {
    /// The facts of one package; `None` if no blob of the catalog belongs to it. `versions` holds the texts that the model lacks; it comes from
    /// [`Catalog::versions`].
    pub fn package_facts<'a>(&'a self, name: &str, versions: &'a [Option<String>]) -> Option<PackageFacts<'a>> {
        let package = self.packages.iter().find(|p| p.name.as_str() == name);
        let mut facts = PackageFacts::default();
        if let Some(package) = package {
            facts.name = package.name.as_str();
            facts.default_channel = Some(package.default_channel.as_str()).filter(|channel| !channel.is_empty());
        }
        let entries = || self.deprecations.iter().filter(|d| d.package.as_str() == name).flat_map(|d| &d.entries);
        let deprecation =
            |schema: &str, of: &str| entries().find(|e| e.reference.schema == schema && e.reference.name == of).map(|e| e.message.as_str());
        facts.deprecation = deprecation(SCHEMA_PACKAGE, "");
        for channel in self.channels.iter().filter(|c| c.package.as_str() == name) {
            facts.name = channel.package.as_str();
            let entries = channel.entries.iter().map(|entry| EntryFacts {
                name: entry.name.as_str(),
                replaces: entry.replaces.as_ref().map(crate::BundleName::as_str),
                skips: entry.skips.iter().map(crate::BundleName::as_str).collect(),
                skip_range: entry.skip_range.as_deref(),
            });
            facts.channels.push(ChannelFacts {
                name: channel.name.as_str(),
                deprecation: deprecation(SCHEMA_CHANNEL, channel.name.as_str()),
                entries: entries.collect(),
            });
        }
        for (bundle, version) in self.bundles.iter().zip(versions).filter(|(b, _)| b.package.as_str() == name) {
            facts.name = bundle.package.as_str();
            facts.bundles.push(BundleFacts {
                name: bundle.name.as_str(),
                version: version.as_deref(),
                image: &bundle.image,
                deprecation: deprecation(SCHEMA_BUNDLE, bundle.name.as_str()),
                dependency: first_dependency(&bundle.properties),
                properties: property_facts(&bundle.properties),
            });
        }
        (!facts.name.is_empty()).then_some(facts)
    }

    /// The version of each bundle, in the order of `bundles`.
    pub fn versions(&self) -> Vec<Option<String>> {
        let of = |properties: &[Property]| version_of(properties.iter().map(|p| (p.kind.as_str(), p.value.get())));
        self.bundles.iter().map(|bundle| of(&bundle.properties)).collect()
    }
}

fn property_facts(properties: &[Property]) -> Vec<PropertyFacts<'_>> {
    let facts = properties.iter().filter(|property| !CONTENT_TYPES.contains(&property.kind.as_str()));
    facts.map(|property| PropertyFacts { kind: &property.kind, value: property.value.get() }).collect()
}

fn first_dependency(properties: &[Property]) -> Option<&str> {
    properties.iter().map(|p| p.kind.as_str()).find(|kind| DEPENDENCY_TYPES.contains(kind))
}
