//! Typed views of the rows of an index.

use std::ops::Range;

use super::Index;
use super::layout::{NONE, Section, api, bundle, channel, entry, package, property};
use super::lookup::equal_in;
use crate::facts::{EntryFacts, PropertyFacts};

macro_rules! view {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'i, B> {
            pub(super) index: &'i Index<B>,
            pub(super) row: u32,
        }

        impl<B> Clone for $name<'_, B> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<B> Copy for $name<'_, B> {}
    };
}

view!(
    /// A package in an index.
    PackageView
);
view!(
    /// A channel in an index.
    ChannelView
);
view!(
    /// An entry of a channel in an index.
    EntryView
);
view!(
    /// A bundle in an index.
    BundleView
);

/// Group, version and kind of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Api<'i> {
    /// Its group.
    pub group: &'i str,
    /// Its version.
    pub version: &'i str,
    /// Its kind.
    pub kind: &'i str,
}

impl<'i, B: AsRef<[u8]>> PackageView<'i, B> {
    fn word(self, column: u32) -> u32 {
        self.index.word(Section::Packages, self.row, column)
    }

    /// Name of the package.
    pub fn name(self) -> &'i str {
        self.index.text(self.word(package::NAME))
    }

    /// Its default channel, if it names one.
    pub fn default_channel(self) -> Option<&'i str> {
        self.index.optional_text(self.word(package::DEFAULT_CHANNEL)).filter(|name| !name.is_empty())
    }

    /// One line about the package, from the newest head's annotations; empty if there is none.
    pub fn summary(self) -> &'i str {
        self.index.text(self.word(package::SUMMARY))
    }

    /// Display name of the default channel's head; the package's name if there is none.
    pub fn display_name(self) -> &'i str {
        self.index.optional_text(self.word(package::DISPLAY_NAME)).unwrap_or_else(|| self.name())
    }

    /// Provider of the default channel's head; empty if there is none.
    pub fn provider(self) -> &'i str {
        self.index.text(self.word(package::PROVIDER))
    }

    pub(super) fn search_text(self) -> &'i str {
        self.index.text(self.word(package::SEARCH))
    }

    /// Message of the deprecation of the package.
    pub fn deprecation(self) -> Option<&'i str> {
        self.index.optional_text(self.word(package::DEPRECATION))
    }

    /// Bytes of its `olm.package` blob; some packages have only channels and bundles.
    pub fn blob(self) -> Option<Range<u64>> {
        let row = self.word(package::BLOB);
        (row != NONE).then(|| self.index.blob_range(row))
    }

    /// Its channels, by name.
    pub fn channels(self) -> impl ExactSizeIterator<Item = ChannelView<'i, B>> {
        let rows = self.index.range(Section::Channels, self.word(package::CHANNELS), self.word(package::CHANNELS_COUNT));
        rows.map(move |row| ChannelView { index: self.index, row })
    }

    /// One channel.
    pub fn channel(self, name: &str) -> Option<ChannelView<'i, B>> {
        let rows = self.index.range(Section::Channels, self.word(package::CHANNELS), self.word(package::CHANNELS_COUNT));
        let view = |row| ChannelView { index: self.index, row };
        let found = equal_in(rows, |row| view(row).name().cmp(name));
        (!found.is_empty()).then(|| view(found.start))
    }

    /// Its bundles, newest version first.
    pub fn bundles(self) -> impl ExactSizeIterator<Item = BundleView<'i, B>> {
        let rows = self.index.range(Section::Bundles, self.word(package::BUNDLES), self.word(package::BUNDLES_COUNT));
        rows.map(move |row| BundleView { index: self.index, row })
    }

    /// One bundle.
    pub fn bundle(self, name: &str) -> Option<BundleView<'i, B>> {
        let rows = self.index.range(Section::Bundles, self.word(package::BUNDLES), self.word(package::BUNDLES_COUNT));
        let view = |row| BundleView { index: self.index, row: self.index.word(Section::BundlesByName, row, 0) };
        let found = equal_in(rows, |row| view(row).name().cmp(name));
        (!found.is_empty()).then(|| view(found.start))
    }
}

impl<'i, B: AsRef<[u8]>> ChannelView<'i, B> {
    fn word(self, column: u32) -> u32 {
        self.index.word(Section::Channels, self.row, column)
    }

    /// Name of the channel.
    pub fn name(self) -> &'i str {
        self.index.text(self.word(channel::NAME))
    }

    /// Message of its deprecation.
    pub fn deprecation(self) -> Option<&'i str> {
        self.index.optional_text(self.word(channel::DEPRECATION))
    }

    /// Bytes of its blob.
    pub fn blob(self) -> Range<u64> {
        self.index.blob_range(self.word(channel::BLOB))
    }

    /// Its entries, in the order of the blob.
    pub fn entries(self) -> impl ExactSizeIterator<Item = EntryView<'i, B>> {
        let rows = self.index.range(Section::Entries, self.word(channel::ENTRIES), self.word(channel::ENTRIES_COUNT));
        rows.map(move |row| EntryView { index: self.index, row })
    }

    /// Its package.
    pub fn package(self) -> PackageView<'i, B> {
        PackageView { index: self.index, row: self.word(channel::PACKAGE) }
    }

    /// One entry.
    pub fn entry(self, name: &str) -> Option<EntryView<'i, B>> {
        let rows = self.index.range(Section::Entries, self.word(channel::ENTRIES), self.word(channel::ENTRIES_COUNT));
        let view = |row| EntryView { index: self.index, row: self.index.word(Section::EntriesByName, row, 0) };
        let found = equal_in(rows, |row| view(row).name().cmp(name));
        (!found.is_empty()).then(|| view(found.start))
    }

    /// The entry that no other entry replaces or skips, if there is exactly one.
    pub fn head(self) -> Option<EntryView<'i, B>> {
        let row = self.word(channel::HEAD);
        (row != NONE).then_some(EntryView { index: self.index, row })
    }
}

impl<'i, B: AsRef<[u8]>> EntryView<'i, B> {
    fn word(self, column: u32) -> u32 {
        self.index.word(Section::Entries, self.row, column)
    }

    /// Name of the bundle.
    pub fn name(self) -> &'i str {
        self.index.text(self.word(entry::NAME))
    }

    /// Bundle it replaces.
    pub fn replaces(self) -> Option<&'i str> {
        self.index.optional_text(self.word(entry::REPLACES))
    }

    /// Bundles it skips.
    pub fn skips(self) -> impl ExactSizeIterator<Item = &'i str> {
        let rows = self.index.range(Section::Skips, self.word(entry::SKIPS), self.word(entry::SKIPS_COUNT));
        rows.map(move |row| self.index.text(self.index.word(Section::Skips, row, 0)))
    }

    /// Versions it updates.
    pub fn skip_range(self) -> Option<&'i str> {
        self.index.optional_text(self.word(entry::SKIP_RANGE))
    }

    /// Its channel.
    pub fn channel(self) -> ChannelView<'i, B> {
        ChannelView { index: self.index, row: self.word(entry::CHANNEL) }
    }

    /// The bundle, if the catalog has it.
    pub fn bundle(self) -> Option<BundleView<'i, B>> {
        let row = self.word(entry::BUNDLE);
        (row != NONE).then_some(BundleView { index: self.index, row })
    }

    pub(super) fn facts(self) -> EntryFacts<'i> {
        EntryFacts { name: self.name(), replaces: self.replaces(), skips: self.skips().collect(), skip_range: self.skip_range() }
    }
}

impl<'i, B: AsRef<[u8]>> BundleView<'i, B> {
    fn word(self, column: u32) -> u32 {
        self.index.word(Section::Bundles, self.row, column)
    }

    /// Name of the bundle.
    pub fn name(self) -> &'i str {
        self.index.text(self.word(bundle::NAME))
    }

    /// Version of its `olm.package` property as written.
    pub fn version(self) -> Option<&'i str> {
        self.index.optional_text(self.word(bundle::VERSION))
    }

    /// Pull spec.
    pub fn image(self) -> &'i str {
        self.index.text(self.word(bundle::IMAGE))
    }

    /// Message of its deprecation.
    pub fn deprecation(self) -> Option<&'i str> {
        self.index.optional_text(self.word(bundle::DEPRECATION))
    }

    /// Type of its first property that declares a dependency (OLM1-INST-04).
    pub fn dependency(self) -> Option<&'i str> {
        self.index.optional_text(self.word(bundle::DEPENDENCY))
    }

    /// Display name from its metadata; empty if there is none.
    pub fn display_name(self) -> &'i str {
        self.index.text(self.word(bundle::DISPLAY_NAME))
    }

    /// Install modes that it declares as supported; `None` if the catalog has no such metadata for it.
    pub fn install_modes(self) -> Option<impl Iterator<Item = &'i str>> {
        self.index.optional_text(self.word(bundle::INSTALL_MODES)).map(|modes| modes.split(' ').filter(|mode| !mode.is_empty()))
    }

    /// APIs that it provides (`olm.gvk`).
    pub fn provided_apis(self) -> impl ExactSizeIterator<Item = Api<'i>> {
        let first = self.word(bundle::APIS);
        self.apis(first, self.word(bundle::PROVIDED_COUNT))
    }

    /// APIs that it requires (`olm.gvk.required`).
    pub fn required_apis(self) -> impl ExactSizeIterator<Item = Api<'i>> {
        let first = self.word(bundle::APIS).saturating_add(self.word(bundle::PROVIDED_COUNT));
        self.apis(first, self.word(bundle::REQUIRED_COUNT))
    }

    /// Its properties, without those that carry manifests or metadata.
    pub fn properties(self) -> impl ExactSizeIterator<Item = PropertyFacts<'i>> {
        let rows = self.index.range(Section::Properties, self.word(bundle::PROPERTIES), self.word(bundle::PROPERTIES_COUNT));
        let text = move |row, column| self.index.text(self.index.word(Section::Properties, row, column));
        rows.map(move |row| PropertyFacts { kind: text(row, property::KIND), value: text(row, property::VALUE) })
    }

    fn apis(self, first: u32, count: u32) -> impl ExactSizeIterator<Item = Api<'i>> {
        let part = move |row, column| self.index.text(self.index.word(Section::Apis, row, column));
        self.index.range(Section::Apis, first, count).map(move |row| Api {
            group: part(row, api::GROUP),
            version: part(row, api::VERSION),
            kind: part(row, api::KIND),
        })
    }

    /// Bytes of its blob.
    pub fn blob(self) -> Range<u64> {
        self.index.blob_range(self.word(bundle::BLOB))
    }
}
