//! Plans of changes as people see them before they happen (MS-PLAN-01), made with the controller's own function from what this user sees.
//!
//! ```text
//!   Change ──make──► the extension as it will be, the account and rights that come with it
//!                      │ World: catalogs, roles, live objects, bundles ── observe / plan, as the controller (MS-PLAN-02)
//!                      ▼
//!                    Planned ──┬── show      for people         ├── verify    dry run, step by step (MS-PLAN-03)
//!                              ├── saved     a file, applied later unless the world has moved on
//!                              └── carry     done
//! ```

pub mod advice;
mod carry;
mod change;
mod choices;
mod facts;
mod make;
mod placement;
mod saved;
pub mod settings;
mod show;
mod verify;
pub mod world;

use mainstay_lifecycle::change::PlannedStep as ClusterStep;
use mainstay_lifecycle::preview::{FactRevision, Preview};
use mainstay_objects::ObjectRef;
use serde_json::Value;

use crate::commands::rollback::Way;
use crate::errors::{Exit, Failure};

pub use carry::carry_out;
pub use change::{Change, CrdSafety, InstallWish, Rights};
pub use make::{Granted, INSTALLER_LABEL, labelled, plan};
pub use saved::{Saved, compare};
pub use show::{painted, painted_lines, show};
pub use verify::verify;

/// A change that was planned.
pub struct Planned {
    /// What was asked.
    pub change: Change,
    /// What people see.
    pub preview: Preview,
    /// What the command itself writes.
    pub writes: Vec<Write>,
    /// What the cluster does, bundle by bundle.
    pub path: Vec<Vec<ClusterStep>>,
    /// The objects of the last bundle.
    pub objects: Vec<Value>,
    /// The account that touches them: namespace and name.
    pub account: (String, String),
    /// The facts that the plan rests on.
    pub revisions: Vec<Revision>,
    /// What was decided where nobody said it, and why.
    pub choices: Vec<String>,
    /// What could not be looked at.
    pub notes: Vec<String>,
    /// The verdict about a way back.
    pub rollback: Option<Way>,
}

/// Something that a command writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Made unless it is there.
    Once(Value),
    /// Made; it must not be there.
    Create(Value),
    /// Applied.
    Apply(Value),
    /// Patched: the patch, and what it leads to.
    Patch(ObjectRef, Value),
}

impl Planned {
    /// The bundle that stays.
    pub fn bundle(&self) -> Option<&str> {
        self.preview.steps.last()?.bundle.as_ref().map(|bundle| bundle.name.as_str())
    }

    /// Why it cannot be done, as a failure with its exit code.
    pub fn refusal(&self) -> Option<Failure> {
        let step = self.preview.steps.iter().find(|step| step.problem.is_some())?;
        let problem = step.problem.as_ref()?;
        let package = self.change.package();
        let exit = if problem.unknown_package { Exit::NotFound } else { Exit::Impossible };
        let subject = match (problem.unknown_package, package) {
            (true, Some(package)) => format!("package {package}"),
            _ => format!("clusterextension {}", self.preview.extension),
        };
        let failure = Failure::new(exit, subject, problem.message.clone());
        let failure = problem.causes.iter().fold(failure, |failure, cause| failure.because(cause.as_str()));
        Some(problem.hints.iter().fold(failure, |failure, hint| failure.hint(hint.as_str())))
    }
}
