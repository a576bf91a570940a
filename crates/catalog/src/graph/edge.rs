//! The update edge from a bundle to an entry of a channel (OLM1-UPG-05 to OLM1-UPG-07): one definition for resolver, drawings and checks.

use std::fmt;

use mainstay_versions::{CatalogRange, Version};

use crate::facts::EntryFacts;

/// Kind of an update edge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// The entry replaces the bundle.
    Replaces,
    /// The entry skips the bundle.
    Skips,
    /// The entry's range contains the bundle's version.
    SkipRange(String),
}

impl EdgeKind {
    /// The name of the field that makes the edge.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange(_) => "skipRange",
        }
    }
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaces | Self::Skips => f.write_str(self.field()),
            Self::SkipRange(range) => write!(f, "skipRange {range}"),
        }
    }
}

/// An entry with its range parsed, ready to be compared with many bundles.
#[derive(Debug, Clone)]
pub struct Updates<'e> {
    entry: &'e EntryFacts<'e>,
    /// A range that cannot be read contains nothing (OLM1-UPG-07).
    range: Option<CatalogRange>,
}

impl<'e> Updates<'e> {
    /// Prepares an entry.
    pub fn of(entry: &'e EntryFacts<'e>) -> Self {
        Self { entry, range: entry.skip_range.and_then(|range| CatalogRange::parse(range).ok()) }
    }

    /// Every edge from the bundle to the entry, strongest first; without a version, the range gives no edge.
    pub fn edges(&self, bundle: &str, version: Option<&Version>) -> impl Iterator<Item = EdgeKind> {
        edges(self.entry.replaces, self.entry.skips.iter().copied(), self.range.as_ref(), (bundle, version))
    }

    /// The strongest edge from the bundle to the entry.
    pub fn edge(&self, bundle: &str, version: Option<&Version>) -> Option<EdgeKind> {
        self.edges(bundle, version).next()
    }
}

/// Returns the edges from a bundle to an entry; the version is `None` if it is unknown.
pub(crate) fn edges<'e>(
    replaces: Option<&str>,
    mut skips: impl Iterator<Item = &'e str>,
    range: Option<&CatalogRange>,
    (bundle, version): (&str, Option<&Version>),
) -> impl Iterator<Item = EdgeKind> {
    let replaces = (replaces == Some(bundle)).then_some(EdgeKind::Replaces);
    let skips = skips.any(|name| name == bundle).then_some(EdgeKind::Skips);
    let range = range.filter(|range| version.is_some_and(|version| range.matches(version)));
    let range = range.map(|range| EdgeKind::SkipRange(range.to_string()));
    replaces.into_iter().chain(skips).chain(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-UPG-05, OLM1-UPG-06, OLM1-UPG-07: what makes an edge, and that a broken range makes none.
    #[test]
    fn kinds_of_edges() {
        let entry = EntryFacts {
            name: "p.v1.2.0",
            replaces: Some("p.v1.1.0"),
            skips: vec!["p.v1.1.5", "p.v1.1.0"],
            skip_range: Some(">=1.0.0 <1.2.0"),
        };
        let updates = Updates::of(&entry);
        let fields = |name: &str, version: Option<Version>| -> Vec<&'static str> {
            updates.edges(name, version.as_ref()).map(|edge| edge.field()).collect()
        };
        assert_eq!(fields("p.v1.1.0", Some(Version::new(1, 1, 0))), ["replaces", "skips", "skipRange"]);
        assert_eq!(fields("p.v1.1.5", None), ["skips"]);
        assert_eq!(fields("p.v1.0.0", Some(Version::new(1, 0, 0))), ["skipRange"]);
        assert_eq!(fields("p.v1.2.0", Some(Version::new(1, 2, 0))), [""; 0]);
        assert_eq!(updates.edge("p.v1.1.0", None), Some(EdgeKind::Replaces));
        let broken = EntryFacts { skip_range: Some("not a range"), ..EntryFacts::default() };
        assert_eq!(Updates::of(&broken).edge("p.v1.0.0", Some(&Version::new(1, 0, 0))), None);
    }
}
