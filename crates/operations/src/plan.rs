//! Plans of changes, shown before they happen (MS-PLAN-01). The controller's own function makes them from what this user can see.
//!
//! ```text
//!   Change ──► the extension as it will be, the account and permissions that come with it ──► ClusterView::path ──► Planned
//! ```

mod choices;
mod dependencies;
mod install;
pub(crate) mod installer;
mod object;
mod pin;
mod refusal;
mod rollback;
mod uninstall;
mod upgrade;

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::change::PlannedStep as ClusterStep;
use mainstay_lifecycle::preview::written;
use mainstay_lifecycle::preview::{FactRevision, Kind, Preview};
use mainstay_merge::merge_patch;
use mainstay_objects::{Expect, ObjectRef, Patch, Step};
use mainstay_olm_v1_core::extension::account_name;
use serde_json::Value;

use crate::change::Change;
use crate::extensions::reference;
use crate::progress::Progress;
use crate::rollback::RollbackVerdict;
use crate::session::Session;
use crate::uninstall::Removal;
use crate::view::{ClusterView, Depth, PlannedBundle, objects};
use upgrade::UpgradeRequest;

/// A planned change.
pub struct Planned {
    /// The requested change.
    pub change: Change,
    /// The preview for people.
    pub preview: Preview,
    /// The steps that this user writes.
    pub writes: Vec<Step>,
    /// The steps that this user writes when the last bundle is installed.
    pub afterwards: Vec<Step>,
    /// The steps that the cluster does, bundle by bundle.
    pub path: Vec<Vec<ClusterStep>>,
    /// The objects of the last bundle.
    pub objects: Vec<Value>,
    /// The account that writes them: namespace and name.
    pub account: (String, String),
    /// The facts that the plan rests on.
    pub revisions: Vec<FactRevision>,
    /// Decisions that the request left open, with their reasons.
    pub choices: Vec<String>,
    /// Notes about what could not be read.
    pub notes: Vec<String>,
    /// The verdict about a rollback.
    pub rollback: Option<RollbackVerdict>,
    /// The removal, with what it keeps.
    pub removal: Option<Removal>,
}

impl Planned {
    /// Returns the bundle that is installed at the end.
    pub fn bundle(&self) -> Option<&str> {
        self.preview.steps.last()?.bundle.as_ref().map(|bundle| bundle.name.as_str())
    }

    /// Returns the reason why the change cannot be applied, if there is one.
    pub fn refusal(&self) -> Option<Failure> {
        let step = self.preview.steps.iter().find(|step| step.problem.is_some())?;
        let problem = step.problem.as_ref()?;
        let package = self.change.package();
        let kind = if problem.unknown_package { FailureKind::NotFound } else { FailureKind::Impossible };
        let subject = match (problem.unknown_package, package) {
            (true, Some(package)) => format!("package {package}"),
            _ => format!("clusterextension {}", self.preview.subject),
        };
        let failure = Failure::new(kind, subject, problem.message.clone());
        let failure = problem.causes.iter().fold(failure, |failure, cause| failure.because(cause.as_str()));
        Some(problem.hints.iter().fold(failure, |failure, hint| failure.hint(hint.as_str())))
    }

    /// Returns whether the change leaves the cluster as it is, or repairs what is installed.
    pub fn stays(&self) -> bool {
        self.preview.steps.iter().all(|step| matches!(step.kind, Kind::Nothing | Kind::Repair))
    }
}

/// Plans a change; with `sizes`, it asks registries for the size of every image.
pub async fn plan(session: &Session, change: &Change, sizes: bool, progress: &mut dyn Progress) -> Result<Planned, Failure> {
    let depth = if sizes { Depth::Everything } else { Depth::Objects };
    let mut planner = Planner { view: Box::pin(ClusterView::open(session, progress)).await?, depth, progress };
    match change {
        Change::Install(request) => Box::pin(planner.install(change, request)).await,
        Change::Upgrade { name, version, channels, grant, crd_safety } => {
            let request = UpgradeRequest { version: version.as_deref(), channels, grant: *grant, crd_safety: *crd_safety };
            Box::pin(planner.upgrade(change, name, request)).await
        }
        Change::Rollback { name, to, force } => Box::pin(planner.rollback(change, name, to, *force)).await,
        Change::Pin { name } => Box::pin(planner.pin(change, name)).await,
        Change::Uninstall { name, choices } => Box::pin(planner.uninstall(change, name, *choices)).await,
        Change::Object { extension, with } => Box::pin(planner.object(change, extension, with)).await,
    }
}

/// A plan that is being made.
struct Planner<'s, 'p> {
    view: ClusterView<'s>,
    depth: Depth,
    progress: &'p mut dyn Progress,
}

impl Planner<'_, '_> {
    async fn existing(&mut self, name: &str) -> Result<Value, Failure> {
        let found = self.view.look(&reference(name)).await?;
        found.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, format!("clusterextension {name}"), "not found")
                .hint("mainstay list shows what is installed")
        })
    }

    async fn planned(
        &mut self,
        change: &Change,
        extension: &ClusterExtension,
        writes: Vec<Step>,
        installer_permissions: Vec<String>,
        mut path: Vec<PlannedBundle>,
    ) -> Result<Planned, Failure> {
        self.advise(change, &mut path).await;
        let mut shown = Vec::new();
        for write in &writes {
            let (target, wanted) = match write {
                Step::CreateOnce(object) | Step::Create(object) | Step::Apply { object, .. } => {
                    let target = ObjectRef::of(object).map_err(|error| Failure::failed("plan", &error))?;
                    (target, object.clone())
                }
                Step::Patch { object, patch: Patch::Merge(patch), .. } => (object.clone(), patch.clone()),
                // A plan writes nothing else.
                _ => continue,
            };
            let live = self.view.look(&target).await?;
            shown.push(match (write, &live) {
                (Step::CreateOnce(_), Some(_)) => written(&target, &Value::Object(serde_json::Map::new()), live.as_ref()),
                _ => written(&target, &wanted, live.as_ref()),
            });
        }
        let applicable = path.iter().all(|bundle| bundle.step.problem.is_none());
        let objects = objects(path.last().and_then(|bundle| bundle.plan.record.as_deref()));
        let steps = path.iter().map(|bundle| bundle.step.clone()).collect();
        let preview = Preview {
            subject: change.extension().to_owned(),
            applicable,
            writes: shown,
            installer_permissions,
            steps,
            ..Preview::default()
        };
        Ok(Planned {
            change: change.clone(),
            preview,
            writes,
            afterwards: Vec::new(),
            path: path.into_iter().map(|bundle| bundle.plan.steps).collect(),
            objects,
            account: (extension.spec.namespace.clone(), account_name(extension).to_owned()),
            revisions: self.view.revisions(),
            choices: Vec::new(),
            notes: self.view.notes.clone(),
            rollback: None,
            removal: None,
        })
    }
}

/// Returns a server-side apply that takes fields from other field managers.
fn apply_step(object: Value) -> Step {
    Step::Apply { object, force: true, expect: Expect::default() }
}

/// Returns a merge patch of an extension.
fn patch_step(name: &str, patch: Value) -> Step {
    Step::Patch { object: reference(name), subresource: String::new(), patch: Patch::Merge(patch) }
}

fn merged(mut live: Value, patch: &Value) -> Value {
    merge_patch(&mut live, patch);
    live
}

fn read(object: &Value) -> Result<ClusterExtension, Failure> {
    serde_json::from_value(object.clone()).map_err(|error| Failure::failed("clusterextension", &error))
}
