//! The state that all requests share, and typed access to the store.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use mainstay_kinds::Gvk;
use mainstay_rbac::UserInfo;
use mainstay_store::{Expect, Revision, Store};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::admission::Chain;
use crate::cache::{Cache, Entry};
use crate::crd::{Converter, stored_version};
use crate::error::{ApiError, Result};
use crate::object;
use crate::served::{Served, Snapshot};

/// The API's state. One per server; requests hold it by `Arc`.
pub struct Api {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The watch cache.
    pub cache: Arc<Cache>,
    /// Admission, in order.
    pub admission: Chain,
    /// API servers of others behind this one.
    pub(crate) aggregation: Arc<crate::aggregation::Aggregation>,
    /// Other processes: webhooks, converters, aggregated API servers.
    pub remotes: Arc<crate::remote::Remotes>,
    /// Requests in flight.
    pub inflight: crate::inflight::InFlight,
    /// Figures for `/metrics`.
    pub metrics: crate::metrics::Metrics,
    /// Cancelled when the server ends.
    pub closing: CancellationToken,
    served: RwLock<Arc<Snapshot>>,
    /// Changes whenever the snapshot does.
    pub(crate) documents: crate::discovery::Documents,
    pub(crate) access: Arc<dyn crate::access_seam::Access>,
    pub(crate) readiness: crate::health::Readiness,
    pub(crate) services: Arc<crate::services::Allocators>,
    pub(crate) behind: crate::behind::Behind,
    pub(crate) backup: crate::backup::Source,
    /// What the rest of this process answers.
    pub(crate) pages: axum::Router,
}

/// An object of the store, in the version that was asked for.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The object with its resourceVersion.
    pub value: Value,
    /// Its revision.
    pub revision: Revision,
    /// Whether it is stored in another version than it would be now: even an update that changes nothing is a change.
    pub outdated: bool,
}

impl Api {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        access: Arc<dyn crate::access_seam::Access>,
        admission: Chain,
        remotes: crate::remote::Remotes,
    ) -> Self {
        Self {
            aggregation: Arc::default(),
            remotes: Arc::new(remotes),
            store,
            cache,
            admission,
            access,
            backup: crate::backup::Source::default(),
            pages: axum::Router::new(),
            inflight: crate::inflight::InFlight::default(),
            metrics: crate::metrics::Metrics::default(),
            closing: CancellationToken::new(),
            served: RwLock::new(Arc::new(Snapshot::built_in())),
            documents: crate::discovery::Documents::default(),
            readiness: crate::health::Readiness::default(),
            services: Arc::default(),
            behind: crate::behind::Behind::default(),
        }
    }

    /// What is served at this moment.
    pub fn served(&self) -> Arc<Snapshot> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace_served(&self, next: Snapshot) {
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
        if served.converts_to_store() {
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

    /// Who writes a role or an account finds it in force with the answer.
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

impl Served {
    /// A stored object in this version.
    pub fn read(&self, stored: &Bytes, revision: Revision) -> Result<Loaded> {
        let mut value = object::decode(stored, revision)
            .map_err(|error| ApiError::internal(format!("a stored object of {} is not JSON: {error}", self.facts.plural)))?;
        self.convert(&mut value)?;
        Ok(Loaded { value, revision, outdated: self.is_outdated(stored) })
    }

    /// The same for what comes straight from the store: a webhook converts it where it has another version.
    pub async fn load(&self, stored: &Bytes, revision: Revision) -> Result<Loaded> {
        let api_version = self.api_version();
        let Some(converter) = self.converter().filter(|_| stored_version(stored) != Some(&api_version)) else {
            return self.read(stored, revision);
        };
        let value = object::decode(stored, revision).map_err(|error| ApiError::internal(error.to_string()))?;
        let mut value = converter.convert(vec![value], &api_version).await?.swap_remove(0);
        self.convert(&mut value)?;
        Ok(Loaded { value, revision, outdated: self.is_outdated(stored) })
    }

    /// The webhook that converts between the versions.
    pub fn converter(&self) -> Option<&Arc<Converter>> {
        self.custom.as_ref()?.converter.as_ref()
    }

    fn converts_to_store(&self) -> bool {
        self.converter().is_some() && *self.storage_version != *self.facts.version
    }

    fn is_outdated(&self, stored: &[u8]) -> bool {
        self.custom.is_some() && stored_version(stored).and_then(|version| version.rsplit('/').next()) != Some(&*self.storage_version)
    }

    /// Makes a stored object one of this version: defaults of a CRD's schema, then the version's name.
    pub fn convert(&self, value: &mut Value) -> Result<()> {
        if let Some(custom) = &self.custom {
            custom.after_read(value);
        } else if !self.stores_as_shown() {
            crate::strategy::convert(value, &Gvk::new(&self.facts.group, &self.facts.version, &self.facts.kind))?;
        }
        if let Value::Object(map) = value {
            map.insert("apiVersion".into(), self.api_version().into());
            map.insert("kind".into(), self.facts.kind.clone().into());
        }
        Ok(())
    }

    /// Whether a built-in kind is stored in the form that this resource shows. Events have two groups and are stored as core ones.
    fn stores_as_shown(&self) -> bool {
        *self.storage_version == *self.facts.version && self.facts.group != "events.k8s.io"
    }

    /// The bytes to store.
    async fn write(&self, object: &Value) -> Result<Bytes> {
        let api_version = match &*self.facts.group {
            "" => self.storage_version.to_string(),
            "events.k8s.io" => "v1".to_owned(),
            group => format!("{group}/{}", self.storage_version),
        };
        if let Some(converter) = self.converter().filter(|_| self.converts_to_store()) {
            let stored = converter.convert(vec![object.clone()], &api_version).await?.swap_remove(0);
            return Ok(object::encode(&api_version, &self.facts.kind, &stored));
        }
        if self.custom.is_none() && !self.stores_as_shown() {
            let mut stored = object.clone();
            crate::strategy::convert(&mut stored, &Gvk::of(&api_version, &self.facts.kind))?;
            return Ok(object::encode(&api_version, &self.facts.kind, &stored));
        }
        Ok(object::encode(&api_version, &self.facts.kind, object))
    }

    /// Whether stored bytes can be sent with another head alone.
    pub fn sends_stored_bytes(&self) -> bool {
        match &self.custom {
            Some(custom) => !custom.changes_on_read,
            None => self.stores_as_shown(),
        }
    }
}

/// What a failing store means for a request.
pub fn store_error(error: mainstay_store::Error) -> ApiError {
    match error {
        mainstay_store::Error::Compacted { .. } => expired(),
        mainstay_store::Error::Future { asked, latest } => too_large_version(asked, latest),
        mainstay_store::Error::Remote { problem, fate } => remote_error(problem, fate),
        mainstay_store::Error::TooLarge { limit, .. } => ApiError::too_large(limit),
        other => {
            tracing::error!(error = &other as &dyn std::error::Error, "store failed");
            let causes = std::iter::successors(std::error::Error::source(&other), |cause| cause.source());
            ApiError::internal(causes.fold(other.to_string(), |text, cause| format!("{text}: {cause}")))
        }
    }
}

/// What a failing storage cluster means. A client may try again by itself only where nothing was done.
fn remote_error(problem: String, fate: mainstay_store::Fate) -> ApiError {
    use mainstay_store::Fate;
    tracing::warn!(problem, ?fate, "the storage cluster failed");
    match fate {
        Fate::Unavailable => ApiError::new(http::StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", problem).retry_after(1),
        Fate::Busy => ApiError::new(http::StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", problem).retry_after(1),
        Fate::Refused | Fate::Unknown => ApiError::untyped(problem),
    }
}

/// 410 for a revision that is gone.
pub fn expired() -> ApiError {
    ApiError::expired("The resourceVersion for the provided list is too old.")
}

/// 504 for a revision that has not happened.
pub fn too_large_version(asked: Revision, latest: Revision) -> ApiError {
    ApiError::new(http::StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: Too large resource version: {asked}, current: {latest}"))
        .cause(crate::error::Cause::new("ResourceVersionTooLarge", "Too large resource version", ""))
        .retry_after(1)
}

/// Who asks, for those that come from inside the process: the router trusts this request extension.
#[derive(Clone, Debug)]
pub struct TrustedIdentity(pub Arc<UserInfo>);
