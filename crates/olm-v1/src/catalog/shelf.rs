//! What is served, by catalog name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use mainstay_catalog_serve::content::Catalogs;
use mainstay_catalog_store::{CatalogDigest, StoredCatalog};

/// A catalog's content, and what it was made from.
#[derive(Clone, Debug)]
pub struct Held {
    /// The content.
    pub content: StoredCatalog,
    /// The image by digest: `REPOSITORY@sha256:...`.
    pub resolved: String,
    /// The reference that the spec gave.
    pub reference: String,
    /// The generation that was unpacked.
    pub generation: i64,
    /// When it was unpacked.
    pub unpacked: Timestamp,
    /// When the tag was last looked at with success.
    pub polled: Timestamp,
}

/// Everything that is served. Cloning shares it.
#[derive(Clone, Default)]
pub struct Shelf {
    held: Arc<RwLock<BTreeMap<String, Held>>>,
}

impl Shelf {
    /// A catalog's content.
    pub fn get(&self, name: &str) -> Option<Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Puts content in the place of what is there, in one go.
    pub fn put(&self, name: &str, held: Held) {
        self.held.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), held);
    }

    /// Takes a catalog off.
    pub fn remove(&self, name: &str) {
        self.held.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The names of all catalogs that are served.
    pub fn names(&self) -> Vec<String> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The digests in use.
    pub fn digests(&self) -> BTreeSet<CatalogDigest> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).values().map(|held| held.content.digest().clone()).collect()
    }
}

impl Catalogs for Shelf {
    fn catalog(&self, name: &str) -> Option<StoredCatalog> {
        self.get(name).map(|held| held.content)
    }
}
