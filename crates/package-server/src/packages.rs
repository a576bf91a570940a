//! The packages of a catalog, as package manifests show them (OLM0-API-28). They depend on the content alone, so that all sources with one
//! content share them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mainstay_catalog::{ChannelView, EntryView, PackageView};
use mainstay_catalog_serve::ServeError;
use mainstay_catalog_serve::grpc::csv_json;
use mainstay_catalog_store::{Map, StoredCatalog};
use mainstay_diagnostics::chain;
use mainstay_objects::Labels;
use mainstay_versions::Version;
use serde::Serialize;

use crate::csv::{Csv, CsvError, Icon, Link};
use crate::packed::Packed;

/// Marks a bundle that its catalog has deprecated in the older way: such bundles are no entries.
const DEPRECATED: &str = "olm.deprecated";

/// The packages of a catalog, by name.
#[derive(Debug, Default)]
pub struct Packages(Vec<Package>);

/// A package.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The channel that is followed unless another one is asked for.
    pub default_channel: String,
    /// The organization that provides it.
    pub provider: Link,
    /// Labels that come from the default channel's head.
    pub labels: Labels,
    /// The message of its deprecation.
    pub deprecation: Option<Deprecation>,
    /// Its channels, by name; at least one.
    pub channels: Vec<Channel>,
}

/// A channel.
#[derive(Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The version at its head.
    pub current: String,
    /// The description of that version, as JSON text.
    pub description: Arc<Packed>,
    /// The message of its deprecation.
    pub deprecation: Option<Deprecation>,
    /// Its entries, the highest version first.
    pub entries: Vec<Entry>,
}

/// An entry of a channel.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The name of the bundle.
    pub name: String,
    /// Its version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The message of its deprecation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
}

/// The message of a deprecation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deprecation {
    /// For people.
    pub message: String,
}

/// Why a channel is not shown.
#[derive(Debug, thiserror::Error)]
enum HeadError {
    #[error("the channel has no head")]
    None,
    #[error(transparent)]
    Bundle(#[from] ServeError),
    #[error(transparent)]
    Csv(#[from] CsvError),
    #[error("the description cannot be kept")]
    Pack(#[from] std::io::Error),
}

/// A bundle at the head of a channel.
#[derive(Clone)]
struct Head {
    name: String,
    labels: Labels,
    provider: Link,
    description: Arc<Packed>,
}

impl Packages {
    /// Reads the packages of a catalog. A channel whose head cannot be shown is left out, and so is a package without channels.
    pub fn read(catalog: &StoredCatalog) -> Self {
        let mut packages: Vec<Package> = catalog.index().packages().filter_map(|package| read_package(catalog, package)).collect();
        packages.sort_by(|left, right| left.name.cmp(&right.name));
        Self(packages)
    }

    /// Returns all packages, by name.
    pub fn all(&self) -> &[Package] {
        &self.0
    }

    /// Returns the package of a name.
    pub fn get(&self, name: &str) -> Option<&Package> {
        self.0.binary_search_by(|package| package.name.as_str().cmp(name)).ok().and_then(|at| self.0.get(at))
    }
}

/// Reads the picture of a package: that of the default channel's head.
pub fn read_icon(catalog: &StoredCatalog, package: &Package) -> Option<Icon> {
    let view = catalog.index().package(&package.name)?.channel(&package.default_channel)?;
    Csv::parse(&csv_json(catalog, view.head()?).ok()?).ok()?.into_icon()
}

fn read_package(catalog: &StoredCatalog, package: PackageView<'_, Map>) -> Option<Package> {
    let mut heads = HashMap::new();
    let declared = package.default_channel().unwrap_or_default();
    let (mut channels, mut chosen, mut elided) = (Vec::new(), None::<Head>, false);
    for channel in package.channels() {
        let head = match read_head(catalog, channel, &mut heads) {
            Ok(head) => head,
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(package = package.name(), channel = channel.name(), error, "channel is not shown: its head cannot be read");
                elided |= channel.name() == declared;
                continue;
            }
        };
        let current = head.name.clone();
        let description = head.description.clone();
        if chosen.is_none() || channel.name() == declared {
            chosen = Some(head);
        }
        let entries = entries(channel);
        channels.push(Channel {
            name: channel.name().to_owned(),
            current,
            description,
            deprecation: deprecation(channel.deprecation()),
            entries,
        });
    }
    let head = chosen?;
    channels.sort_by(|left, right| left.name.cmp(&right.name));
    let default_channel = if elided { channels.first()?.name.clone() } else { declared.to_owned() };
    Some(Package {
        name: package.name().to_owned(),
        default_channel,
        provider: head.provider,
        labels: head.labels,
        deprecation: deprecation(package.deprecation()),
        channels,
    })
}

fn read_head(catalog: &StoredCatalog, channel: ChannelView<'_, Map>, heads: &mut HashMap<String, Head>) -> Result<Head, HeadError> {
    let entry = channel.head().ok_or(HeadError::None)?;
    if let Some(known) = heads.get(entry.name()) {
        return Ok(known.clone());
    }
    let csv = Csv::parse(&csv_json(catalog, entry)?)?;
    let description = Arc::new(Packed::new(&csv.description()?)?);
    let head = Head { provider: csv.provider().clone(), name: csv.metadata.name, labels: csv.metadata.labels, description };
    heads.insert(entry.name().to_owned(), head.clone());
    Ok(head)
}

/// The entries that have a bundle, the highest version first; equal ones in the order of their names.
fn entries(channel: ChannelView<'_, Map>) -> Vec<Entry> {
    let mut found: BTreeMap<(Reverse<Precedence>, String), Entry> = BTreeMap::new();
    for entry in channel.entries() {
        if let Some(shown) = shown_entry(entry) {
            let version = Version::parse(&shown.version).ok();
            found.insert((Reverse(Precedence(version)), shown.name.clone()), shown);
        }
    }
    found.into_values().collect()
}

fn shown_entry(entry: EntryView<'_, Map>) -> Option<Entry> {
    let bundle = entry.bundle()?;
    if bundle.properties().any(|property| property.kind == DEPRECATED) {
        return None;
    }
    let version = bundle.version().unwrap_or_default().to_owned();
    Some(Entry { name: entry.name().to_owned(), version, deprecation: deprecation(bundle.deprecation()) })
}

fn deprecation(message: Option<&str>) -> Option<Deprecation> {
    message.map(|message| Deprecation { message: message.to_owned() })
}

/// A version in the order of the specification; one that is none is the lowest.
struct Precedence(Option<Version>);

impl PartialEq for Precedence {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Precedence {}

impl PartialOrd for Precedence {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Precedence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => left.cmp_precedence(right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }
}
