//! The content of catalogs that a process has, by the object that asked for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::StoredCatalog;

/// Namespace and name of a catalog's object.
pub type SourceName = (String, String);

/// The catalogs of a process by the namespace and name of their objects: one controller keeps them current, others read them. Clones share it.
#[derive(Clone, Debug)]
pub struct SourceContents {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    catalogs: RwLock<BTreeMap<SourceName, StoredCatalog>>,
    changes: watch::Sender<u64>,
}

impl Default for SourceContents {
    fn default() -> Self {
        Self { inner: Arc::new(Inner { catalogs: RwLock::default(), changes: watch::channel(0).0 }) }
    }
}

impl SourceContents {
    /// Shows this content for a source, or none: a source that cannot be used has no content.
    pub fn set(&self, namespace: &str, name: &str, catalog: Option<StoredCatalog>) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut catalogs = self.inner.catalogs.write().unwrap_or_else(PoisonError::into_inner);
        let changed = match catalog {
            Some(catalog) => {
                let same = catalogs.get(&key).is_some_and(|held| held.digest() == catalog.digest());
                catalogs.insert(key, catalog);
                !same
            }
            None => catalogs.remove(&key).is_some(),
        };
        drop(catalogs);
        if changed {
            self.inner.changes.send_modify(|count| *count += 1);
        }
    }

    /// Returns the content of a source.
    pub fn get(&self, namespace: &str, name: &str) -> Option<StoredCatalog> {
        let key = (namespace.to_owned(), name.to_owned());
        self.inner.catalogs.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Returns all sources that have content.
    pub fn all(&self) -> BTreeMap<SourceName, StoredCatalog> {
        self.inner.catalogs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a receiver that is told of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }
}
