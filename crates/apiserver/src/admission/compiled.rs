//! Configurations (webhooks, policies, their bindings) as they are in force: each is compiled once for its revision.
//!
//! Every write asks, so asking costs a look at the few objects there are, and nothing is compiled while none of them changes.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::lookup::Lookup;
use crate::entry::Entry;

/// Objects with what they compile to.
type All<T> = Arc<[(Arc<Entry>, Arc<T>)]>;

/// The compiled objects of one resource, by name.
pub(super) struct Compiled<T> {
    resource: &'static str,
    compile: fn(&Value) -> T,
    current: RwLock<All<T>>,
}

impl<T> Compiled<T> {
    /// For the objects of a resource (`GROUP/RESOURCE`).
    pub(super) fn new(resource: &'static str, compile: fn(&Value) -> T) -> Self {
        Self { resource, compile, current: RwLock::new(Arc::new([])) }
    }

    /// All of them, in the order of their names.
    pub(super) fn all(&self, lookup: &dyn Lookup) -> All<T> {
        let entries = lookup.list(self.resource, "");
        let known = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let same = |(entry, _): &(Arc<Entry>, Arc<T>), other: &Arc<Entry>| Arc::ptr_eq(entry, other);
        if known.len() == entries.len() && known.iter().zip(&entries).all(|(known, entry)| same(known, entry)) {
            return known;
        }
        let fresh: Arc<[_]> = entries
            .into_iter()
            .map(|entry| {
                let kept = known.iter().find(|known| same(known, &entry)).map(|(_, compiled)| compiled.clone());
                let compiled = kept.unwrap_or_else(|| Arc::new((self.compile)(&entry.value())));
                (entry, compiled)
            })
            .collect();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
        fresh
    }
}
