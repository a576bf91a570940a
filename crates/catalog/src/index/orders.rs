//! Sort orders for the rows of an index, for all queries that must not walk a table.

use std::ops::Range;

use super::build::Tables;
use super::layout::{NONE, Section, api, blob, bundle, channel, entry, package};
use super::strings::Strings;

/// The sections that are made from the other tables.
pub(super) struct Orders {
    pub(super) providers: Vec<u32>,
    pub(super) replacers: Vec<u32>,
    pub(super) listing: Vec<u32>,
    pub(super) entries_by_name: Vec<u32>,
    pub(super) bundles_by_name: Vec<u32>,
}

/// Rows of the tables while they are still in memory.
struct Rows<'t> {
    tables: &'t Tables,
    strings: &'t Strings,
}

impl Orders {
    pub(super) fn of(tables: &Tables, strings: &Strings) -> Self {
        let rows = Rows { tables, strings };
        Self {
            providers: rows.providers(),
            replacers: rows.replacers(),
            listing: rows.listing(),
            entries_by_name: rows.by_name(Section::Channels, Section::Entries),
            bundles_by_name: rows.by_name(Section::Packages, Section::Bundles),
        }
    }
}

impl Rows<'_> {
    fn table(&self, section: Section) -> &[u32] {
        match section {
            Section::Packages => &self.tables.packages,
            Section::Channels => &self.tables.channels,
            Section::Entries => &self.tables.entries,
            Section::Skips => &self.tables.skips,
            Section::Bundles => &self.tables.bundles,
            Section::Apis => &self.tables.apis,
            _ => &[],
        }
    }

    fn count(&self, section: Section) -> u32 {
        self.table(section).len() as u32 / section.width()
    }

    fn word(&self, section: Section, row: u32, column: u32) -> u32 {
        self.table(section)[(row * section.width() + column) as usize]
    }

    fn text(&self, section: Section, row: u32, column: u32) -> &str {
        self.strings.text(self.word(section, row, column))
    }

    fn api(&self, row: u32) -> [&str; 3] {
        [api::GROUP, api::VERSION, api::KIND].map(|column| self.text(Section::Apis, row, column))
    }

    /// Each API of the bundle of each entry, once.
    fn providers(&self) -> Vec<u32> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for entry in 0..self.count(Section::Entries) {
            let bundle = self.word(Section::Entries, entry, entry::BUNDLE);
            if bundle == NONE {
                continue;
            }
            let first = self.word(Section::Bundles, bundle, bundle::APIS);
            let provided = first..first + self.word(Section::Bundles, bundle, bundle::PROVIDED_COUNT);
            for api in provided.clone() {
                if !(first..api).any(|earlier| self.api(earlier) == self.api(api)) {
                    found.push((api, entry));
                }
            }
        }
        found.sort_by(|a, b| self.api(a.0).cmp(&self.api(b.0)).then(a.1.cmp(&b.1)));
        found.into_iter().flat_map(|(api, entry)| [api, entry]).collect()
    }

    /// The bundle that each entry replaces (the empty name for none, as in the messages) and each other name that it skips.
    fn replacers(&self) -> Vec<u32> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for entry in 0..self.count(Section::Entries) {
            let replaced = self.word(Section::Entries, entry, entry::REPLACES);
            found.push((replaced, entry));
            let first = self.word(Section::Entries, entry, entry::SKIPS);
            for skip in first..first + self.word(Section::Entries, entry, entry::SKIPS_COUNT) {
                let skipped = self.word(Section::Skips, skip, 0);
                if self.strings.text(skipped) != self.strings.text(replaced) {
                    found.push((skipped, entry));
                }
            }
        }
        found.sort_by(|a, b| self.strings.text(a.0).cmp(self.strings.text(b.0)).then(a.1.cmp(&b.1)));
        found.into_iter().flat_map(|(name, entry)| [name, entry]).collect()
    }

    /// Entries with a bundle by channel name, package and name.
    fn listing(&self) -> Vec<u32> {
        let key = |entry: &u32| {
            let channel = self.word(Section::Entries, *entry, entry::CHANNEL);
            let package = self.word(Section::Channels, channel, channel::PACKAGE);
            let names = (self.text(Section::Channels, channel, channel::NAME), self.text(Section::Packages, package, package::NAME));
            (names, self.text(Section::Entries, *entry, entry::NAME), *entry)
        };
        let with_bundle = |entry: &u32| self.word(Section::Entries, *entry, entry::BUNDLE) != NONE;
        let mut listing: Vec<u32> = (0..self.count(Section::Entries)).filter(with_bundle).collect();
        listing.sort_by(|a, b| key(a).cmp(&key(b)));
        listing
    }

    /// Rows of `inner`, by name inside of the range that each row of `outer` has.
    fn by_name(&self, outer: Section, inner: Section) -> Vec<u32> {
        let (start, count, name) = match outer {
            Section::Channels => (channel::ENTRIES, channel::ENTRIES_COUNT, entry::NAME),
            _ => (package::BUNDLES, package::BUNDLES_COUNT, bundle::NAME),
        };
        let mut ordered: Vec<u32> = (0..self.count(inner)).collect();
        for row in 0..self.count(outer) {
            let first = self.word(outer, row, start);
            let range: Range<usize> = first as usize..(first + self.word(outer, row, count)) as usize;
            // A stable order: of two rows with one name, the first is found.
            ordered[range].sort_by(|a, b| self.text(inner, *a, name).cmp(self.text(inner, *b, name)));
        }
        ordered
    }
}

/// The rows of the blobs by schema, by package and by name.
pub(super) fn order_blobs(blobs: &[u32], strings: &Strings) -> [Vec<u32>; 3] {
    [blob::SCHEMA, blob::PACKAGE, blob::NAME].map(|column| {
        let text = |row: u32| strings.text(blobs[(row * Section::Blobs.width() + column) as usize]);
        let mut rows: Vec<u32> = (0..blobs.len() as u32 / Section::Blobs.width()).collect();
        // Stable, so that the order of the content stays among equals.
        rows.sort_by(|a, b| text(*a).cmp(text(*b)));
        rows
    })
}
