//! The request, and the catalogs that can meet it.

use std::collections::BTreeMap;

use mainstay_catalog::{Catalog, Index, PackageFacts, PropertyFacts};

use mainstay_objects::LabelSelector;

/// The request of a ClusterExtension (OLM1-SEL-01).
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Package.
    pub package: String,
    /// Channels, any of which is accepted; empty means all.
    pub channels: Vec<String>,
    /// Version range as written.
    pub version: Option<String>,
    /// Selector of the catalogs that may be used; `None` means all.
    pub selector: Option<LabelSelector>,
    /// Policy that says whether update edges bind.
    pub policy: UpgradeConstraintPolicy,
    /// The installed bundle.
    pub installed: Option<InstalledBundle>,
}

/// The effect of the catalog's update edges (OLM1-UPG-05, OLM1-UPG-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpgradeConstraintPolicy {
    /// Only direct successors in the catalog, or the same version.
    #[default]
    CatalogProvided,
    /// Any version, up or down.
    SelfCertified,
}

/// An installed bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledBundle {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A catalog as the cluster knows it.
#[derive(Clone, Copy)]
pub struct CandidateCatalog<'a> {
    /// Name of the ClusterCatalog.
    pub name: &'a str,
    /// Its labels, the name label included (OLM1-CAT-03).
    pub labels: &'a BTreeMap<String, String>,
    /// Its priority; the highest wins.
    pub priority: i32,
    /// Its content, or the reason why there is none.
    pub state: CatalogState<'a>,
}

/// Content of a catalog, or the reason why there is none.
#[derive(Clone, Copy)]
pub enum CatalogState<'a> {
    /// `availabilityMode: Unavailable`: treated as if it did not exist.
    Unavailable,
    /// Not `Serving=True`: resolution fails instead of going on without it (OLM1-SEL-02).
    NotServing,
    /// Serving, but its content could not be fetched; the text is the reason.
    Failed(&'a str),
    /// It reports a failure of its own and does not serve. It stops only the requests that could use it (MS-EXPL-05).
    Broken {
        /// The reason why it cannot be asked, in upstream's words.
        reason: &'a str,
        /// The content that it last served, if known; `None` if it never served.
        last: Option<&'a dyn PackageSource>,
    },
    /// Its content.
    Content(&'a dyn PackageSource),
}

/// Content of a catalog, package by package.
pub trait PackageSource {
    /// The facts of one package, if the catalog has it.
    fn package(&self, name: &str) -> Option<PackageFacts<'_>>;

    /// Names of all packages, for suggestions.
    fn package_names(&self) -> Vec<&str>;

    /// Names of the packages with a bundle in a channel that provides an API, in order, each once. A source that has an index for it
    /// answers without reading every package.
    fn providers(&self, group: &str, version: &str, kind: &str) -> Vec<&str> {
        let provides = |property: &PropertyFacts<'_>| {
            property.kind == "olm.gvk"
                && serde_json::from_str::<Api>(property.value)
                    .is_ok_and(|api| (&*api.group, &*api.version, &*api.kind) == (group, version, kind))
        };
        let has = |name: &&str| {
            self.package(name).is_some_and(|facts| {
                let in_channel = |name: &str| facts.channels.iter().any(|channel| channel.entries.iter().any(|entry| entry.name == name));
                facts.bundles.iter().any(|bundle| bundle.properties.iter().any(provides) && in_channel(bundle.name))
            })
        };
        let mut names = self.package_names();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter(has).collect()
    }
}

/// The value of an `olm.gvk` property.
#[derive(serde::Deserialize)]
struct Api {
    group: String,
    version: String,
    kind: String,
}

impl<B: AsRef<[u8]>> PackageSource for Index<B> {
    fn package(&self, name: &str) -> Option<PackageFacts<'_>> {
        self.package_facts(name)
    }

    fn package_names(&self) -> Vec<&str> {
        self.packages().map(mainstay_catalog::PackageView::name).collect()
    }

    fn providers(&self, group: &str, version: &str, kind: &str) -> Vec<&str> {
        self.providing_packages(group, version, kind)
    }
}

/// A catalog in memory as a source of packages.
#[derive(Debug)]
pub struct ModelSource {
    catalog: Catalog,
    versions: Vec<Option<String>>,
}

impl ModelSource {
    /// Takes a loaded catalog.
    pub fn new(catalog: Catalog) -> Self {
        let versions = catalog.versions();
        Self { catalog, versions }
    }
}

impl PackageSource for ModelSource {
    fn package(&self, name: &str) -> Option<PackageFacts<'_>> {
        self.catalog.package_facts(name, &self.versions)
    }

    fn package_names(&self) -> Vec<&str> {
        self.catalog.packages.iter().map(|package| package.name.as_str()).collect()
    }
}
