//! Building an index in one pass over the blobs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use mainstay_versions::Version;

use super::layout::{NONE, Section, assemble};
use super::orders::{Orders, order_blobs};
use super::shown::Shown;
use super::strings::Strings;
use crate::blob::Blob;
use crate::decode::{BundleBlob, ChannelBlob, DeprecationsBlob, Fields, PackageBlob, Shape};
use crate::error::LoadError;
use crate::facts::{CONTENT_TYPES, DEPENDENCY_TYPES, version_of};
use crate::model::{SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};

/// Largest content that can have an index, in bytes: offsets of texts have 32 bits.
const MAX_CONTENT: u64 = 1 << 30;
/// Length of the part of a package's description that is searched.
const SEARCHED_DESCRIPTION: usize = 4_096;

/// Builder of an index. Blobs must come in the order in which they are written to the content, one on each line.
#[derive(Default)]
pub struct IndexBuilder {
    strings: Strings,
    position: u64,
    blobs: Vec<u32>,
    packages: BTreeMap<String, PackageRows>,
}

/// Facts about one package during building.
struct PackageRows {
    default_channel: u32,
    description: String,
    blob: u32,
    deprecation: u32,
    channels: Vec<ChannelRow>,
    bundles: Vec<BundleRow>,
    /// Message by `(schema, name)`.
    deprecations: Vec<(String, String, u32)>,
}

impl Default for PackageRows {
    fn default() -> Self {
        Self {
            default_channel: NONE,
            description: String::new(),
            blob: NONE,
            deprecation: NONE,
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
        }
    }
}

struct ChannelRow {
    name: String,
    blob: u32,
    entries: Vec<EntryRow>,
}

struct EntryRow {
    name: u32,
    replaces: u32,
    skips: Vec<u32>,
    skip_range: u32,
}

struct BundleRow {
    name: String,
    version: Option<String>,
    image: u32,
    blob: u32,
    dependency: u32,
    display_name: u32,
    provider: u32,
    keywords: u32,
    summary: u32,
    install_modes: u32,
    provided: Vec<[u32; 3]>,
    required: Vec<[u32; 3]>,
    properties: Vec<[u32; 2]>,
}

impl IndexBuilder {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next blob of the content; its line end is counted too.
    pub fn add(&mut self, blob: &Blob<'_>) -> Result<(), LoadError> {
        if self.position + blob.json.len() as u64 > MAX_CONTENT {
            return Err(LoadError::Limit { path: blob.path.to_owned(), what: "the size of the catalog", limit: MAX_CONTENT });
        }
        let row = rows_of(&self.blobs, Section::Blobs);
        let start = self.position;
        let (schema, package, name) = (self.strings.id(blob.schema), self.strings.id(blob.package), self.strings.id(blob.name));
        self.blobs.extend([schema, package, name, start as u32, (start >> 32) as u32, blob.json.len() as u32]);
        self.position += blob.json.len() as u64 + 1;
        self.add_content(blob, row).map_err(|shape| blob.shape_error(shape))
    }

    fn add_content(&mut self, blob: &Blob<'_>, row: u32) -> Result<(), Shape> {
        match blob.schema {
            SCHEMA_PACKAGE => self.add_package(blob, row),
            SCHEMA_CHANNEL => self.add_channel(blob, row),
            SCHEMA_BUNDLE => self.add_bundle(blob, row),
            SCHEMA_DEPRECATIONS => self.add_deprecations(blob),
            _ => Ok(()),
        }
    }

    fn add_package(&mut self, blob: &Blob<'_>, row: u32) -> Result<(), Shape> {
        let package = PackageBlob::read(&Fields::read(blob.json, "")?)?;
        let rows = self.packages.entry(package.name.into_owned()).or_default();
        // A second blob of one package is invalid; the first one counts.
        if rows.blob == NONE {
            rows.blob = row;
            rows.default_channel = self.strings.id(&package.default_channel);
            rows.description = package.description.into_owned();
        }
        Ok(())
    }

    fn add_channel(&mut self, blob: &Blob<'_>, row: u32) -> Result<(), Shape> {
        let channel = ChannelBlob::read(&Fields::read(blob.json, "")?)?;
        let mut entries = Vec::with_capacity(channel.entries.len());
        for entry in channel.entries {
            entries.push(EntryRow {
                name: self.strings.id(&entry.name),
                replaces: self.strings.optional(&entry.replaces),
                skips: entry.skips.iter().map(|skip| self.strings.id(skip)).collect(),
                skip_range: self.strings.optional(&entry.skip_range),
            });
        }
        let rows = self.packages.entry(channel.package.into_owned()).or_default();
        rows.channels.push(ChannelRow { name: channel.name.into_owned(), blob: row, entries });
        Ok(())
    }

    fn add_bundle(&mut self, blob: &Blob<'_>, row: u32) -> Result<(), Shape> {
        let bundle = BundleBlob::read(&Fields::read(blob.json, "")?)?;
        let dependency = bundle.properties.iter().find(|p| DEPENDENCY_TYPES.contains(&p.kind.as_ref()));
        let shown = Shown::of(&bundle);
        let row = BundleRow {
            version: version_of(bundle.properties.iter().map(|p| (p.kind.as_ref(), p.value.get()))),
            image: self.strings.id(&bundle.image),
            blob: row,
            dependency: dependency.map_or(NONE, |p| self.strings.id(&p.kind)),
            display_name: self.strings.optional(&shown.display_name),
            provider: self.strings.optional(&shown.provider),
            keywords: self.strings.optional(&shown.keywords),
            summary: self.strings.optional(&shown.summary),
            install_modes: shown.install_modes.map_or(NONE, |modes| self.strings.id(&modes)),
            provided: self.apis(&bundle, "olm.gvk"),
            required: self.apis(&bundle, "olm.gvk.required"),
            properties: self.properties(&bundle),
            name: bundle.name.into_owned(),
        };
        self.packages.entry(bundle.package.into_owned()).or_default().bundles.push(row);
        Ok(())
    }

    /// Group, version and kind of each property of a type. A value of the wrong shape names no API; validation refuses it.
    fn apis(&mut self, bundle: &BundleBlob<'_>, kind: &str) -> Vec<[u32; 3]> {
        let values = bundle.properties.iter().filter(|property| property.kind == kind).map(|property| property.value.get());
        let apis = values.filter_map(|value| {
            let fields = Fields::read(value, "value").ok()?;
            let part = |name| fields.text(name).ok();
            Some([part("group")?, part("version")?, part("kind")?])
        });
        apis.map(|api| api.map(|part| self.strings.id(&part))).collect()
    }

    /// Type and value of each property that is a fact about the bundle.
    fn properties(&mut self, bundle: &BundleBlob<'_>) -> Vec<[u32; 2]> {
        let facts = bundle.properties.iter().filter(|property| !CONTENT_TYPES.contains(&property.kind.as_ref()));
        facts.map(|property| [self.strings.id(&property.kind), self.strings.id(property.value.get())]).collect()
    }

    fn add_deprecations(&mut self, blob: &Blob<'_>) -> Result<(), Shape> {
        let deprecations = DeprecationsBlob::read(&Fields::read(blob.json, "")?)?;
        let mut entries = Vec::with_capacity(deprecations.entries.len());
        for entry in deprecations.entries {
            entries.push((entry.schema.into_owned(), entry.name.into_owned(), self.strings.id(&entry.message)));
        }
        self.packages.entry(deprecations.package.into_owned()).or_default().deprecations.extend(entries);
        Ok(())
    }

    /// Returns the finished index.
    pub fn finish(mut self) -> Vec<u8> {
        let mut tables = Tables::default();
        // Blobs without a package are in the content, but belong to no package.
        self.packages.remove("");
        for (name, mut rows) in std::mem::take(&mut self.packages) {
            let find = |schema: &str, name: &str, rows: &PackageRows| {
                rows.deprecations.iter().find(|(s, n, _)| s == schema && n == name).map_or(NONE, |(_, _, message)| *message)
            };
            rows.deprecation = find(SCHEMA_PACKAGE, "", &rows);
            rows.channels.sort_by(|a, b| a.name.cmp(&b.name));
            sort_by_version(&mut rows.bundles);
            let first_bundle = rows_of(&tables.bundles, Section::Bundles);
            let package_row = rows_of(&tables.packages, Section::Packages);
            let mut bundle_rows: HashMap<u32, u32> = HashMap::with_capacity(rows.bundles.len());
            for (i, bundle) in rows.bundles.iter().enumerate() {
                let id = self.strings.id(&bundle.name);
                bundle_rows.entry(id).or_insert(first_bundle + i as u32);
                let version = bundle.version.as_deref().map_or(NONE, |version| self.strings.id(version));
                let deprecation = find(SCHEMA_BUNDLE, &bundle.name, &rows);
                let (shown, modes) = (bundle.display_name, bundle.install_modes);
                tables.bundles.extend([id, version, bundle.image, bundle.blob, deprecation, bundle.dependency, shown, modes]);
                let apis = rows_of(&tables.apis, Section::Apis);
                tables.bundles.extend([apis, bundle.provided.len() as u32, bundle.required.len() as u32]);
                tables.apis.extend(bundle.provided.iter().chain(&bundle.required).flatten());
                tables.bundles.extend([rows_of(&tables.properties, Section::Properties), bundle.properties.len() as u32]);
                tables.properties.extend(bundle.properties.iter().flatten());
            }
            let first_channel = rows_of(&tables.channels, Section::Channels);
            let mut default_head = None;
            for channel in &rows.channels {
                let first_entry = rows_of(&tables.entries, Section::Entries);
                let channel_row = rows_of(&tables.channels, Section::Channels);
                let head = head(&channel.entries).map(|i| first_entry + i as u32);
                let id = self.strings.id(&channel.name);
                if id == rows.default_channel {
                    default_head = head.map(|row| channel.entries[(row - first_entry) as usize].name);
                }
                let deprecation = find(SCHEMA_CHANNEL, &channel.name, &rows);
                let count = channel.entries.len() as u32;
                tables.channels.extend([id, channel.blob, first_entry, count, head.unwrap_or(NONE), deprecation, package_row]);
                for entry in &channel.entries {
                    let skips = (tables.skips.len() as u32, entry.skips.len() as u32);
                    tables.skips.extend(&entry.skips);
                    let bundle = bundle_rows.get(&entry.name).copied().unwrap_or(NONE);
                    tables.entries.extend([entry.name, entry.replaces, skips.0, skips.1, entry.skip_range, bundle, channel_row]);
                }
            }
            // A package is shown with the data of its default channel's head, else with that of its newest bundle.
            let head_row = default_head.and_then(|id| bundle_rows.get(&id)).map_or(0, |row| (row - first_bundle) as usize);
            let shown = rows.bundles.get(head_row);
            let part = |part: fn(&BundleRow) -> u32| shown.map_or(NONE, part);
            let (display, provider, summary) = (part(|b| b.display_name), part(|b| b.provider), part(|b| b.summary));
            let texts = [display, provider, part(|b| b.keywords), summary].map(|id| self.strings.text(id).to_lowercase());
            let search = format!("{}\n{}\n{}", name.to_lowercase(), texts.join("\n"), beginning(&rows.description).to_lowercase());
            let summary = if summary == NONE { self.strings.optional(first_line(&rows.description)) } else { summary };
            let (id, search) = (self.strings.id(&name), self.strings.id(&search));
            let (channels, bundles) = (rows.channels.len() as u32, rows.bundles.len() as u32);
            tables.packages.extend([id, rows.default_channel, summary, display, provider, search, rows.blob]);
            tables.packages.extend([first_channel, channels, first_bundle, bundles, rows.deprecation]);
        }
        let orders = Orders::of(&tables, &self.strings);
        let blobs = order_blobs(&self.blobs, &self.strings);
        let (offsets, bytes) = self.strings.finish();
        let Tables { packages, channels, entries, skips, bundles, apis, properties } = tables;
        let rows = [&self.blobs, &packages, &channels, &entries, &skips, &bundles, &apis];
        let found = [&orders.providers, &orders.replacers, &orders.listing];
        let last = [&orders.entries_by_name, &orders.bundles_by_name, &properties];
        let all: Vec<&[u32]> = rows.into_iter().chain(found).chain(&blobs).chain(last).map(Vec::as_slice).collect();
        assemble(self.position, (&offsets, &bytes), &all)
    }
}

/// The tables of the index.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) packages: Vec<u32>,
    pub(super) channels: Vec<u32>,
    pub(super) entries: Vec<u32>,
    pub(super) skips: Vec<u32>,
    pub(super) bundles: Vec<u32>,
    pub(super) apis: Vec<u32>,
    pub(super) properties: Vec<u32>,
}

fn rows_of(words: &[u32], section: Section) -> u32 {
    words.len() as u32 / section.width()
}

/// Sorts bundles, newest first; bundles without a readable version come last; equal versions are sorted by name.
fn sort_by_version(bundles: &mut [BundleRow]) {
    bundles.sort_by_cached_key(|bundle| {
        let version = bundle.version.as_deref().and_then(|version| Version::parse(version).ok());
        (Reverse(version), bundle.name.clone())
    });
}

/// The only entry that no other one replaces or skips.
fn head(entries: &[EntryRow]) -> Option<usize> {
    let below: HashSet<u32> = entries.iter().flat_map(|e| e.skips.iter().copied().chain([e.replaces])).collect();
    let mut heads = entries.iter().enumerate().filter(|(_, entry)| !below.contains(&entry.name));
    match (heads.next(), heads.next()) {
        (Some((i, _)), None) => Some(i),
        _ => None,
    }
}

fn beginning(text: &str) -> &str {
    let end = (0..=SEARCHED_DESCRIPTION.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

fn first_line(text: &str) -> &str {
    text.lines().map(|line| line.trim_matches(['#', ' '])).find(|line| !line.is_empty()).unwrap_or("")
}
