//! The update path of an extension: one bundle after the other, until the cluster is at rest (OLM1-UPG-07).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::Bundle;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::preview::Step;
use mainstay_lifecycle::revision::Record;
use mainstay_olm_v1_core::extension::facts::{Answer, Fact, Snapshot};
use mainstay_olm_v1_core::extension::plan::{self, Plan, Verdict};
use mainstay_olm_v1_core::extension::preview;
use serde_json::Value;

use super::{AssumedPermissions, ClusterView, ROUNDS};
use crate::facts::{self, extra};
use crate::failure::refused;
use crate::placement;
use crate::progress::Progress;

/// Maximum length of a path; only a catalog with a circle of update edges reaches it.
const STEPS: usize = 100;

/// The facts that a path reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Facts that the plan needs.
    Plan,
    /// Custom resources, too.
    Objects,
    /// Also the digests and sizes of every image.
    Everything,
}

/// One bundle of the path.
pub struct PlannedBundle {
    /// The preview of this bundle.
    pub step: Step,
    /// The plan.
    pub plan: Plan,
    /// The facts of a plan that is refused.
    pub refused: Option<Snapshot>,
}

impl ClusterView<'_> {
    /// Looks for the bundle that would be chosen, if there is one. Its content is requested before any object of the cluster is.
    pub async fn bundle(&mut self, extension: &ClusterExtension, progress: &mut dyn Progress) -> Result<Option<Arc<Bundle>>, Failure> {
        let mut snapshot = self.begin(extension, &AssumedPermissions::All).await?;
        for _ in 0..ROUNDS {
            match plan::plan(&snapshot) {
                Answer::Ready(_) => break,
                Answer::Need(facts) if facts.iter().any(|fact| matches!(fact, Fact::Live(_))) => break,
                Answer::Need(facts) => self.fetch(&mut snapshot, facts, progress).await,
            }
        }
        let package = extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.clone()).unwrap_or_default();
        let mut held = snapshot.known.bundles.values().filter_map(|bundle| bundle.as_ref().ok());
        Ok(held.clone().find(|bundle| bundle.package == package).or_else(|| held.next()).cloned())
    }

    /// Plans one bundle after the other, until the cluster is at rest (OLM1-UPG-07).
    pub async fn path(
        &mut self,
        extension: &ClusterExtension,
        permissions: &AssumedPermissions,
        depth: Depth,
        progress: &mut dyn Progress,
    ) -> Result<Vec<PlannedBundle>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        progress.doing(&format!("{name}: plan"));
        let mut snapshot = self.begin(extension, permissions).await?;
        let mut path: Vec<PlannedBundle> = Vec::new();
        while path.len() < STEPS {
            let plan = self.ready(&mut snapshot, progress).await?;
            if path.is_empty() && depth != Depth::Plan {
                self.note_facts(&snapshot, &plan, permissions);
            }
            let rests = plan.verdict == Verdict::Reached && !matches!(plan.action, Action::Install | Action::Upgrade);
            if rests && !path.is_empty() {
                break;
            }
            if depth != Depth::Plan {
                self.look_at_served(progress).await;
                let unlooked = preview::unlooked(&snapshot, &plan);
                if !unlooked.is_empty() {
                    self.fetch(&mut snapshot, unlooked, progress).await;
                }
                let wanted = preview::wanted(&snapshot, &plan);
                extra(self.session, &self.client, wanted, depth == Depth::Everything, &mut self.extra, progress).await;
            }
            let mut step = preview::step(&snapshot, &plan, &self.extra);
            step.warnings.extend(placement::unplaced(&plan, &self.nodes));
            self.look_at_namespaces(&plan).await;
            step.warnings.extend(placement::stopped(&plan, &self.unanswered, &self.namespaces));
            step.warnings.extend(self.simulation.iter().flat_map(|simulation| placement::stopping(&plan, simulation)));
            let refused = (depth != Depth::Plan && step.problem.is_some()).then(|| snapshot.clone());
            let next = preview::advance(snapshot, &plan);
            path.push(PlannedBundle { step, plan, refused });
            match next {
                Some(next) => snapshot = next,
                None => break,
            }
        }
        Ok(path)
    }

    /// Reads the labels of the namespaces of a plan's workloads, for webhooks that select by them.
    async fn look_at_namespaces(&mut self, plan: &Plan) {
        if self.unanswered.is_empty() {
            return;
        }
        let namespaces: Api<Namespace> = Api::all(self.session.client.clone());
        for name in placement::namespaces(plan) {
            if self.namespaces.contains_key(&name) {
                continue;
            }
            let labels = match namespaces.get_metadata_opt(&name).await {
                Ok(Some(found)) => found.metadata.labels.unwrap_or_default(),
                // The change creates the namespace, with the label that every namespace has.
                Ok(None) => BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.clone())]),
                Err(error) => {
                    let problem = refused(format!("namespace {name}"), &error).to_line();
                    self.notes.push(format!("whether webhooks stop pods in namespace {name} was not checked: {problem}"));
                    continue;
                }
            };
            self.namespaces.insert(name, labels);
        }
    }

    /// Asks the server once which kinds it serves.
    async fn look_at_served(&mut self, progress: &mut dyn Progress) {
        if self.extra.served.is_some() || self.silent {
            return;
        }
        progress.doing("look at what the cluster serves");
        let found = facts::served(&self.observer()).await;
        match found {
            Ok(served) => self.extra.served = Some(served),
            Err(problem) => {
                self.silent = true;
                self.notes.push(format!("which kinds the cluster serves is not known: {problem}"));
            }
        }
    }
}

/// Returns the objects of the record that a plan leaves.
pub fn objects(record: Option<&Record>) -> Vec<Value> {
    record.map(|record| record.objects.clone()).unwrap_or_default()
}
