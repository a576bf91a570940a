//! Queries that find their rows by binary search.

use std::cmp::Ordering;
use std::ops::Range;

use super::layout::{Section, api, blob, found};
use super::{EntryView, Index, MetaQuery};

/// The rows of a range, sorted according to `compare`, that equal the search key.
pub(super) fn equal_in(rows: Range<u32>, compare: impl Fn(u32) -> Ordering) -> Range<u32> {
    let start = first_in(rows.clone(), |row| compare(row) == Ordering::Less);
    start..first_in(start..rows.end, |row| compare(row) != Ordering::Greater)
}

/// The first row of a range for which `before` no longer holds.
fn first_in(rows: Range<u32>, before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Byte ranges of the blobs that match a query, in the order of the content. A range ends before the line end.
    pub fn metas(&self, query: &MetaQuery) -> impl Iterator<Item = Range<u64>> + use<'_, B> {
        let wanted = [
            (&query.schema, Section::BlobsBySchema, blob::SCHEMA),
            (&query.package, Section::BlobsByPackage, blob::PACKAGE),
            (&query.name, Section::BlobsByName, blob::NAME),
        ];
        let mut candidates = (None, 0..self.rows(Section::Blobs));
        // Each text is stored once, so a wanted text is one number.
        let mut ids = [None; 3];
        for (i, (text, order, column)) in wanted.into_iter().enumerate() {
            let Some(text) = text else { continue };
            let id = |row| self.word(Section::Blobs, self.word(order, row, 0), column);
            let rows = equal_in(0..self.rows(order), |row| self.text(id(row)).cmp(text));
            ids[i] = (!rows.is_empty()).then(|| (column, id(rows.start)));
            if candidates.0.is_none() || rows.len() < candidates.1.len() {
                candidates = (Some(order), rows);
            }
        }
        let (order, rows) = candidates;
        let blobs = rows.map(move |row| order.map_or(row, |order| self.word(order, row, 0)));
        let agrees = move |row: &u32| ids.iter().flatten().all(|(column, id)| self.word(Section::Blobs, *row, *column) == *id);
        blobs.filter(agrees).map(|row| self.blob_range(row))
    }

    /// Entries whose bundle provides an API, each once, by package and channel.
    pub fn providers(&self, group: &str, version: &str, kind: &str) -> impl ExactSizeIterator<Item = EntryView<'_, B>> {
        let rows = equal_in(0..self.rows(Section::Providers), |row| {
            let of = self.word(Section::Providers, row, found::KEY);
            let part = |column| self.text(self.word(Section::Apis, of, column));
            (part(api::GROUP), part(api::VERSION), part(api::KIND)).cmp(&(group, version, kind))
        });
        rows.map(|row| EntryView { index: self, row: self.word(Section::Providers, row, found::ENTRY) })
    }

    /// Names of the packages with a bundle in a channel that provides an API, in order, each once.
    pub fn providing_packages(&self, group: &str, version: &str, kind: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self.providers(group, version, kind).map(|entry| entry.channel().package().name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Entries that replace or skip a bundle, in the order of packages and channels; an entry that lists it twice among its skips comes
    /// twice. The empty name finds the entries that replace nothing.
    pub fn replacers(&self, name: &str) -> impl ExactSizeIterator<Item = EntryView<'_, B>> {
        let rows = equal_in(0..self.rows(Section::Replacers), |row| self.text(self.word(Section::Replacers, row, found::KEY)).cmp(name));
        rows.map(|row| EntryView { index: self, row: self.word(Section::Replacers, row, found::ENTRY) })
    }

    /// Number of entries that have a bundle.
    pub fn listing_len(&self) -> u32 {
        self.rows(Section::Listing)
    }

    /// All entries that have a bundle, by channel name, package and bundle name: the order in which a registry lists its bundles. Begins
    /// with the entry of the given number, so that a list can be continued.
    pub fn listing(&self, from: u32) -> impl ExactSizeIterator<Item = EntryView<'_, B>> {
        let rows = self.rows(Section::Listing);
        (from.min(rows)..rows).map(|row| EntryView { index: self, row: self.word(Section::Listing, row, 0) })
    }
}
