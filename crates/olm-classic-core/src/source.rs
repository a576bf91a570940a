//! Sources of bundles.

use std::fmt;

/// The name of the source that stands for the installed CSVs of a namespace.
const EXISTING: &str = "@existing";

/// A source of bundles: a CatalogSource, or the installed CSVs of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceKey {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

impl SourceKey {
    /// The source of the installed CSVs of a namespace.
    pub fn existing(namespace: &str) -> Self {
        Self { name: EXISTING.to_owned(), namespace: namespace.to_owned() }
    }

    /// Returns whether it stands for installed CSVs.
    pub fn is_existing(&self) -> bool {
        self.name == EXISTING && !self.namespace.is_empty()
    }

    /// Returns whether it names nothing, which a Subscription without source does.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty() && self.namespace.is_empty()
    }
}

/// `name/namespace`, as in identifiers of bundles.
impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.namespace)
    }
}
