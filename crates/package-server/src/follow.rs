//! The view, kept up to date with the contents of the sources and their objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_catalog_store::{SourceContents, StoredCatalog};
use mainstay_runtime::{Cache, Key};
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::api::PackageApi;
use crate::manifest::SourceFacts;
use crate::packages::Packages;
use crate::view::{Read, Snapshot, Source};

/// Catalogs that are read at once, each on a thread of its own.
const AT_ONCE: usize = 2;

/// Keeps the view of `api` until `stop` is cancelled. A catalog that takes long to read delays no other one.
pub async fn follow(api: Arc<PackageApi>, contents: SourceContents, sources: Cache, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let woken = changed.clone();
    sources.on_change(move |_| woken.notify_one());
    let mut signals = contents.changes();
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.ready() => {}
    }
    let mut read = Read::default();
    let mut reading = JoinSet::new();
    let mut in_work: HashMap<Id, StoredCatalog> = HashMap::new();
    loop {
        let all = contents.all();
        read.retain(all.values());
        let missing = show(&api, &all, &sources, &read);
        for catalog in &missing {
            if in_work.len() < AT_ONCE && in_work.values().all(|other| other.digest() != catalog.digest()) {
                let content = catalog.clone();
                in_work.insert(reading.spawn_blocking(move || Packages::read(&content)).id(), catalog.clone());
            }
        }
        if missing.is_empty() {
            api.ready.store(true, Ordering::Release);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => {}
            // The sender lives as long as the contents, which this function holds.
            _ = signals.changed() => {}
            Some(done) = reading.join_next_with_id(), if !reading.is_empty() => {
                let (id, packages) = match done {
                    Ok((id, packages)) => (id, packages),
                    Err(error) => {
                        // A catalog that breaks its reader is not read again and again.
                        tracing::error!(%error, "a catalog cannot be shown: its reader failed");
                        (error.id(), Packages::default())
                    }
                };
                if let Some(catalog) = in_work.remove(&id) {
                    read.keep(&catalog, Arc::new(packages));
                }
            }
        }
    }
}

/// Shows the sources whose packages were read, and returns the catalogs that were not. While newer content of a source is read, the older one
/// is shown.
fn show(api: &PackageApi, contents: &BTreeMap<(String, String), StoredCatalog>, sources: &Cache, read: &Read) -> Vec<StoredCatalog> {
    let before = api.view.now();
    let (mut shown, mut missing) = (Vec::new(), Vec::new());
    for ((namespace, name), catalog) in contents {
        // A source that is deleted takes its packages along (OLM0-CAT-02).
        let Some(object) = sources.get(&Key::new(namespace.as_str(), name.as_str())) else { continue };
        let facts = SourceFacts::of(&object);
        if let Some(packages) = read.get(catalog) {
            shown.push(Source { facts, packages, catalog: catalog.clone() });
            continue;
        }
        missing.push(catalog.clone());
        let older = before.sources().iter().find(|source| (&source.facts.namespace, &source.facts.name) == (namespace, name));
        shown.extend(older.map(|older| Source { facts, ..older.clone() }));
    }
    api.view.set(Snapshot::new(shown));
    missing
}
