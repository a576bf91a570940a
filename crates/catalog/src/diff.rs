//! Differences between two catalogs, and the installations that they strand (CATLG-34, CATLG-67, OLM1-BUILD-08, OLM1-FBC-17).
//!
//! [`diff`] compares by names: packages, their channels, the entries of these, bundles, deprecations and blobs of other schemas. The effects
//! of a change on existing installations are reported separately, as [`Finding`]s with stable rules.
//!
//! The JSON shape (`mainstay catalog diff -o json`); a list or a member that would be empty is left out:
//!
//! ```text
//! {"packages": [{
//!    "package", "change": "added" | "removed" | "changed",
//!    "fields":       [{"field": "defaultChannel" | "description" | "icon" | "properties", "old", "new"}],
//!    "channels":     [{"channel", "change", "head": {"old", "new"},
//!                      "entries": [{"bundle", "change", "replaces": {"old", "new"}, "skips": {"added": [], "removed": []},
//!                                   "skipRange": {"old", "new"}}]}],
//!    "bundles":      [{"bundle", "version", "change", "image": {"old", "new"}, "properties": {"added": [], "removed": []},
//!                      "provides": {"added": [], "removed": []}, "needs": {...}, "relatedImages": {...}}],
//!    "deprecations": [{"schema", "name", "change", "message": {"old", "new"}}],
//!    "others":       [{"schema", "name", "change"}]}],
//!  "others": [{"schema", "name", "change"}],
//!  "findings": [{"rule", "level": "error" | "warning" | "info", "package", "channel", "bundle", "version", "message", "hint"}]}
//! ```

mod content;
mod impact;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::{Bundle, Catalog, Meta};
use crate::parts::Parts;

pub use impact::{Finding, Rule};

/// Compares two bundles of the same name; returns `None` if they are equal.
pub fn compare_bundles(old: &Bundle, new: &Bundle) -> Option<BundleDiff> {
    content::bundle(new.name.as_str(), Some(old), Some(new))
}

/// Differences between two catalogs. [`Diff::is_empty`] if there are none.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Diff {
    /// Packages that differ, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageDiff>,
    /// Blobs that belong to no package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherDiff>,
    /// Effects on existing installations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It has changed.
    Changed,
}

/// An old and a new value; `None` if there is no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The old value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

impl Pair {
    fn of(old: Option<&str>, new: Option<&str>) -> Option<Self> {
        let owned = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let pair = Self { old: owned(old), new: owned(new) };
        (pair.old != pair.new).then_some(pair)
    }
}

/// Additions to a set, and removals from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SetDiff {
    /// The additions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// The removals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

impl SetDiff {
    fn of<T: Ord + ToString>(old: impl IntoIterator<Item = T>, new: impl IntoIterator<Item = T>) -> Self {
        let (old, new): (BTreeSet<T>, BTreeSet<T>) = (old.into_iter().collect(), new.into_iter().collect());
        let only = |of: &BTreeSet<T>, other: &BTreeSet<T>| of.difference(other).map(T::to_string).collect();
        Self { added: only(&new, &old), removed: only(&old, &new) }
    }

    /// Returns true if both sets are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// A package that differs.
#[derive(Debug, Clone, Serialize)]
pub struct PackageDiff {
    /// Its name.
    pub package: String,
    /// Kind of the difference.
    pub change: Change,
    /// Fields of the package blob.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDiff>,
    /// Channels that differ, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelDiff>,
    /// Bundles that differ, by version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<BundleDiff>,
    /// Deprecations that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecations: Vec<DeprecationDiff>,
    /// Blobs of other schemas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherDiff>,
}

/// A field of a package.
#[derive(Debug, Clone, Serialize)]
pub struct FieldDiff {
    /// Its name.
    pub field: &'static str,
    /// Its values: the media type and a checksum for an icon, the types for properties.
    #[serde(flatten)]
    pub values: Pair,
}

/// A channel that differs.
#[derive(Debug, Clone, Serialize)]
pub struct ChannelDiff {
    /// Its name.
    pub channel: String,
    /// Kind of the difference.
    pub change: Change,
    /// Its head, if that has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Pair>,
    /// Entries that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntryDiff>,
}

/// An entry that differs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryDiff {
    /// Its bundle.
    pub bundle: String,
    /// Kind of the difference.
    pub change: Change,
    /// The bundle it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Pair>,
    /// Bundles it skips.
    #[serde(skip_serializing_if = "SetDiff::is_empty")]
    pub skips: SetDiff,
    /// Versions it updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<Pair>,
}

/// A bundle that differs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleDiff {
    /// Its name.
    pub bundle: String,
    /// Its version, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind of the difference.
    pub change: Change,
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Pair>,
    /// Properties, as `type: value`, the value shortened.
    #[serde(skip_serializing_if = "SetDiff::is_empty")]
    pub properties: SetDiff,
    /// APIs it provides.
    #[serde(skip_serializing_if = "SetDiff::is_empty")]
    pub provides: SetDiff,
    /// Requirements of the bundle.
    #[serde(skip_serializing_if = "SetDiff::is_empty")]
    pub needs: SetDiff,
    /// Images it needs at run time.
    #[serde(skip_serializing_if = "SetDiff::is_empty")]
    pub related_images: SetDiff,
}

/// A deprecation that differs.
#[derive(Debug, Clone, Serialize)]
pub struct DeprecationDiff {
    /// Schema of the deprecated object.
    pub schema: String,
    /// Its name; empty for the package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Kind of the difference.
    pub change: Change,
    /// Its message.
    pub message: Pair,
}

/// A blob of another schema that differs.
#[derive(Debug, Clone, Serialize)]
pub struct OtherDiff {
    /// Its schema.
    pub schema: String,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Kind of the difference.
    pub change: Change,
}

impl Diff {
    /// Returns true if the catalogs are equal.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.others.is_empty()
    }

    /// Names of the packages that differ.
    pub fn changed_packages(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().map(|package| package.package.as_str())
    }
}

/// Compares two catalogs.
pub fn diff(old: &Catalog, new: &Catalog) -> Diff {
    let (old_packages, new_packages) = (Parts::by_package(old), Parts::by_package(new));
    let nothing = Parts::default();
    let names: BTreeSet<&str> = old_packages.keys().chain(new_packages.keys()).copied().collect();
    let mut found = Diff::default();
    for name in names {
        let (before, after) = (old_packages.get(name), new_packages.get(name));
        let (then, now) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
        let change = match (before, after) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ => Change::Changed,
        };
        let package = content::package(name, change, then, now);
        if !package.is_same() {
            impact::findings(&package, then, now, &mut found.findings);
            found.packages.push(package);
        }
    }
    let loose = |catalog: &'_ Catalog| catalog.others.iter().filter(|other| other.package.is_empty()).cloned().collect::<Vec<Meta>>();
    found.others = others(&loose(old).iter().collect::<Vec<_>>(), &loose(new).iter().collect::<Vec<_>>());
    found.findings.sort_by(|a, b| a.key().cmp(&b.key()));
    found
}

impl PackageDiff {
    fn is_same(&self) -> bool {
        self.change == Change::Changed
            && self.fields.is_empty()
            && self.channels.is_empty()
            && self.bundles.is_empty()
            && self.deprecations.is_empty()
            && self.others.is_empty()
    }
}

/// Blobs of other schemas by schema and name; several of one name are compared as a set.
fn others(old: &[&Meta], new: &[&Meta]) -> Vec<OtherDiff> {
    type Sets<'a> = BTreeMap<(&'a str, &'a str), (BTreeSet<&'a str>, BTreeSet<&'a str>)>;
    let mut sets: Sets<'_> = BTreeMap::new();
    for meta in old {
        sets.entry((&meta.schema, &meta.name)).or_default().0.insert(meta.blob.get());
    }
    for meta in new {
        sets.entry((&meta.schema, &meta.name)).or_default().1.insert(meta.blob.get());
    }
    let differing = sets.into_iter().filter(|(_, (old, new))| old != new);
    differing
        .map(|((schema, name), (old, new))| OtherDiff {
            schema: schema.to_owned(),
            name: name.to_owned(),
            change: match (old.is_empty(), new.is_empty()) {
                (true, _) => Change::Added,
                (_, true) => Change::Removed,
                _ => Change::Changed,
            },
        })
        .collect()
}
