//! Building an index in one pass over the blobs.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mainstay_versions::Version;
use serde::Deserialize;

use super::layout::{NONE, assemble};
use crate::decode::{BundleBlob, ChannelBlob, DeprecationsBlob, Fields, PackageBlob, Shape};
use crate::error::LoadError;
use crate::facts::{DEPENDENCY_TYPES, version_of};
use crate::load::Blob;
use crate::model::{SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};

/// Largest content that has an index: offsets of texts have 32 bits.
const MAX_CONTENT: u64 = 1 << 30;
/// How much of a package's description is searched.
const SEARCHED_DESCRIPTION: usize = 4_096;

/// Collects what an index keeps of each blob. Blobs must come in the order in which they are written to the content, one a line.
#[derive(Default)]
pub struct IndexBuilder {
    strings: Strings,
    position: u64,
    blobs: Vec<u32>,
    packages: BTreeMap<String, PackageRows>,
}

/// What is known of one package while building.
struct PackageRows {
    default_channel: u32,
    description: String,
    blob: u32,
    deprecation: u32,
    channels: Vec<ChannelRow>,
    bundles: Vec<BundleRow>,
    /// `(schema, name)` to message.
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
        let row = (self.blobs.len() / 6) as u32;
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
        // A second blob of one package is invalid; the first one is shown.
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
        let metadata = bundle.properties.iter().find(|p| p.kind == "olm.csv.metadata");
        // Only what is shown comes from there, so metadata of a surprising shape is the same as none.
        let metadata = metadata.and_then(|p| serde_json::from_str::<CsvMetadata<'_>>(p.value.get()).ok());
        let embedded = if metadata.is_none() { embedded_csv(&bundle) } else { None };
        let embedded = embedded.as_deref().and_then(|csv| serde_json::from_slice::<Csv<'_>>(csv).ok()).map(Csv::into_metadata);
        let metadata = metadata.or(embedded);
        let shown = metadata.as_ref();
        let text = |part: Option<&Cow<'_, str>>| part.map_or(String::new(), |text| text.trim().to_owned());
        let keywords = shown
            .and_then(|m| m.keywords.as_ref())
            .map_or(String::new(), |keywords| keywords.iter().flatten().map(AsRef::as_ref).collect::<Vec<&str>>().join(" "));
        let modes = shown.and_then(|m| m.install_modes.as_ref()).map(|modes| {
            let supported = modes.iter().filter(|mode| mode.supported.unwrap_or(false));
            supported.filter_map(|mode| mode.kind.as_deref()).collect::<Vec<&str>>().join(" ")
        });
        let row = BundleRow {
            version: version_of(bundle.properties.iter().map(|p| (p.kind.as_ref(), p.value.get()))),
            image: self.strings.id(&bundle.image),
            blob: row,
            dependency: dependency.map_or(NONE, |p| self.strings.id(&p.kind)),
            display_name: self.strings.optional(&text(shown.and_then(|m| m.display_name.as_ref()))),
            provider: self.strings.optional(&text(shown.and_then(|m| m.provider.as_ref()).and_then(|p| p.name.as_ref()))),
            keywords: self.strings.optional(&keywords),
            summary: self.strings.optional(&text(shown.and_then(|m| m.annotations.as_ref()).and_then(|a| a.description.as_ref()))),
            install_modes: modes.map_or(NONE, |modes| self.strings.id(&modes)),
            name: bundle.name.into_owned(),
        };
        self.packages.entry(bundle.package.into_owned()).or_default().bundles.push(row);
        Ok(())
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

    /// The finished index.
    pub fn finish(mut self) -> Vec<u8> {
        let mut tables = Tables::default();
        // What names no package is in the content, but belongs to none.
        self.packages.remove("");
        for (name, mut rows) in std::mem::take(&mut self.packages) {
            let find = |schema: &str, name: &str, rows: &PackageRows| {
                rows.deprecations.iter().find(|(s, n, _)| s == schema && n == name).map_or(NONE, |(_, _, message)| *message)
            };
            rows.deprecation = find(SCHEMA_PACKAGE, "", &rows);
            rows.channels.sort_by(|a, b| a.name.cmp(&b.name));
            sort_by_version(&mut rows.bundles);
            let first_bundle = (tables.bundles.len() / 8) as u32;
            let mut bundle_rows: HashMap<u32, u32> = HashMap::with_capacity(rows.bundles.len());
            for (i, bundle) in rows.bundles.iter().enumerate() {
                let id = self.strings.id(&bundle.name);
                bundle_rows.entry(id).or_insert(first_bundle + i as u32);
                let version = bundle.version.as_deref().map_or(NONE, |version| self.strings.id(version));
                let deprecation = find(SCHEMA_BUNDLE, &bundle.name, &rows);
                let (shown, modes) = (bundle.display_name, bundle.install_modes);
                tables.bundles.extend([id, version, bundle.image, bundle.blob, deprecation, bundle.dependency, shown, modes]);
            }
            let first_channel = (tables.channels.len() / 6) as u32;
            let mut default_head = None;
            for channel in &rows.channels {
                let first_entry = (tables.entries.len() / 6) as u32;
                let head = head(&channel.entries).map(|i| first_entry + i as u32);
                let id = self.strings.id(&channel.name);
                if id == rows.default_channel {
                    default_head = head.map(|row| channel.entries[(row - first_entry) as usize].name);
                }
                let deprecation = find(SCHEMA_CHANNEL, &channel.name, &rows);
                let count = channel.entries.len() as u32;
                tables.channels.extend([id, channel.blob, first_entry, count, head.unwrap_or(NONE), deprecation]);
                for entry in &channel.entries {
                    let skips = (tables.skips.len() as u32, entry.skips.len() as u32);
                    tables.skips.extend(&entry.skips);
                    let bundle = bundle_rows.get(&entry.name).copied().unwrap_or(NONE);
                    tables.entries.extend([entry.name, entry.replaces, skips.0, skips.1, entry.skip_range, bundle]);
                }
            }
            // What is shown for a package is what its default channel offers, else its newest bundle.
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
        let (offsets, bytes) = self.strings.finish();
        let all = [&self.blobs, &tables.packages, &tables.channels, &tables.entries, &tables.skips, &tables.bundles];
        assemble(self.position, (&offsets, &bytes), all.map(Vec::as_slice))
    }
}

#[derive(Default)]
struct Tables {
    packages: Vec<u32>,
    channels: Vec<u32>,
    entries: Vec<u32>,
    skips: Vec<u32>,
    bundles: Vec<u32>,
}

/// Newest first; bundles without a readable version last; by name where versions are equal.
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

/// What is shown of a bundle's `olm.csv.metadata`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CsvMetadata<'a> {
    #[serde(borrow)]
    display_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    provider: Option<Provider<'a>>,
    #[serde(borrow)]
    keywords: Option<Vec<Option<Cow<'a, str>>>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
    #[serde(borrow)]
    install_modes: Option<Vec<InstallMode<'a>>>,
}

/// A CSV as older catalogs embed it.
#[derive(Deserialize)]
struct Csv<'a> {
    #[serde(borrow, default)]
    metadata: CsvObjectMeta<'a>,
    #[serde(borrow)]
    spec: CsvMetadata<'a>,
}

#[derive(Deserialize, Default)]
struct CsvObjectMeta<'a> {
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

impl<'a> Csv<'a> {
    fn into_metadata(self) -> CsvMetadata<'a> {
        CsvMetadata { annotations: self.metadata.annotations, ..self.spec }
    }
}

/// The manifest of the CSV among the embedded objects of a bundle.
fn embedded_csv(bundle: &BundleBlob<'_>) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Kind<'k> {
        #[serde(borrow)]
        kind: Option<Cow<'k, str>>,
    }
    let mut objects = bundle.properties.iter().filter(|p| p.kind == "olm.bundle.object");
    objects.find_map(|object| {
        let fields = Fields::read(object.value.get(), "value").ok()?;
        let manifest = BASE64.decode(fields.text("data").ok()?.as_bytes()).ok()?;
        let is_csv = serde_json::from_slice::<Kind<'_>>(&manifest).is_ok_and(|k| k.kind.as_deref() == Some("ClusterServiceVersion"));
        is_csv.then_some(manifest)
    })
}

#[derive(Deserialize)]
struct Provider<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct InstallMode<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    supported: Option<bool>,
}

/// Texts, each kept once.
#[derive(Default)]
struct Strings {
    ids: HashMap<Box<str>, u32>,
    texts: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as u32;
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.texts.push((start, self.bytes.len() as u32));
        self.ids.insert(text.into(), id);
        id
    }

    fn optional(&mut self, text: &str) -> u32 {
        if text.is_empty() { NONE } else { self.id(text) }
    }

    fn text(&self, id: u32) -> &str {
        let range = self.texts.get(id as usize).map_or(0..0, |(start, end)| *start as usize..*end as usize);
        std::str::from_utf8(&self.bytes[range]).unwrap_or("")
    }

    /// Offsets of all texts (one more than texts) and their bytes.
    fn finish(self) -> (Vec<u32>, Vec<u8>) {
        let mut offsets: Vec<u32> = self.texts.iter().map(|(start, _)| *start).collect();
        offsets.push(self.bytes.len() as u32);
        (offsets, self.bytes)
    }
}
