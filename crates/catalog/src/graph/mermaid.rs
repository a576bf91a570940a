//! The channels of a catalog in Mermaid's language, as `opm alpha render-graph` writes them (CATLG-49, CATLG-50).
//!
//! Curators paste the text into pages and keep it beside their catalogs, so it equals upstream's byte for byte. That includes its habits:
//! edges are numbered in the order in which the channels are read, which differs from the order of the text if packages share channel names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use mainstay_golang::{quote, sort_slice};
use mainstay_versions::{CatalogRange, Version};

use crate::facts::package_property;
use crate::model::{Bundle, Catalog, Channel, Entry, Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use crate::validate::property_error;

/// Options of a drawing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mermaid<'a> {
    /// Only this package.
    pub package: Option<&'a str>,
    /// Only edges from this bundle on.
    pub minimum_edge: Option<&'a str>,
    /// Marking of the edges that OLM v0 would not follow.
    pub semantics: V0Semantics,
}

/// Marking of skipped bundles and of the edges that lead to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum V0Semantics {
    /// Nothing is marked (`opm alpha render-graph` without flags).
    Plain,
    /// Skipped bundles are marked (`--draw-v0-semantics`, and always in `opm alpha render-template -o mermaid`).
    #[default]
    Marked,
}

/// A drawing, with warnings about the parts left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// Mermaid's text.
    pub text: String,
    /// Warnings for the user, in upstream's words.
    pub warnings: Vec<String>,
}

/// Reason why there is no drawing. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MermaidError {
    /// A property of the bundle has the wrong shape.
    #[error("parse properties for bundle {}: {reason}", quote(bundle))]
    Properties {
        /// Name of the bundle.
        bundle: String,
        /// The property and the problem.
        reason: String,
    },
    /// The bundle does not have exactly one `olm.package` property.
    #[error("bundle {} has multiple \"olm.package\" properties, expected exactly 1", quote(bundle))]
    PackageProperties {
        /// Name of the bundle.
        bundle: String,
    },
    /// The bundle's version cannot be parsed.
    #[error("bundle {} has invalid version {}: {reason}", quote(bundle), quote(version))]
    Version {
        /// Name of the bundle.
        bundle: String,
        /// The version as written.
        version: String,
        /// The problem.
        reason: String,
    },
    /// No bundle has the name of the minimum edge.
    #[error("unknown minimum edge name: {}", quote(name))]
    UnknownMinimumEdge {
        /// The name.
        name: String,
    },
}

/// Draws the channels of a catalog.
pub fn mermaid(catalog: &Catalog, options: &Mermaid<'_>) -> Result<Drawing, MermaidError> {
    let mut channels: Vec<&Channel> = catalog.channels.iter().collect();
    sort_slice(&mut channels, |a, b| a.name < b.name);
    let versions = versions(&catalog.bundles)?;
    let floor = match options.minimum_edge {
        Some(name) => Some(Floor {
            name,
            version: versions.of.get(name).ok_or_else(|| MermaidError::UnknownMinimumEdge { name: name.to_owned() })?,
            package: package_of(name, &channels),
        }),
        None => None,
    };
    let mut writer = Writer::new(&versions, options, Deprecated::of(catalog));
    for channel in channels {
        if let Some(entries) = kept(channel, options.package, floor.as_ref(), &versions) {
            writer.channel(channel, &entries);
        }
    }
    Ok(writer.finish())
}

/// Versions by the name of a bundle. A bundle without a blob counts as 0.0.0, as in upstream.
struct Versions {
    of: HashMap<String, Version>,
    none: Version,
}

impl Versions {
    fn get(&self, name: &str) -> &Version {
        self.of.get(name).unwrap_or(&self.none)
    }
}

fn versions(bundles: &[Bundle]) -> Result<Versions, MermaidError> {
    let mut of = HashMap::new();
    for bundle in bundles {
        let name = bundle.name.as_str();
        if !of.contains_key(name) {
            of.insert(name.to_owned(), version(bundle)?);
        }
    }
    Ok(Versions { of, none: Version::new(0, 0, 0) })
}

fn version(bundle: &Bundle) -> Result<Version, MermaidError> {
    let name = || bundle.name.as_str().to_owned();
    let wrong = |(index, property): (usize, &Property)| property_error(index, &property.kind, property.value.get());
    if let Some(reason) = bundle.properties.iter().enumerate().find_map(wrong) {
        return Err(MermaidError::Properties { bundle: name(), reason });
    }
    let mut of_package = bundle.properties.iter().filter(|property| property.kind == SCHEMA_PACKAGE);
    let (Some(property), None) = (of_package.next(), of_package.next()) else {
        return Err(MermaidError::PackageProperties { bundle: name() });
    };
    // `null` counts as a package without name and version.
    let version = package_property(property.value.get()).map(|(_, version)| version).unwrap_or_default();
    Version::parse(&version).map_err(|error| MermaidError::Version { bundle: name(), version, reason: error.to_string() })
}

/// The lower bound of the drawing.
struct Floor<'a> {
    name: &'a str,
    version: &'a Version,
    package: Option<&'a str>,
}

/// The package of the first channel that has the bundle.
fn package_of<'c>(bundle: &str, channels: &[&'c Channel]) -> Option<&'c str> {
    let channel = channels.iter().find(|channel| channel.entries.iter().any(|entry| entry.name.as_str() == bundle))?;
    Some(channel.package.as_str()).filter(|package| !package.is_empty())
}

/// The entries of a channel that are drawn; `None` if all of them are filtered out.
fn kept(channel: &Channel, package: Option<&str>, floor: Option<&Floor<'_>>, versions: &Versions) -> Option<Vec<Entry>> {
    if package.is_none() && floor.is_none() {
        return Some(channel.entries.clone());
    }
    let here = channel.package.as_str();
    if package.is_some_and(|package| package != here) || floor.is_some_and(|floor| floor.package.is_some_and(|package| package != here)) {
        return None;
    }
    let entries: Vec<Entry> = match floor {
        None => channel.entries.clone(),
        Some(floor) => channel.entries.iter().filter_map(|entry| above(entry, floor, versions)).collect(),
    };
    (!entries.is_empty()).then_some(entries)
}

/// The entry with the edges that begin at the floor or above it; `None` if it had edges and none is left.
fn above(entry: &Entry, floor: &Floor<'_>, versions: &Versions) -> Option<Entry> {
    let bare = Entry { name: entry.name.clone(), ..Entry::default() };
    if entry.name.as_str() == floor.name {
        return Some(bare);
    }
    let reaches = |name: &str| versions.get(name).cmp_precedence(floor.version).is_ge();
    let left = Entry {
        replaces: entry.replaces.clone().filter(|replaced| reaches(replaced.as_str())),
        skips: entry.skips.iter().filter(|skipped| reaches(skipped.as_str())).cloned().collect(),
        skip_range: entry.skip_range.clone().filter(|range| CatalogRange::parse(range).is_ok_and(|range| range.matches(floor.version))),
        ..bare
    };
    let edges = |entry: &Entry| entry.replaces.is_some() || !entry.skips.is_empty() || entry.skip_range.is_some();
    (edges(&left) || (!edges(entry) && reaches(entry.name.as_str()))).then_some(left)
}

/// The objects that the catalog's deprecations name. Upstream finds channels and bundles by their name alone, in any package.
#[derive(Default)]
struct Deprecated<'a> {
    packages: BTreeSet<&'a str>,
    channels: BTreeSet<&'a str>,
    bundles: BTreeSet<&'a str>,
}

impl<'a> Deprecated<'a> {
    fn of(catalog: &'a Catalog) -> Self {
        let mut deprecated = Self::default();
        for deprecations in &catalog.deprecations {
            for entry in &deprecations.entries {
                let name = entry.reference.name.as_str();
                match entry.reference.schema.as_str() {
                    SCHEMA_PACKAGE => deprecated.packages.insert(deprecations.package.as_str()),
                    SCHEMA_CHANNEL => deprecated.channels.insert(name),
                    SCHEMA_BUNDLE => deprecated.bundles.insert(name),
                    _ => false,
                };
            }
        }
        deprecated
    }
}

struct Writer<'a> {
    versions: &'a Versions,
    options: &'a Mermaid<'a>,
    deprecated: Deprecated<'a>,
    /// The text of each package.
    packages: BTreeMap<&'a str, String>,
    deprecated_package: Option<&'a str>,
    deprecated_channels: Vec<String>,
    /// IDs of bundles by their class in the drawing.
    classes: BTreeMap<&'static str, Vec<String>>,
    /// The number of edges so far.
    links: usize,
    skipped_links: Vec<usize>,
    warnings: Vec<String>,
}

impl<'a> Writer<'a> {
    fn new(versions: &'a Versions, options: &'a Mermaid<'a>, deprecated: Deprecated<'a>) -> Self {
        Self {
            versions,
            options,
            deprecated,
            packages: BTreeMap::new(),
            deprecated_package: None,
            deprecated_channels: Vec::new(),
            classes: BTreeMap::new(),
            links: 0,
            skipped_links: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn channel(&mut self, channel: &'a Channel, entries: &[Entry]) {
        let (package, name) = (channel.package.as_str(), channel.name.as_str());
        let id = format!("{package}-{name}");
        let mut out = self.packages.remove(package).unwrap_or_default();
        put(&mut out, format_args!("    %% channel {}\n    subgraph {id}[{}]\n", quote(name), quote(name)));
        if self.deprecated.packages.contains(package) {
            self.deprecated_package = Some(package);
        }
        if self.deprecated.channels.contains(name) {
            self.deprecated_channels.push(id.clone());
        }
        let mut descending: Vec<&Entry> = entries.iter().collect();
        sort_slice(&mut descending, |a, b| self.versions.get(a.name.as_str()).cmp_precedence(self.versions.get(b.name.as_str())).is_gt());
        let mut skipped = BTreeSet::new();
        for entry in descending {
            self.entry(&mut out, &id, package, entry, entries, &mut skipped);
        }
        out.push_str("    end\n");
        self.packages.insert(package, out);
    }

    fn entry<'e>(
        &mut self,
        out: &mut String,
        channel: &str,
        package: &str,
        entry: &'e Entry,
        entries: &[Entry],
        skipped: &mut BTreeSet<&'e str>,
    ) {
        let name = entry.name.as_str();
        let node = |name: &str| format!("{channel}-{name}[{}]", quote(name));
        put(out, format_args!("      {}\n", node(name)));
        let class = match (self.deprecated.bundles.contains(name), skipped.contains(name)) {
            (true, true) => Some("deprecatedskipped"),
            (true, false) => Some("deprecated"),
            (false, true) => Some("skipped"),
            (false, false) => None,
        };
        if let Some(class) = class {
            self.classes.entry(class).or_default().push(format!("{channel}-{name}"));
        }
        let marked = self.options.semantics == V0Semantics::Marked;
        for skip in entry.skips.iter().map(crate::BundleName::as_str) {
            put(out, format_args!("      {}-- skip --> {}\n", node(skip), node(name)));
            // If a second entry skips the same bundle, its edge leads from a bundle that the first one has removed.
            let again = marked && !skipped.insert(skip);
            self.link(again);
        }
        // The entry's own skips count, so this is looked up only now.
        let passed_over = skipped.contains(name);
        if let Some(range) = &entry.skip_range {
            match CatalogRange::parse(range) {
                Ok(parsed) => {
                    for below in entries.iter().map(|entry| entry.name.as_str()).filter(|name| parsed.matches(self.versions.get(name))) {
                        put(out, format_args!("      {}-- \"skipRange({range})\" --> {}\n", node(below), node(name)));
                        self.link(marked && passed_over);
                    }
                }
                Err(error) => self.warnings.push(format!(
                    "warning: ignoring invalid SkipRange for package/edge {}/{}: {error}",
                    quote(package),
                    quote(name)
                )),
            }
        }
        if let Some(replaced) = &entry.replaces {
            put(out, format_args!("      {}-- replace --> {}\n", node(replaced.as_str()), node(name)));
            self.link(marked && passed_over);
        }
    }

    fn link(&mut self, skipped: bool) {
        if skipped {
            self.skipped_links.push(self.links);
        }
        self.links += 1;
    }

    fn finish(mut self) -> Drawing {
        let mut out = String::from(
            "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
             classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n",
        );
        for (package, channels) in &self.packages {
            put(&mut out, format_args!("  %% package {}\n  subgraph {}\n{channels}  end\n", quote(package), quote(package)));
        }
        if let Some(package) = self.deprecated_package {
            put(&mut out, format_args!("style {package} fill:#989695\n"));
        }
        for channel in &self.deprecated_channels {
            put(&mut out, format_args!("style {channel} fill:#DCD0FF\n"));
        }
        for (class, bundles) in &mut self.classes {
            bundles.sort();
            put(&mut out, format_args!("class {} {class}\n", bundles.join(",")));
        }
        if !self.skipped_links.is_empty() {
            let links: Vec<String> = self.skipped_links.iter().map(usize::to_string).collect();
            put(&mut out, format_args!("linkStyle {} stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;\n", links.join(",")));
        }
        Drawing { text: out, warnings: self.warnings }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = out.write_fmt(text);
}
