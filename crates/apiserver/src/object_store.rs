//! The API's objects: the store, the watch cache over it, and the resources that both hold.

use std::sync::{Arc, PoisonError, RwLock};

use mainstay_store::{Expect, Revision, Store};
use serde_json::Value;

use crate::cache::Cache;
use crate::entry::Entry;
use crate::error::{ApiError, Result, store_error};
use crate::horizon::Horizon;
use crate::object;
use crate::served::{Served, Snapshot};
use crate::stored::Loaded;

/// Typed access to the objects of one server.
pub struct ObjectStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The watch cache.
    pub cache: Arc<Cache>,
    /// The end of the past that can be listed.
    pub horizon: Horizon,
    served: RwLock<Arc<Snapshot>>,
}

impl ObjectStore {
    /// Over a store and its cache; built-in resources alone are served.
    pub fn new(store: Arc<dyn Store>, cache: Arc<Cache>) -> Self {
        Self { store, cache, horizon: Horizon::default(), served: RwLock::new(Arc::new(Snapshot::built_in())) }
    }

    /// The resources that are served at this moment.
    pub fn served(&self) -> Arc<Snapshot> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another snapshot in place.
    pub fn replace_served(&self, next: Snapshot) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// A built-in resource that is known to exist.
    pub fn built_in(&self, group: &str, plural: &str) -> Result<Arc<Served>> {
        let served = self.served();
        let version = mainstay_kinds::registry().group(group).map(|group| group.preferred_version().to_owned()).unwrap_or_default();
        served
            .resource(group, &version, plural)
            .or_else(|| served.any_version(group, plural))
            .cloned()
            .ok_or_else(|| ApiError::internal(format!("{plural}.{group} is not among the built-in resources")))
    }

    /// Reads an object.
    pub async fn load(&self, served: &Served, namespace: &str, name: &str) -> Result<Option<Loaded>> {
        let (found, _) = self.store.get(&served.store_key(namespace, name)).await.map_err(store_error)?;
        match found {
            None => Ok(None),
            Some(found) => served.load(&found.value, found.modified).await.map(Some),
        }
    }

    /// Reads an object; 404 where there is none.
    pub async fn require(&self, served: &Served, namespace: &str, name: &str) -> Result<Loaded> {
        let facts = &served.facts;
        self.load(served, namespace, name).await?.ok_or_else(|| ApiError::not_found(&facts.group, &facts.plural, name))
    }

    /// Writes an object; gives it the revision of the write. 409 where the key is not as expected.
    pub async fn save(&self, served: &Served, object: &mut Value, expect: Expect) -> Result<Revision> {
        let (namespace, name) = (object::meta(object, "namespace").to_owned(), object::meta(object, "name").to_owned());
        let bytes = served.write(object).await?;
        let facts = &served.facts;
        let written = self.store.put(&served.store_key(&namespace, &name), bytes, expect).await.map_err(|error| match error {
            mainstay_store::Error::Conflict { .. } if expect == Expect::Absent => {
                ApiError::already_exists(&facts.group, &facts.plural, &name)
            }
            mainstay_store::Error::Conflict { found: None, .. } => ApiError::not_found(&facts.group, &facts.plural, &name),
            mainstay_store::Error::Conflict { .. } => ApiError::modified(&facts.group, &facts.plural, &name),
            other => store_error(other),
        })?;
        if served.stores_another_version() {
            // What the way to the store and back loses is not there: the answer shows it.
            *object = served.load(&written.value, written.modified).await?.value;
        }
        object::metadata_mut(object).insert("resourceVersion".into(), written.modified.to_string().into());
        self.settle(served, written.modified).await;
        Ok(written.modified)
    }

    /// Removes an object that has this revision; returns the revision of the removal.
    pub async fn remove(&self, served: &Served, namespace: &str, name: &str, revision: Revision) -> Result<Revision> {
        let facts = &served.facts;
        let removed = self.store.delete(&served.store_key(namespace, name), Expect::Revision(revision)).await;
        let removed = removed.map(|(_, revision)| revision).map_err(|error| match error {
            mainstay_store::Error::Conflict { found: None, .. } => ApiError::not_found(&facts.group, &facts.plural, name),
            mainstay_store::Error::Conflict { .. } => ApiError::modified(&facts.group, &facts.plural, name),
            other => store_error(other),
        })?;
        self.settle(served, removed).await;
        Ok(removed)
    }

    /// Waits until a written role or account is in force: its writer may rely on that with the answer.
    async fn settle(&self, served: &Served, revision: Revision) {
        let seen_at_once = matches!(served.facts.group.as_str(), "rbac.authorization.k8s.io")
            || served.facts.group.is_empty() && matches!(served.facts.plural.as_str(), "serviceaccounts" | "secrets" | "namespaces");
        if seen_at_once && self.cache.reach(revision).await.is_none() {
            tracing::warn!(revision, "the watch cache does not follow the store");
        }
    }

    /// One object as the cache shows it, without going to the store.
    pub fn cached(&self, served: &Served, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.cache.resource(&served.storage).get(&served.key(namespace, name))
    }
}

/// The most attempts of a step that another server may be quicker with.
const ATTEMPTS: usize = 16;

/// Does a step again if another server did it at the same time: the next look finds what that one wrote.
pub async fn retry_on_conflict<F: Future<Output = Result<()>>>(step: impl Fn() -> F) -> Result<()> {
    for _ in 1..ATTEMPTS {
        match step().await {
            Err(error) if matches!(error.code, http::StatusCode::CONFLICT | http::StatusCode::NOT_FOUND) => {}
            other => return other,
        }
    }
    step().await
}
