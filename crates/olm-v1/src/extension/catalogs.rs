//! operator-controller's copy of every served catalog (OLM1-CTRL-12).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use mainstay_api::condition::{self, Status};
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog, NAME_LABEL};
use mainstay_catalog::{Limits, MemorySource, PackageFacts};
use mainstay_catalog_store::{CatalogDigest, CatalogStore, StoreError, StoredCatalog};
use mainstay_diagnostics::chain;
use mainstay_image_source::registries::authorities;
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact};
use mainstay_resolver::PackageSource;
use mainstay_runtime::jobs::{Asked, Jobs, Terms};
use mainstay_runtime::{Cache, Key};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::observe::{CatalogSource, Stocked};
use crate::catalog::controller::{STILL_PULLED, digest_of};
use crate::catalog_secrets::pull_secret;
use crate::setup::SetupError;

/// The most content of one catalog, in bytes.
const CONTENT_BYTES: usize = 1 << 30;
/// The longest time of one fetch.
const FETCH: Duration = Duration::from_secs(300);
/// The time for which a failure is remembered, so that not every extension fetches again.
const REMEMBERED: Duration = Duration::from_secs(1);
/// The time that changes of catalogs have to settle before copies are dropped.
const SETTLED: Duration = Duration::from_secs(1);

/// The HTTP client for catalogs. It trusts the system's authorities, fixed ones, and those of a folder, which is read again before each fetch
/// (OLM1-GEN-06). The proxy settings of the environment apply.
pub struct CatalogClient {
    fixed: Vec<u8>,
    folder: Option<PathBuf>,
    held: Mutex<Trusting>,
}

/// A client, and the authorities from the folder with which it was made.
type Trusting = (Vec<(String, Vec<u8>)>, reqwest::Client);

impl CatalogClient {
    /// Creates a client that trusts `fixed`, a PEM that may be empty, and the authorities in `folder`.
    pub fn new(fixed: Vec<u8>, folder: Option<PathBuf>) -> Result<Self, SetupError> {
        let found = found(folder.as_ref())?;
        let client = trusting(&fixed, &found)?;
        Ok(Self { fixed, folder, held: Mutex::new((found, client)) })
    }

    fn current(&self) -> Result<reqwest::Client, SetupError> {
        let found = found(self.folder.as_ref())?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0 != found {
            *held = (found.clone(), trusting(&self.fixed, &found)?);
            tracing::info!("the authorities of catalogd changed");
        }
        Ok(held.1.clone())
    }
}

fn found(folder: Option<&PathBuf>) -> Result<Vec<(String, Vec<u8>)>, SetupError> {
    folder.map_or_else(|| Ok(Vec::new()), |folder| authorities(folder).map_err(SetupError::Authorities))
}

fn trusting(fixed: &[u8], found: &[(String, Vec<u8>)]) -> Result<reqwest::Client, SetupError> {
    let mut builder = reqwest::Client::builder();
    for pem in std::iter::once(fixed).chain(found.iter().map(|(_, pem)| pem.as_slice())) {
        for certificate in reqwest::Certificate::from_pem_bundle(pem)? {
            builder = builder.add_root_certificate(certificate);
        }
    }
    Ok(builder.build()?)
}

/// The local copies of the served catalogs, by the digest of their image.
pub struct CatalogCache {
    catalogs: Cache,
    store: Arc<CatalogStore>,
    client: Arc<CatalogClient>,
    fetches: Jobs<Result<StoredCatalog, Arc<FetchError>>>,
    /// The last content seen of each catalog, by the catalog's uid. It is used while the catalog cannot be reached.
    last: Mutex<HashMap<String, CatalogDigest>>,
}

/// The state of a catalog's content.
enum Looked {
    Known(CatalogContent),
    Pending(Instant),
}

impl CatalogCache {
    /// Creates a cache that keeps copies in `store`. In one process with catalogd both share a store, and nothing is fetched.
    pub fn new(catalogs: Cache, store: Arc<CatalogStore>, client: CatalogClient) -> Self {
        let overdue = |after: Duration| Err(Arc::new(FetchError::Overdue(after.as_secs())));
        let fetches = Jobs::new(Terms { deadline: FETCH, fresh: REMEMBERED }, overdue);
        Self { catalogs, store, client: Arc::new(client), fetches, last: Mutex::default() }
    }

    async fn content(&self, catalog: &ClusterCatalog, who: &Key) -> Looked {
        if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
            return Looked::Known(CatalogContent::Unavailable);
        }
        let status = catalog.status.as_ref();
        let serving =
            status.and_then(|status| condition::get(&status.conditions, "Serving")).is_some_and(|serving| serving.status == Status::True);
        let resolved = status.and_then(|status| status.resolved_source.as_ref()).map(|source| source.image.reference.as_str());
        let base = status.and_then(|status| status.urls.as_ref()).map(|urls| urls.base.as_str());
        let (true, Some(resolved), Some(base)) = (serving, resolved, base) else {
            return Looked::Known(if reports_failure(catalog) {
                let name = catalog.metadata.name.as_deref().unwrap_or_default();
                let reason = format!("catalog \"{name}\" is not being served");
                let served = catalog.metadata.uid.as_ref().is_some_and(|uid| self.last().contains_key(uid));
                match self.last_content(catalog) {
                    // The catalog has served content that is no longer known.
                    None if served => CatalogContent::Failed(reason),
                    last => CatalogContent::Broken { reason, last },
                }
            } else {
                CatalogContent::NotServing
            });
        };
        let Some(digest) = digest_of(resolved) else {
            return Looked::Known(CatalogContent::Failed(format!("error: resolved source {resolved:?} has no digest")));
        };
        let fetched = match self.store.get(&digest) {
            Ok(Some(content)) => Ok(content),
            Ok(None) => {
                let (store, client) = (self.store.clone(), self.client.clone());
                let (of, at) = (digest.clone(), base.to_owned());
                let fetch = move || async move { fetch(store, client, of, at).await.map_err(Arc::new) };
                // All extensions that need the same content share one fetch.
                match self.fetches.ask(&format!("{} {base}", digest.hex()), base, who, fetch).await {
                    Asked::Ended(fetched) => fetched.map_err(|error| chain(&*error)),
                    Asked::Running(since) => return Looked::Pending(since),
                }
            }
            Err(error) => Err(chain(&error)),
        };
        Looked::Known(match fetched {
            Ok(content) => {
                if let Some(uid) = &catalog.metadata.uid {
                    self.last().insert(uid.clone(), digest);
                }
                CatalogContent::Served(Arc::new(Content(content)))
            }
            Err(reason) => match self.last_content(catalog) {
                Some(last) => CatalogContent::Broken { reason, last: Some(last) },
                None => CatalogContent::Failed(reason),
            },
        })
    }

    fn last(&self) -> MutexGuard<'_, HashMap<String, CatalogDigest>> {
        // Every change of the map is a single call, so a poisoned lock is still consistent.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a catalog's last seen content, if a copy is left.
    fn last_content(&self, catalog: &ClusterCatalog) -> Option<Arc<dyn PackageSource + Send + Sync>> {
        let digest = self.last().get(catalog.metadata.uid.as_deref()?).cloned()?;
        let content =
            self.store.get(&digest).inspect_err(|error| tracing::warn!(%error, "a copy of a catalog cannot be opened")).ok()??;
        Some(Arc::new(Content(content)))
    }

    /// Drops copies to which no catalog refers any more.
    pub fn collect_garbage(&self) {
        let catalogs: Vec<ClusterCatalog> = self.typed().collect();
        let mut used: BTreeSet<CatalogDigest> =
            catalogs.iter().filter_map(|catalog| digest_of(&catalog.status.as_ref()?.resolved_source.as_ref()?.image.reference)).collect();
        {
            // The last content of an existing catalog stays known until there is newer content.
            let mut last = self.last();
            let counts = |catalog: &ClusterCatalog| catalog.spec.availability_mode != AvailabilityMode::Unavailable;
            last.retain(|uid, _| catalogs.iter().any(|catalog| catalog.metadata.uid.as_ref() == Some(uid) && counts(catalog)));
            used.extend(last.values().cloned());
        }
        match self.store.retain(&used) {
            Ok(removed) => {
                for digest in removed {
                    tracing::info!(%digest, "removed the copy of a catalog that nothing refers to");
                }
            }
            Err(error) => tracing::warn!(%error, "unreferenced catalogs could not be removed"),
        }
    }

    /// Drops unreferenced copies whenever the catalogs change, until `stop`.
    pub async fn collect_when_changed(&self, stop: &CancellationToken) {
        let changed = Arc::new(Notify::new());
        let told = changed.clone();
        self.catalogs.on_change(move |_| told.notify_one());
        if stop.run_until_cancelled(self.catalogs.ready()).await.is_none() {
            return;
        }
        loop {
            self.collect_garbage();
            if stop.run_until_cancelled(changed.notified()).await.is_none() {
                return;
            }
            // Changes come in bursts.
            if stop.run_until_cancelled(tokio::time::sleep(SETTLED)).await.is_none() {
                return;
            }
        }
    }

    fn typed(&self) -> impl Iterator<Item = ClusterCatalog> {
        self.catalogs.all().into_iter().filter_map(|object| {
            let typed = serde_json::to_value(&*object).and_then(serde_json::from_value);
            typed.inspect_err(|error| tracing::warn!(%error, "a clustercatalog cannot be read")).ok()
        })
    }
}

/// Returns true if a catalog reports a failure, and not only progress.
pub fn reports_failure(catalog: &ClusterCatalog) -> bool {
    let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition::get(conditions, "Progressing").is_some_and(|progressing| {
        matches!(progressing.reason.as_str(), "Retrying" | "Blocked") && !progressing.message.contains(STILL_PULLED)
    })
}

/// Why the content of a catalog could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("error")]
    Client(#[from] SetupError),
    #[error("error")]
    Request(#[from] reqwest::Error),
    #[error("error: received unexpected response status code {0}")]
    Status(u16),
    #[error("error: the catalog at {0} has more than {CONTENT_BYTES} bytes")]
    TooLarge(String),
    #[error("error: the catalog's content was not fetched within {0} s")]
    Overdue(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stopped(#[from] tokio::task::JoinError),
}

/// Fetches a catalog's content into the store.
async fn fetch(
    store: Arc<CatalogStore>,
    client: Arc<CatalogClient>,
    digest: CatalogDigest,
    base: String,
) -> Result<StoredCatalog, FetchError> {
    let url = format!("{base}/api/v1/all");
    let response = client.current()?.get(&url).timeout(FETCH).send().await?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let mut content = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.try_next().await? {
        if content.len() + chunk.len() > CONTENT_BYTES {
            return Err(FetchError::TooLarge(url));
        }
        content.extend_from_slice(&chunk);
    }
    let put = move || store.put(&digest, &MemorySource::of("all.jsonl", content), &Limits::default());
    Ok(tokio::task::spawn_blocking(put).await??)
}

#[async_trait]
impl CatalogSource for CatalogCache {
    async fn catalogs(&self, who: &Key) -> Stocked {
        let typed: Vec<ClusterCatalog> = self.typed().collect();
        // The catalogs are looked up concurrently: the waits for stalled ones would add up otherwise.
        let mut looks = Vec::with_capacity(typed.len());
        for catalog in &typed {
            looks.push(self.content(catalog, who));
        }
        let looked = futures::future::join_all(looks).await;
        let mut stocked = Stocked { catalogs: Vec::new(), pending: None };
        for (catalog, looked) in typed.iter().zip(looked) {
            let content = match looked {
                Looked::Known(content) => content,
                Looked::Pending(since) => {
                    stocked.pending = Some(stocked.pending.map_or(since, |before| before.min(since)));
                    CatalogContent::Failed("error: its content is still being fetched".to_owned())
                }
            };
            let name = catalog.metadata.name.clone().unwrap_or_default();
            let (labels, priority, pull_secret) = (labels(catalog), catalog.spec.priority, pull_secret(catalog));
            stocked.catalogs.push(CatalogFact { name, labels, priority, pull_secret, content });
        }
        stocked
    }

    fn wake_by(&self, wake: Box<dyn Fn(Key) + Send + Sync>) {
        self.fetches.wake_by(wake);
    }

    fn forget(&self, who: &Key) {
        self.fetches.forget(who);
    }
}

/// Returns the labels that selectors match. Upstream's admission webhook overwrites the label with the name. A cluster without the webhook lacks the
/// label, and a selector by name must match the catalog all the same (OLM1-CAT-03).
fn labels(catalog: &ClusterCatalog) -> BTreeMap<String, String> {
    let mut labels = catalog.metadata.labels.clone().unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), catalog.metadata.name.clone().unwrap_or_default());
    labels
}

/// A stored catalog as a package source for the resolver, through its index.
struct Content(StoredCatalog);

impl PackageSource for Content {
    fn package(&self, name: &str) -> Option<PackageFacts<'_>> {
        self.0.index().package_facts(name)
    }

    fn package_names(&self) -> Vec<&str> {
        self.0.index().packages().map(mainstay_catalog::PackageView::name).collect()
    }

    fn providers(&self, group: &str, version: &str, kind: &str) -> Vec<&str> {
        self.0.index().providing_packages(group, version, kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// OLM1-CAT-03: the label with the name is there for selectors, also where nobody has set it, or set it wrong; others are as they are.
    #[test]
    fn selectors_see_the_name() {
        for given in [json!({"team": "a"}), json!({"team": "a", NAME_LABEL: "other"})] {
            let catalog: ClusterCatalog = serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "real", "labels": given},
                "spec": {"source": {"type": "Image", "image": {"ref": "registry.example/catalog:1"}}},
            }))
            .unwrap();
            let wanted = BTreeMap::from([(NAME_LABEL.to_owned(), "real".to_owned()), ("team".to_owned(), "a".to_owned())]);
            assert_eq!(labels(&catalog), wanted);
        }
    }
}
