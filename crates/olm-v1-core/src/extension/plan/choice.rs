//! Which bundle: the extension's wish put to the catalogs, and the content of what they answer.

use std::sync::Arc;

use mainstay_api::olm_v1::{ClusterExtension, UpgradeConstraintPolicy};
use mainstay_bundle::{Bundle, gates};
use mainstay_objects::{LabelSelector, SelectorRequirement};
use mainstay_resolver::{CandidateCatalog, CatalogState, PackageSource, RefusalKind, Request, Resolution, resolve};
use serde_json::json;

use super::super::dependencies::{joins, together, wanting};
use super::super::facts::{BundleImage, CatalogContent, CatalogFact, Fact, Snapshot};
use super::{ContentError, Plan, Planner, Reason, Stop, Verdict};
use mainstay_lifecycle::revision::{InstalledBundle, Revision};

impl Planner<'_> {
    /// Chooses the bundle: alone, as upstream, or together with the other extensions where a policy says so (OLM1-INST-04).
    pub(super) fn choose(&mut self, installed: Option<&Revision>) -> Result<(), Stop> {
        let snapshot = self.snapshot;
        let Some(request) = request(&snapshot.extension, installed) else {
            return Err(self.stop(Verdict::Retrying(Reason::NoSource)));
        };
        let catalogs = candidates(snapshot);
        if joins(&snapshot.extension, &snapshot.known.lifecycle) {
            return self.choose_together(&request, &catalogs);
        }
        match resolve(&request, &catalogs) {
            Ok(resolution) => {
                self.resolution = Some(resolution);
                Ok(())
            }
            Err(refusal) => {
                let advice = match refusal.kind {
                    RefusalKind::UnsupportedDependency { .. } => wanting(snapshot, request, &catalogs),
                    _ => Vec::new(),
                };
                Err(self.advised(Verdict::Retrying(Reason::Unresolved(refusal)), advice))
            }
        }
    }

    fn choose_together(&mut self, request: &Request, catalogs: &[CandidateCatalog<'_>]) -> Result<(), Stop> {
        let snapshot = self.snapshot;
        if let Some(Err(problem)) = &snapshot.known.apis {
            return Err(self.stop(Verdict::Retrying(Reason::UnknownApis(problem.clone()))));
        }
        let solved = together(snapshot, request, catalogs);
        // What seems to be missing may be there without any extension.
        if snapshot.known.apis.is_none() && solved.as_ref().map_or(true, |(_, dependencies)| !dependencies.missing.is_empty()) {
            return Err(Stop::Need(vec![Fact::Apis]));
        }
        let (resolution, dependencies) = solved.map_err(|unsolved| {
            let advice = unsolved.advice();
            self.advised(Verdict::Retrying(Reason::Unsolved(unsolved)), advice)
        })?;
        self.resolution = Some(resolution);
        self.dependencies = Some(dependencies);
        Ok(())
    }

    /// The plan that ends with this verdict, and with what helps.
    pub(super) fn advised(&self, verdict: Verdict, warnings: Vec<String>) -> Stop {
        Stop::Plan(Box::new(Plan { warnings, ..self.report(verdict) }))
    }

    /// The bundle's content; what upstream says about a dependency comes before anything is pulled (OLM1-INST-04).
    pub(super) fn bundle(&self) -> Result<Arc<Bundle>, Stop> {
        let Some(resolution) = &self.resolution else {
            return Err(self.stop(Verdict::Retrying(Reason::NothingResolved)));
        };
        let choice = &resolution.choice;
        let dependency =
            self.snapshot.catalogs.iter().find(|catalog| catalog.name == choice.catalog).and_then(|catalog| match &catalog.content {
                CatalogContent::Held(source) => {
                    let facts = source.package(&choice.package)?;
                    let bundle = facts.bundles.iter().find(|bundle| bundle.name == choice.bundle)?;
                    bundle.dependency.map(|kind| json!({"type": kind}))
                }
                _ => None,
            });
        if self.dependencies.is_none() {
            gates::check_dependencies(&choice.bundle, dependency.iter()).map_err(|refusal| self.fail(ContentError::from(refusal)))?;
        }
        match self.snapshot.known.bundles.get(&choice.image) {
            None => {
                let catalog = self.snapshot.catalogs.iter().find(|catalog| catalog.name == choice.catalog);
                let pull_secret = catalog.and_then(|catalog| catalog.pull_secret.clone());
                Err(Stop::Need(vec![Fact::Bundle(BundleImage { reference: choice.image.clone(), pull_secret })]))
            }
            Some(Ok(bundle)) => Ok(bundle.clone()),
            Some(Err(failure)) => {
                let reason = Reason::Pull { image: choice.image.clone(), failure: failure.clone() }.of_bundle(self.resolution.as_ref());
                Err(self.stop(if failure.terminal { Verdict::Blocked(reason) } else { Verdict::Retrying(reason) }))
            }
        }
    }

    pub(super) fn installed_bundle(&self) -> InstalledBundle {
        let text = |pick: fn(&Resolution) -> &String| self.resolution.as_ref().map(pick).cloned().unwrap_or_default();
        InstalledBundle {
            package: text(|resolution| &resolution.choice.package),
            name: text(|resolution| &resolution.choice.bundle),
            version: text(|resolution| &resolution.choice.version),
            reference: text(|resolution| &resolution.choice.image),
        }
    }
}

/// The extension's wish as a question to the catalogs.
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

/// The catalogs as the resolver takes them.
pub(super) fn candidates(snapshot: &Snapshot) -> Vec<CandidateCatalog<'_>> {
    snapshot.catalogs.iter().map(candidate).collect()
}

/// A catalog as the resolver takes it.
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
            CatalogContent::Held(source) => CatalogState::Content(&**source),
        },
    }
}
