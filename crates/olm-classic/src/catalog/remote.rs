//! Catalogs of registry servers that run elsewhere (OLM0-CAT-03: `grpc` with `address`).

use std::sync::Arc;
use std::time::Duration;

use mainstay_catalog::{Limits, MemorySource};
use mainstay_catalog_serve::grpc::RemoteRegistry;
use mainstay_catalog_store::{CatalogStore, StoredCatalog};
use sha2::{Digest as _, Sha256};

use super::images::ImageFailure;

/// The longest time for all that a registry lists.
const LONGEST: Duration = Duration::from_secs(300);

/// Asks a registry server for its content; with content that is held already, only whether it answers.
pub async fn fetch(address: &str, store: &Arc<CatalogStore>, held: Option<StoredCatalog>) -> Result<StoredCatalog, ImageFailure> {
    let asking = async {
        let mut registry = RemoteRegistry::connect(address).await.map_err(|error| ImageFailure::of(&error))?;
        if let Some(held) = held {
            registry.packages().await.map_err(|error| ImageFailure::of(&error))?;
            return Ok(held);
        }
        let text = registry.catalog().await.map_err(|error| ImageFailure::of(&error))?;
        let store = store.clone();
        let stored = tokio::task::spawn_blocking(move || {
            let digest = format!("sha256:{:x}", Sha256::digest(text.as_bytes()));
            let digest = digest.parse().map_err(|error| ImageFailure::content(&error))?;
            if let Some(stored) = store.get(&digest).map_err(|error| ImageFailure::of(&error))? {
                return Ok(stored);
            }
            let source = MemorySource::of("catalog.json", text.into_bytes());
            store.put(&digest, &source, &Limits::default()).map_err(|error| ImageFailure::content(&error))
        });
        stored.await.map_err(|error| ImageFailure::of(&error))?
    };
    let overdue = || ImageFailure::because(format!("registry {address} did not answer within {} s", LONGEST.as_secs()));
    tokio::time::timeout(LONGEST, asking).await.map_err(|_| overdue())?
}
