//! The catalogs of a cluster with their content, and the bundles that they offer.

mod access;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Api, ListParams};
use mainstay_api::condition;
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog, NAME_LABEL};
use mainstay_catalog::{Index, IndexError, Limits, LoadError, MemorySource, PackageFacts};
use mainstay_diagnostics::{Failure, FailureKind, chain};
use mainstay_lifecycle::preview::FactRevision;
use mainstay_objects::LabelSelector;
use mainstay_olm_v1::extension::catalogs::reports_failure;
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact};
use mainstay_olm_v1_core::extension::request::candidate;
use mainstay_resolver::{CandidateCatalog, PackageSource, RefusalKind, Request, Resolution, resolve};

use crate::failure::{not_resolved, refused};
use crate::session::Session;

pub use access::{AccessError, CatalogAccess};

/// The catalogs of a cluster, by name.
pub struct CatalogSnapshot {
    catalogs: Vec<ServedCatalog>,
}

/// A catalog, with the content that it serves.
pub struct ServedCatalog {
    /// Its name.
    pub name: String,
    labels: BTreeMap<String, String>,
    priority: i32,
    /// The image of its content, by digest.
    resolved: String,
    /// Its content, or the reason why there is none.
    pub content: Result<Content, Unavailable>,
}

/// The content of a catalog.
pub struct Content {
    /// Its index.
    pub index: Arc<Index<Vec<u8>>>,
}

/// An index as the planner reads it.
struct Shared(Arc<Index<Vec<u8>>>);

impl PackageSource for Shared {
    fn package(&self, name: &str) -> Option<PackageFacts<'_>> {
        self.0.package_facts(name)
    }

    fn package_names(&self) -> Vec<&str> {
        PackageSource::package_names(&*self.0)
    }
}

/// The reason why a catalog has no content.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The catalog is switched off.
    #[error("it is switched off")]
    Off,
    /// The catalog does not serve, with what its conditions say.
    #[error("it does not serve: {0}")]
    NotServing(String),
    /// The catalog does not serve, and reports a failure.
    #[error("it does not serve: {0}")]
    Broken(String),
    /// The content cannot be fetched.
    #[error(transparent)]
    Failed(#[from] ContentError),
}

/// The reason why the content of a catalog that serves cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The content was not fetched.
    #[error("{url}: {}", chain(.source))]
    Access {
        /// Its address.
        url: String,
        /// The cause.
        source: AccessError,
    },
    /// The fetched content is no catalog.
    #[error("{0}")]
    Catalog(#[from] LoadError),
    /// Its index cannot be read.
    #[error("{0}")]
    Index(#[from] IndexError),
}

impl CatalogSnapshot {
    /// Fetches all catalogs of the cluster, or one.
    pub async fn open(session: &Session, only: Option<&str>) -> Result<Self, Failure> {
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        let found = match only {
            Some(name) => vec![api.get(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?],
            None => api.list(&ListParams::default()).await.map_err(|error| refused("clustercatalogs", &error))?.items,
        };
        let access = CatalogAccess::new(session)?;
        let mut catalogs = Vec::new();
        for catalog in found {
            let name = catalog.metadata.name.clone().unwrap_or_default();
            let mut labels = catalog.metadata.labels.clone().unwrap_or_default();
            labels.entry(NAME_LABEL.to_owned()).or_insert_with(|| name.clone());
            let resolved = catalog.status.as_ref().and_then(|status| status.resolved_source.as_ref());
            let resolved = resolved.map_or_else(String::new, |source| source.image.reference.clone());
            let content = content(&access, &catalog).await;
            catalogs.push(ServedCatalog { name, labels, priority: catalog.spec.priority, resolved, content });
        }
        catalogs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { catalogs })
    }

    /// Returns the catalogs.
    pub fn catalogs(&self) -> &[ServedCatalog] {
        &self.catalogs
    }

    /// Returns the catalogs as the planner reads them.
    pub fn facts(&self) -> Vec<CatalogFact> {
        let content = |catalog: &ServedCatalog| match &catalog.content {
            Ok(content) => CatalogContent::Served(Arc::new(Shared(content.index.clone()))),
            Err(Unavailable::Off) => CatalogContent::Unavailable,
            Err(Unavailable::NotServing(_)) => CatalogContent::NotServing,
            Err(Unavailable::Broken(_)) => CatalogContent::Broken { reason: not_served(&catalog.name), last: None },
            Err(Unavailable::Failed(problem)) => CatalogContent::Failed(problem.to_string()),
        };
        let fact = |catalog: &ServedCatalog| CatalogFact {
            name: catalog.name.clone(),
            labels: catalog.labels.clone(),
            priority: catalog.priority,
            // This process pulls with the credentials of its user.
            pull_secret: None,
            content: content(catalog),
        };
        self.catalogs.iter().map(fact).collect()
    }

    /// Returns the facts that a plan rests on if it read the catalogs (MS-PLAN-02).
    pub fn revisions(&self) -> Vec<FactRevision> {
        let state = |catalog: &ServedCatalog| match &catalog.content {
            Ok(_) => catalog.resolved.clone(),
            Err(Unavailable::Off) => "unavailable".to_owned(),
            Err(Unavailable::NotServing(_) | Unavailable::Broken(_)) => "not serving".to_owned(),
            Err(Unavailable::Failed(problem)) => format!("not fetched: {problem}"),
        };
        let labels =
            |catalog: &ServedCatalog| catalog.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        let revision = |catalog: &ServedCatalog| {
            FactRevision::of(
                format!("catalog {}", catalog.name),
                format!("{}, priority {}, labels {}", state(catalog), catalog.priority, labels(catalog)),
            )
        };
        self.catalogs.iter().map(revision).collect()
    }

    /// Chooses a bundle; fails with what each catalog had to offer.
    pub fn resolve(&self, request: &Request) -> Result<Resolution, Failure> {
        if self.catalogs.is_empty() {
            return Err(Failure::new(FailureKind::NotFound, format!("package {}", request.package), "the cluster has no catalog")
                .hint("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one"));
        }
        let facts = self.facts();
        let candidates: Vec<CandidateCatalog<'_>> = facts.iter().map(candidate).collect();
        resolve(request, &candidates).map_err(|refusal| {
            let failure = not_resolved(&refusal);
            // A package in no catalog is not found; everything else is impossible as asked.
            let nobody =
                matches!(refusal.kind, RefusalKind::NoSingleBundle { .. }) && refusal.catalogs.iter().all(|report| !report.package_found);
            if nobody {
                failure.with_kind(FailureKind::NotFound).hint("mainstay catalog search shows the packages that there are")
            } else {
                failure
            }
        })
    }
}

/// Returns upstream's message for a catalog that does not serve.
fn not_served(name: &str) -> String {
    format!("catalog \"{name}\" is not being served")
}

/// Returns a selector of one catalog.
pub fn only(catalog: Option<&str>) -> Option<LabelSelector> {
    catalog.map(|name| LabelSelector::label(NAME_LABEL, name))
}

async fn content(access: &CatalogAccess, catalog: &ClusterCatalog) -> Result<Content, Unavailable> {
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        return Err(Unavailable::Off);
    }
    let failing = reports_failure(catalog);
    let status = catalog.status.clone().unwrap_or_default();
    let serving = condition::get(&status.conditions, "Serving").is_some_and(|serving| serving.status == condition::Status::True);
    let Some(urls) = status.urls.filter(|_| serving) else {
        let said = condition::get(&status.conditions, "Progressing").map(|progressing| progressing.message.clone());
        let said = said.unwrap_or_default();
        return Err(if failing { Unavailable::Broken(said) } else { Unavailable::NotServing(said) });
    };
    Ok(read(access, format!("{}/api/v1/all", urls.base)).await?)
}

async fn read(access: &CatalogAccess, url: String) -> Result<Content, ContentError> {
    let lines = access.fetch(&url).await.map_err(|source| ContentError::Access { url, source })?;
    let source = MemorySource::of("all.json", lines);
    let mut content = ByteCounter::default();
    let index = mainstay_catalog::store(&source, &Limits::default(), &mut content)?;
    Ok(Content { index: Arc::new(Index::open(index, content.bytes())?) })
}

/// A writer that only counts bytes, for content that is not needed itself.
#[derive(Debug, Default)]
pub struct ByteCounter(u64);

impl ByteCounter {
    /// Returns the number of bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.0
    }
}

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
