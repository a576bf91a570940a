//! The view, kept up to date with the contents of the sources and their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_catalog_store::{SourceContents, StoredCatalog};
use mainstay_runtime::{Cache, Key};
use tokio::sync::Notify;
use tokio::task::JoinSet;
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
    let mut in_work = BTreeSet::new();
    loop {
        let all = contents.all();
        read.retain(all.values());
        let missing = show(&api, &all, &sources, &read);
        for catalog in &missing {
            let digest = catalog.digest().to_string();
            if in_work.len() < AT_ONCE && in_work.insert(digest) {
                let catalog = catalog.clone();
                reading.spawn_blocking(move || (catalog.digest().to_string(), Packages::read(&catalog), catalog));
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
            Some(done) = reading.join_next(), if !reading.is_empty() => match done {
                Ok((digest, packages, catalog)) => {
                    in_work.remove(&digest);
                    read.keep(&catalog, Arc::new(packages));
                }
                // Its place stays taken: a catalog that breaks its reader is not read again and again.
                Err(error) => tracing::error!(%error, "a catalog could not be read for package manifests"),
            }
        }
    }
}

/// Shows the sources whose packages were read, and returns the catalogs that were not.
fn show(api: &PackageApi, contents: &BTreeMap<(String, String), StoredCatalog>, sources: &Cache, read: &Read) -> Vec<StoredCatalog> {
    let (mut shown, mut missing) = (Vec::new(), Vec::new());
    for ((namespace, name), catalog) in contents {
        // A source that is deleted takes its packages along (OLM0-CAT-02).
        let Some(object) = sources.get(&Key::new(namespace.as_str(), name.as_str())) else { continue };
        match read.get(catalog) {
            Some(packages) => shown.push(Source { facts: SourceFacts::of(&object), packages, catalog: catalog.clone() }),
            None => missing.push(catalog.clone()),
        }
    }
    api.view.set(Snapshot::new(shown));
    missing
}
