//! The catalogs of a cluster with their content, and what can be had from them.

mod fetch;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Api, ListParams};
use mainstay_api::condition;
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog, NAME_LABEL};
use mainstay_catalog::{Index, Limits, MemorySource, PackageFacts};
use mainstay_lifecycle::preview::FactRevision;
use mainstay_objects::LabelSelector;
use mainstay_olm_v1::extension::catalogs::reports_failure;
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact};
use mainstay_olm_v1_core::extension::plan::candidate;
use mainstay_resolver::{CandidateCatalog, PackageSource, RefusalKind, Request, Resolution, resolve};

use crate::catalogs::Counter;
use crate::cluster::{Session, refused};
use crate::commands;
use crate::errors::{Exit, Failure};
use crate::market::fetch::Way;

/// Catalogs by name.
pub struct Market {
    catalogs: Vec<Stall>,
}

/// One catalog.
pub struct Stall {
    /// Its name.
    pub name: String,
    labels: BTreeMap<String, String>,
    priority: i32,
    /// The image that its content is from, by digest.
    resolved: String,
    /// Its content, or why there is none.
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

/// Why there is no content.
pub enum Unavailable {
    /// It is switched off.
    Off,
    /// It does not serve; what its conditions say.
    NotServing(String),
    /// It does not serve, and says that it fails.
    Broken(String),
    /// It could not be fetched.
    Failed(String),
}

impl Market {
    /// Fetches all catalogs of the cluster, or one.
    pub async fn open(session: &Session, only: Option<&str>) -> Result<Self, Failure> {
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        let found = match only {
            Some(name) => vec![api.get(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?],
            None => api.list(&ListParams::default()).await.map_err(|error| refused("clustercatalogs", &error))?.items,
        };
        let way = Way::new(session)?;
        let mut catalogs = Vec::new();
        for catalog in found {
            let name = catalog.metadata.name.clone().unwrap_or_default();
            let mut labels = catalog.metadata.labels.clone().unwrap_or_default();
            labels.entry(NAME_LABEL.to_owned()).or_insert_with(|| name.clone());
            let resolved = catalog.status.as_ref().and_then(|status| status.resolved_source.as_ref());
            let resolved = resolved.map_or_else(String::new, |source| source.image.reference.clone());
            let content = content(&way, &catalog).await;
            catalogs.push(Stall { name, labels, priority: catalog.spec.priority, resolved, content });
        }
        catalogs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { catalogs })
    }

    /// The catalogs.
    pub fn catalogs(&self) -> &[Stall] {
        &self.catalogs
    }

    /// The catalogs as the planner reads them.
    pub fn facts(&self) -> Vec<CatalogFact> {
        let content = |stall: &Stall| match &stall.content {
            Ok(content) => CatalogContent::Held(Arc::new(Shared(content.index.clone()))),
            Err(Unavailable::Off) => CatalogContent::Unavailable,
            Err(Unavailable::NotServing(_)) => CatalogContent::NotServing,
            Err(Unavailable::Broken(_)) => CatalogContent::Broken { reason: not_served(&stall.name), last: None },
            Err(Unavailable::Failed(problem)) => CatalogContent::Failed(problem.clone()),
        };
        let fact = |stall: &Stall| CatalogFact {
            name: stall.name.clone(),
            labels: stall.labels.clone(),
            priority: stall.priority,
            // This process pulls with its user's credentials.
            pull_secret: None,
            content: content(stall),
        };
        self.catalogs.iter().map(fact).collect()
    }

    /// What a plan that read the catalogs rests on (MS-PLAN-02).
    pub fn revisions(&self) -> Vec<Revision> {
        let state = |stall: &Stall| match &stall.content {
            Ok(_) => stall.resolved.clone(),
            Err(Unavailable::Off) => "unavailable".to_owned(),
            Err(Unavailable::NotServing(_) | Unavailable::Broken(_)) => "not serving".to_owned(),
            Err(Unavailable::Failed(problem)) => format!("not fetched: {problem}"),
        };
        let labels = |stall: &Stall| stall.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        let revision = |stall: &Stall| {
            Revision::of(
                format!("catalog {}", stall.name),
                format!("{}, priority {}, labels {}", state(stall), stall.priority, labels(stall)),
            )
        };
        self.catalogs.iter().map(revision).collect()
    }

    /// Chooses a bundle, or fails with what each catalog had to offer.
    pub fn resolve(&self, request: &Request) -> Result<Resolution, Failure> {
        if self.catalogs.is_empty() {
            return Err(Failure::new(Exit::NotFound, format!("package {}", request.package), "the cluster has no catalog")
                .hint("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one"));
        }
        let facts = self.facts();
        let candidates: Vec<CandidateCatalog<'_>> = facts.iter().map(candidate).collect();
        resolve(request, &candidates).map_err(|refusal| {
            let failure = commands::resolve::refused(&refusal);
            // A package that nobody has is not found; everything else is impossible as asked.
            let nobody =
                matches!(refusal.kind, RefusalKind::NoSingleBundle { .. }) && refusal.catalogs.iter().all(|report| !report.package_found);
            if nobody { failure.exits(Exit::NotFound).hint("mainstay catalog search shows the packages that there are") } else { failure }
        })
    }
}

/// What upstream says of a catalog that does not serve.
fn not_served(name: &str) -> String {
    format!("catalog \"{name}\" is not being served")
}

/// A selector of one catalog.
pub fn only(catalog: Option<&str>) -> Option<LabelSelector> {
    catalog.map(|name| LabelSelector::label(NAME_LABEL, name))
}

async fn content(way: &Way, catalog: &ClusterCatalog) -> Result<Content, Unavailable> {
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
    let url = format!("{}/api/v1/all", urls.base);
    let lines = way.fetch(&url).await.map_err(|problem| Unavailable::Failed(format!("{url}: {problem}")))?;
    let source = MemorySource::of("all.json", lines);
    let mut content = Counter::default();
    let index =
        mainstay_catalog::store(&source, &Limits::default(), &mut content).map_err(|error| Unavailable::Failed(error.to_string()))?;
    let index = Index::open(index, content.bytes()).map_err(|error| Unavailable::Failed(error.to_string()))?;
    Ok(Content { index: Arc::new(index) })
}
