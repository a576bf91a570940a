//! A catalog taken apart by package, and the bundles of a package with their versions.

use std::collections::{BTreeMap, HashMap};

use mainstay_versions::Version;

use crate::facts::version_of;
use crate::model::{Bundle, Catalog, Channel, Deprecation, Deprecations, Meta, Package, Reference};

/// All blobs of one package, in the order of the files.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// Its package blob; the first one if a broken catalog has several.
    pub package: Option<&'a Package>,
    /// Its channels.
    pub channels: Vec<&'a Channel>,
    /// Its bundles.
    pub bundles: Vec<&'a Bundle>,
    /// Its deprecations.
    pub deprecations: Vec<&'a Deprecations>,
    /// Blobs of other schemas.
    pub others: Vec<&'a Meta>,
}

/// Versions of the bundles that exist; `None` if a bundle's version cannot be read.
pub type Versions<'a> = HashMap<&'a str, Option<Version>>;

impl<'a> Parts<'a> {
    /// The packages of a catalog by name. Blobs that belong to no package are not in it.
    pub fn by_package(catalog: &'a Catalog) -> BTreeMap<&'a str, Self> {
        let mut packages: BTreeMap<&str, Self> = BTreeMap::new();
        for package in &catalog.packages {
            packages.entry(package.name.as_str()).or_default().package.get_or_insert(package);
        }
        for channel in &catalog.channels {
            packages.entry(channel.package.as_str()).or_default().channels.push(channel);
        }
        for bundle in &catalog.bundles {
            packages.entry(bundle.package.as_str()).or_default().bundles.push(bundle);
        }
        for deprecations in &catalog.deprecations {
            packages.entry(deprecations.package.as_str()).or_default().deprecations.push(deprecations);
        }
        for other in catalog.others.iter().filter(|other| !other.package.is_empty()) {
            packages.entry(&other.package).or_default().others.push(other);
        }
        packages
    }

    /// The versions of its bundles by name.
    pub fn versions(&self) -> Versions<'a> {
        self.bundles.iter().map(|bundle| (bundle.name.as_str(), version(bundle))).collect()
    }

    /// The name of its default channel, if it names one.
    pub fn default_channel(&self) -> Option<&'a str> {
        self.package.map(|package| package.default_channel.as_str()).filter(|name| !name.is_empty())
    }

    /// One of its channels.
    pub fn channel(&self, name: &str) -> Option<&'a Channel> {
        self.channels.iter().copied().find(|channel| channel.name.as_str() == name)
    }

    /// One of its bundles.
    pub fn bundle(&self, name: &str) -> Option<&'a Bundle> {
        self.bundles.iter().copied().find(|bundle| bundle.name.as_str() == name)
    }

    /// Its deprecations by their subject.
    pub fn deprecated(&self) -> BTreeMap<&'a Reference, &'a str> {
        self.entries().map(|entry| (&entry.reference, entry.message.as_str())).collect()
    }

    fn entries(&self) -> impl Iterator<Item = &'a Deprecation> {
        self.deprecations.iter().flat_map(|deprecations| &deprecations.entries)
    }
}

/// The version that a bundle's `olm.package` property gives it.
pub fn version(bundle: &Bundle) -> Option<Version> {
    let properties = bundle.properties.iter().map(|property| (property.kind.as_str(), property.value.get()));
    version_of(properties).and_then(|text| Version::parse(&text).ok())
}
