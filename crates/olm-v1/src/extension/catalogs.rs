//! operator-controller's copy of every served catalog (OLM1-CTRL-12).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use mainstay_api::condition::{self, Status};
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog, NAME_LABEL};
use mainstay_catalog::{Limits, MemorySource, PackageFacts};
use mainstay_catalog_store::{CatalogDigest, CatalogStore, StoredCatalog};
use mainstay_resolver::PackageSource;
use mainstay_runtime::Cache;
use tokio::sync::Mutex;

use super::facts::{CatalogContent, CatalogFact};
use super::observe::CatalogSource;
use crate::catalog::controller::digest_of;
use crate::registries::authorities;
use crate::setup::SetupError;
use crate::text::chain;

/// How much content one catalog may have, in bytes.
const CONTENT_BYTES: usize = 1 << 30;
/// How long one fetch may take.
const FETCH: Duration = Duration::from_secs(300);

/// The HTTP client for catalogs. It trusts the system's authorities, a fixed one and those of a folder, which are read anew before each fetch
/// (OLM1-GEN-06); proxies count as the environment says.
pub struct CatalogClient {
    fixed: Vec<u8>,
    folder: Option<PathBuf>,
    held: std::sync::Mutex<Trusting>,
}

/// A client, and the authorities of the folder that it was made with.
type Trusting = (Vec<(String, Vec<u8>)>, reqwest::Client);

impl CatalogClient {
    /// A client that trusts `fixed`, a PEM that may be empty, and what lies in `folder`.
    pub fn new(fixed: Vec<u8>, folder: Option<PathBuf>) -> Result<Self, SetupError> {
        let found = found(folder.as_ref())?;
        let client = trusting(&fixed, &found)?;
        Ok(Self { fixed, folder, held: std::sync::Mutex::new((found, client)) })
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

/// Copies of the served catalogs, by the digest of their image.
pub struct CatalogCache {
    catalogs: Cache,
    store: Arc<CatalogStore>,
    client: CatalogClient,
    fetching: Mutex<HashMap<String, Result<(), String>>>,
}

impl CatalogCache {
    /// Keeps copies in `store`. In one process with catalogd the two share a store, and nothing is fetched.
    pub fn new(catalogs: Cache, store: Arc<CatalogStore>, client: CatalogClient) -> Self {
        Self { catalogs, store, client, fetching: Mutex::default() }
    }

    async fn content(&self, catalog: &ClusterCatalog) -> CatalogContent {
        if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
            return CatalogContent::Unavailable;
        }
        let status = catalog.status.as_ref();
        let serving =
            status.and_then(|status| condition::get(&status.conditions, "Serving")).is_some_and(|serving| serving.status == Status::True);
        let resolved = status.and_then(|status| status.resolved_source.as_ref()).map(|source| source.image.reference.as_str());
        let base = status.and_then(|status| status.urls.as_ref()).map(|urls| urls.base.as_str());
        let (true, Some(resolved), Some(base)) = (serving, resolved, base) else {
            return CatalogContent::NotServing;
        };
        let Some(digest) = digest_of(resolved) else {
            return CatalogContent::Failed(format!("error: resolved source {resolved:?} has no digest"));
        };
        match self.copy(&digest, base).await {
            Ok(content) => CatalogContent::Held(Arc::new(Content(content))),
            Err(problem) => CatalogContent::Failed(problem),
        }
    }

    async fn copy(&self, digest: &CatalogDigest, base: &str) -> Result<StoredCatalog, String> {
        let stored = |digest: &CatalogDigest| self.store.get(digest).map_err(|error| chain(&error));
        if let Some(content) = stored(digest)? {
            return Ok(content);
        }
        // One fetch at a time: two extensions that want the same catalog do not fetch it twice.
        let mut fetching = self.fetching.lock().await;
        if let Some(content) = stored(digest)? {
            return Ok(content);
        }
        let fetched = self.fetch(digest, base).await;
        fetching.insert(base.to_owned(), fetched.as_ref().map(|_| ()).map_err(Clone::clone));
        fetched
    }

    async fn fetch(&self, digest: &CatalogDigest, base: &str) -> Result<StoredCatalog, String> {
        let url = format!("{base}/api/v1/all");
        let failed = |error: &reqwest::Error| format!("error: {}", chain(error));
        let client = self.client.current().map_err(|error| format!("error: {}", chain(&error)))?;
        let response = client.get(&url).timeout(FETCH).send().await.map_err(|error| failed(&error))?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(format!("error: received unexpected response status code {}", response.status().as_u16()));
        }
        let mut content = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.try_next().await.map_err(|error| failed(&error))? {
            if content.len() + chunk.len() > CONTENT_BYTES {
                return Err(format!("error: the catalog at {url} has more than {CONTENT_BYTES} bytes"));
            }
            content.extend_from_slice(&chunk);
        }
        let (store, digest) = (self.store.clone(), digest.clone());
        let put = move || store.put(&digest, &MemorySource::of("all.jsonl", content), &Limits::default()).map_err(|error| chain(&error));
        tokio::task::spawn_blocking(put).await.map_err(|error| error.to_string())?
    }

    /// Drops copies that no catalog refers to any more.
    pub fn collect_garbage(&self) {
        let used: BTreeSet<CatalogDigest> =
            self.typed().filter_map(|catalog| digest_of(&catalog.status?.resolved_source?.image.reference)).collect();
        if let Err(error) = self.store.retain(&used) {
            tracing::warn!(%error, "unreferenced catalogs could not be removed");
        }
    }

    fn typed(&self) -> impl Iterator<Item = ClusterCatalog> {
        self.catalogs.all().into_iter().filter_map(|object| {
            let typed = serde_json::to_value(&*object).and_then(serde_json::from_value);
            typed.inspect_err(|error| tracing::warn!(%error, "a clustercatalog cannot be read")).ok()
        })
    }
}

#[async_trait]
impl CatalogSource for CatalogCache {
    async fn catalogs(&self) -> Vec<CatalogFact> {
        let mut facts = Vec::new();
        for catalog in self.typed() {
            facts.push(CatalogFact {
                name: catalog.metadata.name.clone().unwrap_or_default(),
                labels: labels(&catalog),
                priority: catalog.spec.priority,
                content: self.content(&catalog).await,
            });
        }
        facts
    }
}

/// The labels that selectors see. Upstream an admission webhook sets the one with the name, whatever was there; a cluster that has no such
/// webhook lacks it, and a selector by name must find the catalog all the same (OLM1-CAT-03).
fn labels(catalog: &ClusterCatalog) -> BTreeMap<String, String> {
    let mut labels = catalog.metadata.labels.clone().unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), catalog.metadata.name.clone().unwrap_or_default());
    labels
}

/// A stored catalog as the resolver reads it: through its index.
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
