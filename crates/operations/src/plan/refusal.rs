//! Refusals, with tried remedies against them.

use mainstay_olm_v1_core::extension::dependencies;

use super::Planner;
use crate::advice;
use crate::change::Change;
use crate::view::PlannedBundle;

impl Planner<'_, '_> {
    /// Replaces the hints that the plan supposes by tried remedies, as commands.
    pub(super) async fn advise(&mut self, change: &Change, path: &mut [PlannedBundle]) {
        let Some(bundle) = path.last_mut() else { return };
        let Some(snapshot) = bundle.refused.take() else { return };
        let package = snapshot.extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.clone()).unwrap_or_default();
        let hints = Box::pin(advice::hints(&mut self.view, change, snapshot, bundle.plan.clone(), self.progress)).await;
        let Some(problem) = &mut bundle.step.problem else { return };
        // The install itself decides about its offer in place of the policy; a command that only shows something needs no trial.
        let policy = dependencies::following(&package);
        let shows = |hint: &String| hint.starts_with("mainstay graph ");
        let install = matches!(change, Change::Install(_));
        problem.hints.retain(|hint| (install && *hint == policy) || (hints.is_empty() && shows(hint)));
        if problem.unknown_package && hints.is_empty() {
            problem.hints.push("mainstay catalog search shows the packages that there are".to_owned());
        }
        problem.hints.extend(hints.iter().map(|(command, what)| format!("{command} {what}")));
        problem.tried = hints;
    }
}
