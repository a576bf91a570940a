//! The served catalogs, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use mainstay_catalog_serve::content::Catalogs;
use mainstay_catalog_store::{CatalogDigest, StoredCatalog};

/// The content of a catalog and its origin.
#[derive(Clone, Debug)]
pub struct ServedCatalog {
    /// The content.
    pub content: StoredCatalog,
    /// The image by digest: `REPOSITORY@sha256:...`.
    pub resolved: String,
    /// The reference that the spec gave.
    pub reference: String,
    /// The generation of the object for which it was unpacked.
    pub generation: i64,
    /// The time at which it was unpacked.
    pub unpacked: Timestamp,
    /// The time of the last successful poll of the tag.
    pub polled: Timestamp,
}

/// All served catalogs. Clones share them.
#[derive(Clone, Default)]
pub struct ServedCatalogs {
    held: Arc<RwLock<BTreeMap<String, ServedCatalog>>>,
}

impl ServedCatalogs {
    /// Returns a catalog's content.
    pub fn get(&self, name: &str) -> Option<ServedCatalog> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Replaces a catalog's content atomically.
    pub fn put(&self, name: &str, held: ServedCatalog) {
        self.held.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), held);
    }

    /// Stops serving a catalog.
    pub fn remove(&self, name: &str) {
        self.held.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Returns the names of all served catalogs.
    pub fn names(&self) -> Vec<String> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Returns the digests in use.
    pub fn digests(&self) -> BTreeSet<CatalogDigest> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).values().map(|held| held.content.digest().clone()).collect()
    }
}

impl Catalogs for ServedCatalogs {
    fn catalog(&self, name: &str) -> Option<StoredCatalog> {
        self.get(name).map(|held| held.content)
    }
}
