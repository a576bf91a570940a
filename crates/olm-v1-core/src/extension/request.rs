//! The request of an extension to the catalogs, and the catalogs in the resolver's form.

use mainstay_api::olm_v1::{ClusterExtension, UpgradeConstraintPolicy};
use mainstay_lifecycle::revision::Revision;
use mainstay_objects::{LabelSelector, SelectorRequirement};
use mainstay_resolver::{CandidateCatalog, CatalogState, PackageSource, Request};

use super::facts::{CatalogContent, CatalogFact};

/// The request of an extension to the catalogs; none without a catalog source.
pub fn request(extension: &ClusterExtension, installed: Option<&Revision>) -> Option<Request> {
    let catalog = extension.spec.source.catalog.as_ref()?;
    let selector = catalog.selector.as_ref().map(|selector| LabelSelector {
        match_labels: selector.match_labels.clone(),
        match_expressions: selector
            .match_expressions
            .iter()
            .map(|each| SelectorRequirement { key: each.key.clone(), operator: each.operator.clone(), values: each.values.clone() })
            .collect(),
    });
    Some(Request {
        package: catalog.package_name.clone(),
        channels: catalog.channels.iter().map(|channel| channel.0.clone()).collect(),
        version: catalog.version.clone(),
        selector,
        policy: match catalog.upgrade_constraint_policy {
            UpgradeConstraintPolicy::CatalogProvided => mainstay_resolver::UpgradeConstraintPolicy::CatalogProvided,
            UpgradeConstraintPolicy::SelfCertified => mainstay_resolver::UpgradeConstraintPolicy::SelfCertified,
        },
        installed: installed.map(|revision| {
            let bundle = &revision.record.bundle;
            mainstay_resolver::InstalledBundle { name: bundle.name.clone(), version: bundle.version.clone() }
        }),
    })
}

/// The catalogs in the resolver's form.
pub fn candidates(catalogs: &[CatalogFact]) -> Vec<CandidateCatalog<'_>> {
    catalogs.iter().map(candidate).collect()
}

/// A catalog in the resolver's form.
pub fn candidate(catalog: &CatalogFact) -> CandidateCatalog<'_> {
    CandidateCatalog {
        name: &catalog.name,
        labels: &catalog.labels,
        priority: catalog.priority,
        state: match &catalog.content {
            CatalogContent::Unavailable => CatalogState::Unavailable,
            CatalogContent::NotServing => CatalogState::NotServing,
            CatalogContent::Failed(problem) => CatalogState::Failed(problem),
            CatalogContent::Broken { reason, last } => {
                CatalogState::Broken { reason, last: last.as_deref().map(|last| last as &dyn PackageSource) }
            }
            CatalogContent::Served(source) => CatalogState::Content(&**source),
        },
    }
}
