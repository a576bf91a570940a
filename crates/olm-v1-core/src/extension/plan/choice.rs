//! The choice of the bundle: the extension's request to the catalogs, and the content of the bundle that they answer with.

use std::sync::Arc;

use mainstay_bundle::Bundle;
use mainstay_lifecycle::revision::{InstalledBundle, Revision};
use mainstay_resolver::{CandidateCatalog, RefusalKind, Request, Resolution, resolve};
use serde_json::json;

use super::super::dependencies::{joins, together, wanting};
use super::super::facts::{BundleImage, CatalogContent, Fact};
use super::super::request::{candidates, request};
use super::super::supported;
use super::{ContentError, Plan, Planner, Reason, Stop, Verdict};

impl Planner<'_> {
    /// Chooses the bundle: alone, as upstream does, or together with the other extensions if a policy says so (OLM1-INST-04).
    pub(super) fn choose(&mut self, installed: Option<&Revision>) -> Result<(), Stop> {
        let snapshot = self.snapshot;
        let Some(request) = request(&snapshot.extension, installed) else {
            return Err(self.stop(Verdict::Retrying(Reason::NoSource)));
        };
        let catalogs = candidates(&snapshot.catalogs);
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
        // An API that seems to be missing may exist without any extension.
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

    /// The plan that ends with this verdict, and with advice.
    pub(super) fn advised(&self, verdict: Verdict, warnings: Vec<String>) -> Stop {
        Stop::Plan(Box::new(Plan { warnings, ..self.report(verdict) }))
    }

    /// The bundle's content. A dependency is refused, as upstream does, before anything is pulled (OLM1-INST-04).
    pub(super) fn bundle(&self) -> Result<Arc<Bundle>, Stop> {
        let Some(resolution) = &self.resolution else {
            return Err(self.stop(Verdict::Retrying(Reason::NothingResolved)));
        };
        let choice = &resolution.choice;
        let dependency =
            self.snapshot.catalogs.iter().find(|catalog| catalog.name == choice.catalog).and_then(|catalog| match &catalog.content {
                CatalogContent::Served(source) => {
                    let facts = source.package(&choice.package)?;
                    let bundle = facts.bundles.iter().find(|bundle| bundle.name == choice.bundle)?;
                    bundle.dependency.map(|kind| json!({"type": kind}))
                }
                _ => None,
            });
        if self.dependencies.is_none() {
            supported::check_dependencies(&choice.bundle, dependency.iter()).map_err(|refusal| self.fail(ContentError::from(refusal)))?;
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
