//! ConfigMaps with catalogs: each is watched by itself, since a cluster has many that are none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ApiResource};
use mainstay_catalog::{Limits, MemorySource};
use mainstay_catalog_store::{CatalogStore, StoreError, StoredCatalog};
use mainstay_olm_classic_core::catalog_source::config_map::{ConfigMapError, catalog};
use mainstay_runtime::{Cache, Key, Part, Queue, Scope};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::parts::Parts;

/// Why a ConfigMap gives no content.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It does not exist.
    #[error("configmaps {0:?} not found")]
    Missing(String),
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] kube::Error),
    /// It is no catalog.
    #[error(transparent)]
    Content(#[from] ConfigMapError),
    /// The catalog cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Reading ended abnormally.
    #[error("reading the catalog ended abnormally")]
    Abnormal(#[from] tokio::task::JoinError),
}

/// The ConfigMaps that sources name. Clones share the watches.
#[derive(Clone)]
pub struct ConfigMaps {
    client: Client,
    sources: Cache,
    queue: Queue<Key>,
    watched: Arc<Mutex<HashMap<Key, Cache>>>,
    stop: CancellationToken,
}

/// Makes the watches; a change wakes the sources that name the ConfigMap.
pub fn follow(parts: &Parts, queue: &Queue<Key>, stop: &CancellationToken) -> ConfigMaps {
    ConfigMaps {
        client: parts.writer.client().clone(),
        sources: parts.caches.sources.clone(),
        queue: queue.clone(),
        watched: Arc::default(),
        stop: stop.clone(),
    }
}

impl ConfigMaps {
    /// Reads a ConfigMap and stores its catalog. Returns the reference that the status of a source has, and the catalog.
    pub async fn load(&self, store: &Arc<CatalogStore>, namespace: &str, name: &str) -> Result<(Value, StoredCatalog), Failure> {
        self.watch(namespace, name);
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let Some(map) = api.get_opt(name).await? else { return Err(Failure::Missing(name.to_owned())) };
        let reference = json!({
            "name": name, "namespace": namespace, "uid": map.metadata.uid, "resourceVersion": map.metadata.resource_version,
        });
        let (store, data) = (store.clone(), json!(map.data));
        let stored = tokio::task::spawn_blocking(move || {
            let lines = catalog(&data)?.iter().fold(String::new(), |lines, blob| lines + &blob.to_string() + "\n");
            let hex = format!("{:x}", Sha256::digest(lines.as_bytes()));
            let digest = format!("sha256:{hex}").parse()?;
            if let Some(stored) = store.get(&digest)? {
                return Ok(stored);
            }
            Ok::<_, Failure>(store.put(&digest, &MemorySource::of("catalog.json", lines.into_bytes()), &Limits::default())?)
        });
        Ok((reference, stored.await??))
    }

    fn watch(&self, namespace: &str, name: &str) {
        let key = Key::new(namespace, name);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(key.clone()).or_insert_with(|| {
            let scope = Scope {
                part: Part::Metadata,
                namespace: Some(namespace.to_owned()),
                fields: Some(format!("metadata.name={name}")),
                ..Scope::default()
            };
            let cache = Cache::start(&self.client, &ApiResource::erase::<ConfigMap>(&()), &scope, &self.stop);
            let (sources, queue) = (self.sources.clone(), self.queue.clone());
            cache.on_change(move |_| {
                for source in &sources.matching(&key.namespace, |source| source.data["spec"]["configMap"] == *key.name) {
                    queue.add(Key::of(source));
                }
            });
            cache
        });
    }
}
