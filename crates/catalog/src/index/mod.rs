//! A compact index beside the JSON lines of a catalog.
//!
//! ```text
//!   header    magic, format, checksum, length of the content, then offset and count of each section
//!   sections  string offsets | string bytes | blobs | packages | channels | entries | skips | bundles | apis | properties
//!             and sort orders for lookups: providers | replacers | listing | blobs by schema, package, name | ... by name
//! ```
//!
//! Every record is a row of 32-bit little-endian words; texts are numbers into the string section; the blob records hold the byte ranges of
//! the blobs in the content. The index is opened in place (`mmap` or a buffer): opening checks the checksum and the bounds of the sections,
//! and a query touches only the rows that it needs. A damaged index is never used: opening returns an error, and the caller rebuilds it
//! from the content.

mod build;
mod layout;
mod lookup;
mod orders;
mod shown;
mod strings;
mod view;

pub use build::IndexBuilder;
pub use view::{Api, BundleView, ChannelView, EntryView, PackageView};

use std::ops::Range;

use crate::error::IndexError;
use crate::facts::{BundleFacts, ChannelFacts, PackageFacts};
use layout::{Layout, NONE, Section, blob};

/// An opened index over any bytes.
#[derive(Debug)]
pub struct Index<B> {
    bytes: B,
    layout: Layout,
}

/// Selection of blobs; all given parts must match (OLM1-CAT-17).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaQuery {
    /// Schema of the blob.
    pub schema: Option<String>,
    /// Its `package`.
    pub package: Option<String>,
    /// Its `name`.
    pub name: Option<String>,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Opens an index that belongs to content of `content_len` bytes.
    pub fn open(bytes: B, content_len: u64) -> Result<Self, IndexError> {
        let layout = Layout::read(bytes.as_ref(), content_len)?;
        Ok(Self { bytes, layout })
    }

    fn word(&self, section: Section, row: u32, column: u32) -> u32 {
        self.layout.word(self.bytes.as_ref(), section, row, column)
    }

    fn text(&self, id: u32) -> &str {
        self.layout.text(self.bytes.as_ref(), id)
    }

    fn optional_text(&self, id: u32) -> Option<&str> {
        (id != NONE).then(|| self.text(id))
    }

    fn rows(&self, section: Section) -> u32 {
        self.layout.rows(section)
    }

    /// Rows of a section from a first one on; never more than the section has, whatever the words claim.
    fn range(&self, section: Section, first: u32, count: u32) -> Range<u32> {
        let rows = self.rows(section);
        first.min(rows)..first.saturating_add(count).min(rows)
    }

    /// All packages, by name.
    pub fn packages(&self) -> impl ExactSizeIterator<Item = PackageView<'_, B>> {
        (0..self.rows(Section::Packages)).map(|row| PackageView { index: self, row })
    }

    /// One package.
    pub fn package(&self, name: &str) -> Option<PackageView<'_, B>> {
        let view = |row| PackageView { index: self, row };
        let found = lookup::equal_in(0..self.rows(Section::Packages), |row| view(row).name().cmp(name));
        (!found.is_empty()).then(|| view(found.start))
    }

    /// Packages whose name, display name, provider, keywords or descriptions hold every word of `text`, best match first: the name
    /// itself, names that begin with the text, names that hold it, then the others; by name within each.
    pub fn search(&self, text: &str) -> Vec<PackageView<'_, B>> {
        let wanted = text.to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let mut found: Vec<(u8, PackageView<'_, B>)> = Vec::new();
        for view in self.packages() {
            let searched = view.search_text();
            if words.is_empty() || !words.iter().all(|word| searched.contains(word)) {
                continue;
            }
            let (name, display) = (view.name().to_lowercase(), view.display_name().to_lowercase());
            let wanted = wanted.trim();
            let rank = match () {
                () if name == wanted => 0,
                () if name.starts_with(wanted) => 1,
                () if name.contains(wanted) => 2,
                () if display.contains(wanted) => 3,
                () => 4,
            };
            found.push((rank, view));
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, view)| view).collect()
    }

    /// Number of blobs in the content.
    pub fn blob_count(&self) -> u32 {
        self.rows(Section::Blobs)
    }

    /// Number of bundles in the catalog.
    pub fn bundle_count(&self) -> u32 {
        self.rows(Section::Bundles)
    }

    fn blob_range(&self, row: u32) -> Range<u64> {
        let start =
            u64::from(self.word(Section::Blobs, row, blob::START_LOW)) | u64::from(self.word(Section::Blobs, row, blob::START_HIGH)) << 32;
        // A damaged table may hold any value; a reader of the content finds that the place does not exist.
        start..start.saturating_add(u64::from(self.word(Section::Blobs, row, blob::LENGTH)))
    }

    /// The facts of one package that a resolver needs.
    pub fn package_facts(&self, name: &str) -> Option<PackageFacts<'_>> {
        let package = self.package(name)?;
        let channels = package.channels().map(|channel| ChannelFacts {
            name: channel.name(),
            deprecation: channel.deprecation(),
            entries: channel.entries().map(EntryView::facts).collect(),
        });
        let bundles = package.bundles().map(|bundle| BundleFacts {
            name: bundle.name(),
            version: bundle.version(),
            image: bundle.image(),
            deprecation: bundle.deprecation(),
            dependency: bundle.dependency(),
            properties: bundle.properties().collect(),
        });
        Some(PackageFacts {
            name: package.name(),
            default_channel: package.default_channel(),
            deprecation: package.deprecation(),
            channels: channels.collect(),
            bundles: bundles.collect(),
        })
    }
}
