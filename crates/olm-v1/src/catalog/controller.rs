//! The ClusterCatalog controller: the only writer of the served catalogs and of the status of ClusterCatalogs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use mainstay_api::lifecycle::PULL_SECRET;
use mainstay_api::olm_v1::ClusterCatalog;
use mainstay_apply::{WriteError, Writer};
use mainstay_catalog_store::{CatalogDigest, CatalogStore, StoreError, StoredCatalog};
use mainstay_diagnostics::SharedError;
use mainstay_olm_v1_core::catalog::plan::{FINALIZER, Plan, Stored, plan};
use mainstay_olm_v1_core::catalog::status::{Outcome, status};
use mainstay_olm_v1_core::extension::facts::PullFailure;
use mainstay_runtime::jobs::{Asked, Jobs, Terms, origin};
use mainstay_runtime::{Cache, Env, Key, Outcome as Looked, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::served::{ServedCatalog, ServedCatalogs};
use crate::catalog_secrets::{CatalogSecrets, pull_secret};
use crate::events::Events;

/// The source of catalog images.
#[async_trait]
pub trait CatalogImages: Send + Sync {
    /// Resolves a reference, and unpacks and stores its content unless it is stored already. Returns the reference by digest and the content.
    /// `secret` is the catalog's own pull secret.
    async fn unpack(&self, name: &str, reference: &str, secret: Option<&str>) -> Result<(String, StoredCatalog), PullFailure>;

    /// Drops what is cached of a catalog's images.
    async fn forget(&self, name: &str) -> Result<(), SharedError>;
}

/// The parts that the controller works with.
pub struct Catalogs {
    /// The writer with the controller's identity.
    pub writer: Writer,
    /// Clock and randomness.
    pub env: Env,
    /// The source of catalog images.
    pub images: Arc<dyn CatalogImages>,
    /// Stored content.
    pub store: Arc<CatalogStore>,
    /// The served catalogs.
    pub served: ServedCatalogs,
    /// `https://HOST:PORT`, to which `/catalogs/NAME` is added (OLM1-CAT-19).
    pub external_address: String,
    /// The interval at which unreferenced content is removed.
    pub gc_interval: Duration,
    /// The recorder of events.
    pub events: Events,
    /// The running pulls.
    pub pulls: Pulls,
    /// Pull secrets of single catalogs.
    pub secrets: Arc<CatalogSecrets>,
}

/// The pulls of catalogs. Each results in the reference by digest and the content.
pub type Pulls = Jobs<Result<(String, StoredCatalog), PullFailure>>;

/// Returns an empty set of pulls.
pub fn pulls() -> Pulls {
    let overdue = |after: Duration| {
        let message = format!("source catalog content: the pull was given up after {} s", after.as_secs());
        Err(PullFailure::other(message))
    };
    Jobs::new(Terms { deadline: PULL, fresh: Duration::ZERO }, overdue)
}

/// A failure of a reconcile that no condition can show.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The object is not a ClusterCatalog.
    #[error("clustercatalog {name} cannot be read")]
    Form {
        /// The catalog.
        name: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The cached images could not be dropped.
    #[error("clustercatalog {name}: dropping its images failed")]
    Forget {
        /// The catalog.
        name: String,
        /// The cause.
        source: SharedError,
    },
}

/// Catalogs that are reconciled at a time.
const WORKERS: usize = 4;
/// The message of a catalog whose image is being pulled for a long time.
pub const STILL_PULLED: &str = "the image is still being pulled";
/// The time after which a running pull is reported.
const SLOW: Duration = Duration::from_secs(30);
/// The longest time of a pull, including unpacking and indexing. The largest catalogs take a few minutes over a slow line.
const PULL: Duration = Duration::from_secs(1_800);

/// Runs the controller until `stop`.
pub async fn run(catalogs: Arc<Catalogs>, stop: CancellationToken) {
    let resource = kube::api::ApiResource::erase::<ClusterCatalog>(&());
    let cache = Cache::start(catalogs.writer.client(), &resource, &Scope::default(), &stop).shown(catalogs.env.metrics());
    // If the process is told to stop before the first list, the cache never becomes ready.
    if stop.run_until_cancelled(cache.ready()).await.is_none() {
        return;
    }
    catalogs.restore(&cache);
    // Nothing is being unpacked yet. Content that is not served now was left by deleted catalogs or by a crash.
    catalogs.drop_unreferenced();
    let queue: Queue<Key> = Queue::default();
    let woken = queue.clone();
    catalogs.pulls.wake_by(move |key| woken.add(key));
    let woken = queue.clone();
    cache.on_change(move |change| {
        if let Some(object) = change.object() {
            woken.add(Key::of(object));
        }
    });
    let (woken, objects) = (queue.clone(), cache.clone());
    catalogs.secrets.wake_by(move |secret| {
        let names = |object: &DynamicObject| object.annotations().get(PULL_SECRET).is_some_and(|name| name == secret);
        objects.all().iter().filter(|object| names(object)).for_each(|object| woken.add(Key::of(object)));
    });
    let (worker, objects) = (catalogs.clone(), cache.clone());
    let reconcile = move |key: Key| {
        let (catalogs, cache) = (worker.clone(), objects.clone());
        async move { catalogs.reconcile(&cache, &key).await }
    };
    tokio::select! {
        () = mainstay_runtime::run("clustercatalog", queue, WORKERS, catalogs.env.clone(), stop.clone(), reconcile) => {}
        () = catalogs.collect_garbage() => {}
    }
}

impl Catalogs {
    /// Serves again what was served before a restart, if it is still stored. The registry may be unavailable.
    fn restore(&self, cache: &Cache) {
        for object in cache.all() {
            let Ok(catalog) = typed(&object) else { continue };
            let (Some(name), Some(status)) = (&catalog.metadata.name, &catalog.status) else { continue };
            let Some(resolved) = status.resolved_source.as_ref().map(|source| source.image.reference.clone()) else { continue };
            let Some(digest) = digest_of(&resolved) else { continue };
            match self.store.get(&digest) {
                Ok(Some(content)) => {
                    let unpacked = status.last_unpacked.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
                    let reference = catalog.spec.source.image.as_ref().map(|image| image.reference.clone()).unwrap_or_default();
                    let observed = status
                        .conditions
                        .iter()
                        .find(|condition| condition.kind == "Serving")
                        .and_then(|condition| condition.observed_generation);
                    self.served.put(
                        name,
                        ServedCatalog {
                            content,
                            resolved,
                            reference,
                            generation: observed.unwrap_or_default(),
                            unpacked,
                            polled: unpacked,
                        },
                    );
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(catalog = name, %error, "stored content cannot be opened; it is unpacked again"),
            }
        }
    }

    async fn collect_garbage(&self) {
        loop {
            tokio::time::sleep(self.gc_interval).await;
            self.drop_unreferenced();
        }
    }

    fn drop_unreferenced(&self) {
        match self.store.retain(&self.served.digests()) {
            Ok(removed) => {
                for digest in removed {
                    tracing::info!(%digest, "removed a catalog that nothing refers to");
                }
            }
            Err(error) => tracing::warn!(%error, "unreferenced catalogs could not be removed"),
        }
    }

    async fn reconcile(&self, cache: &Cache, key: &Key) -> Result<Looked, CatalogError> {
        let Some(object) = cache.get(key) else {
            self.pulls.forget(key);
            self.served.remove(&key.name);
            // The finalizer may have been removed by another client.
            self.drop_unreferenced();
            return Ok(Looked::Done);
        };
        let catalog = typed(&object).map_err(|source| CatalogError::Form { name: key.name.clone(), source })?;
        let stored = self.served.get(&key.name).map(|held| Stored {
            resolved: held.resolved,
            reference: held.reference,
            generation: held.generation,
            polled: held.polled,
        });
        match plan(&catalog, stored.as_ref(), &self.base(&key.name), self.env.now(), self.env.fraction()) {
            Plan::AddFinalizer => {
                self.writer.add_finalizer(&live(&catalog)?, FINALIZER).await?;
                Ok(Looked::Done)
            }
            Plan::Finalize => self.leave(&catalog, &Outcome::Leaving).await,
            Plan::Disable => self.leave(&catalog, &Outcome::Disabled).await,
            Plan::Unpack { reference, reason } => self.unpack(&catalog, &reference, reason).await,
            Plan::Readdress => {
                if let Some(held) = self.served.get(&key.name) {
                    self.write_status(
                        &catalog,
                        &Outcome::Serving { resolved: &held.resolved, unpacked: held.unpacked, base: &self.base(&key.name) },
                    )
                    .await?;
                }
                Ok(Looked::Done)
            }
            Plan::Keep(None) => Ok(Looked::Done),
            Plan::Keep(Some(wait)) => Ok(Looked::After(wait.unsigned_abs())),
        }
    }

    /// Returns the base address at which clients find a catalog (OLM1-CAT-19).
    fn base(&self, name: &str) -> String {
        format!("{}/catalogs/{name}", self.external_address)
    }

    async fn unpack(&self, catalog: &ClusterCatalog, reference: &str, reason: &str) -> Result<Looked, CatalogError> {
        let name = catalog.name_any();
        tracing::debug!(catalog = name, reference, reason, "unpacking");
        let now = self.env.now_seconds();
        let before = self.served.get(&name);
        let secret = pull_secret(catalog);
        let job = format!("{name} {reference} {}", secret.as_deref().unwrap_or_default());
        let (images, pulled) = (self.images.clone(), (name.clone(), reference.to_owned()));
        let pull = move || async move { images.unpack(&pulled.0, &pulled.1, secret.as_deref()).await };
        let pulled = match self.pulls.ask(&job, origin(reference), &Key::new("", &*name), pull).await {
            Asked::Ended(pulled) => pulled,
            // The end of the pull wakes the catalog. Until then the status reports a slow pull.
            Asked::Running(since) => {
                if let Some(left) = SLOW.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
                    return Ok(Looked::After(left));
                }
                let problem = format!("source catalog content: {STILL_PULLED} after {} s", SLOW.as_secs());
                self.write_status(catalog, &Outcome::Failed { problem: &problem, terminal: false, serving: before.is_some() }).await?;
                return Ok(Looked::Done);
            }
        };
        match pulled {
            // Nothing referred to the content between the end of the pull and now, so it may have been removed again.
            Ok((_, content)) if !self.store.contains(content.digest()) => Ok(Looked::Retry),
            Ok((resolved, content)) => {
                let unpacked = before.as_ref().filter(|before| before.resolved == resolved).map_or(now, |before| before.unpacked);
                let held = ServedCatalog {
                    content,
                    resolved: resolved.clone(),
                    reference: reference.to_owned(),
                    generation: catalog.metadata.generation.unwrap_or_default(),
                    unpacked,
                    polled: self.env.now(),
                };
                self.served.put(&name, held.clone());
                self.write_status(
                    catalog,
                    &Outcome::Serving { resolved: &held.resolved, unpacked: held.unpacked, base: &self.base(&name) },
                )
                .await?;
                if before.is_none_or(|before| before.resolved != resolved) {
                    self.drop_unreferenced();
                    let packages = held.content.index().packages().len();
                    self.events.normal(
                        catalog,
                        "Unpacked",
                        &format!("{packages} packages and {} bundles from {resolved}", held.content.index().bundle_count()),
                    );
                }
                let interval = catalog.spec.source.image.as_ref().and_then(|image| image.poll_interval_minutes);
                let wait =
                    interval.and_then(|minutes| u64::try_from(minutes).ok()).map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
                Ok(wait.map_or(Looked::Done, |wait| Looked::After(wait.mul_f64(1.0 + self.env.fraction() / 100.0))))
            }
            Err(failure) => {
                let failed = Outcome::Failed { problem: &failure.message, terminal: failure.terminal, serving: before.is_some() };
                self.write_status(catalog, &failed).await?;
                self.events.warning(catalog, if failure.terminal { "Blocked" } else { "UnpackFailed" }, &failure.message);
                Ok(if failure.terminal { Looked::Blocked } else { Looked::Retry })
            }
        }
    }

    /// Stops serving a catalog, reports that while the object still exists, and removes the finalizer.
    async fn leave(&self, catalog: &ClusterCatalog, outcome: &Outcome<'_>) -> Result<Looked, CatalogError> {
        let name = catalog.name_any();
        self.pulls.forget(&Key::new("", &*name));
        self.served.remove(&name);
        self.drop_unreferenced();
        self.images.forget(&name).await.map_err(|source| CatalogError::Forget { name: name.clone(), source })?;
        // The finalizer goes first: the status that is written next refers to the object as it is then.
        let now = self.writer.remove_finalizer(&live(catalog)?, FINALIZER).await?;
        if catalog.metadata.deletion_timestamp.is_none() {
            let current = match now {
                Some(object) => serde_json::from_value(object).map_err(|source| CatalogError::Form { name, source })?,
                None => catalog.clone(),
            };
            self.write_status(&current, outcome).await?;
        }
        Ok(Looked::Done)
    }

    async fn write_status(&self, catalog: &ClusterCatalog, outcome: &Outcome<'_>) -> Result<(), CatalogError> {
        let wanted = status(catalog, outcome, self.env.now_seconds());
        let form = |source| CatalogError::Form { name: catalog.name_any(), source };
        let value: Value = serde_json::to_value(&wanted).map_err(form)?;
        match self.writer.update_status(&live(catalog)?, &value).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let before = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
                self.events.transitions(catalog, before, &wanted.conditions);
                Ok(())
            }
            // The object is gone: there is nothing left to write to.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the catalog as it was read, for a write that refers to it.
fn live(catalog: &ClusterCatalog) -> Result<Value, CatalogError> {
    serde_json::to_value(catalog).map_err(|source| CatalogError::Form { name: catalog.name_any(), source })
}

fn typed(object: &kube::api::DynamicObject) -> Result<ClusterCatalog, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(object)?)
}

/// Returns the digest of `REPOSITORY@DIGEST`.
pub fn digest_of(reference: &str) -> Option<CatalogDigest> {
    let digest: Result<CatalogDigest, StoreError> = reference.rsplit_once('@')?.1.parse();
    digest.ok()
}
