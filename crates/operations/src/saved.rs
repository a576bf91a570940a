//! Plans in files (MS-PLAN-02): the request, the preview, and the revision of every fact that the plan rests on, with a digest of it all.

use std::path::Path;

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::preview::{FactRevision, Preview, Step, moved};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::Change;
use crate::plan::{Planned, plan};
use crate::plan_file::{self, digest};
use crate::progress::Progress;
use crate::session::Session;

/// The format of the file.
const FORMAT: &str = "mainstay.dev/plan/v1";
/// The command that makes a new one.
const AGAIN: &str = "mainstay plan";
/// Size limit of a file, in bytes.
const BYTES: u64 = 64 << 20;

/// A file with plans.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPlans {
    /// `mainstay.dev/plan/v1`.
    pub format: String,
    /// The digest of the plans; it does not match if the file was edited.
    pub digest: String,
    /// The plans; at least one.
    pub plans: Vec<SavedPlan>,
}

/// A plan in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPlan {
    /// The requested change.
    pub change: Change,
    /// The preview that was shown.
    pub preview: Preview,
    /// The facts that it rests on.
    pub revisions: Vec<FactRevision>,
}

impl SavedPlans {
    /// Returns the plans in the format of a file.
    pub fn of(planned: &[Planned]) -> Result<Self, Failure> {
        let plans: Vec<SavedPlan> = planned
            .iter()
            .map(|one| SavedPlan { change: one.change.clone(), preview: one.preview.clone(), revisions: one.revisions.clone() })
            .collect();
        let value = serde_json::to_value(&plans).map_err(|error| Failure::failed("plan", &error))?;
        Ok(Self { format: FORMAT.to_owned(), digest: digest(&value), plans })
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let subject = || format!("plan {}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::failed(subject(), &error))?;
        // A plan shows the content of Secrets.
        mainstay_apiserver::access::write_private(path, (text + "\n").as_bytes()).map_err(|error| Failure::failed(subject(), &error))
    }

    /// Reads a file; refuses one that was edited.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let subject = || format!("plan {}", path.display());
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed(subject(), error);
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::new(FailureKind::NotFound, subject(), "no such file or directory"),
            _ => failed(&error),
        })?;
        if metadata.len() > BYTES {
            return Err(Failure::new(FailureKind::Failed, subject(), format!("has more than {BYTES} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let format = value["format"].as_str().unwrap_or_default();
        if format != FORMAT {
            return Err(Failure::new(
                FailureKind::Failed,
                subject(),
                format!("is no saved plan: its format is {format:?}, not {FORMAT:?}"),
            )
            .hint("mainstay plan ... --out FILE writes one"));
        }
        // Of the text as it stands: what another version of this program wrote may read otherwise here.
        let digest = digest(&value["plans"]);
        let saved: Self = serde_json::from_value(value).map_err(|error| failed(&error))?;
        if digest != saved.digest {
            return Err(Failure::new(FailureKind::Impossible, subject(), "was changed after it was written; its digest does not fit")
                .hint("mainstay plan ... --out FILE makes a new one"));
        }
        Ok(saved)
    }
}

impl SavedPlan {
    /// Plans the change again from the cluster as it is. Fails, with the file as its `subject`, if a fact that the saved plan rests on has
    /// changed, or if the change cannot be applied.
    pub async fn renewed(&self, session: &Session, subject: &str, progress: &mut dyn Progress) -> Result<Planned, Failure> {
        let now = match plan(session, &self.change, false, progress).await {
            Ok(now) => now,
            // An object that existed when the change was planned is gone, or the other way round.
            Err(failure) => return Err(plan_file::moved_on(subject, [failure.to_line()], AGAIN)),
        };
        let differences = self.differences(&now);
        if !differences.is_empty() {
            return Err(plan_file::moved_on(subject, differences, AGAIN));
        }
        match now.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(now),
        }
    }

    /// Returns the changes since the plan was saved, one line per fact; empty if the plan is still the same.
    fn differences(&self, now: &Planned) -> Vec<String> {
        let mut lines = moved(&self.revisions, &now.revisions);
        if lines.is_empty() {
            // If all facts are unchanged, so is the plan, unless another version of this program saved it and decided otherwise.
            let told = |preview: &Preview| preview.steps.iter().map(essence).collect::<Vec<_>>();
            if told(&self.preview) != told(&now.preview) {
                lines.push("the plan: this version of mainstay decides otherwise than the one that saved it".to_owned());
            }
        }
        lines
    }
}

/// Returns a step without the parts that only inform people.
fn essence(step: &Step) -> Step {
    Step { images: Vec::new(), verification: Vec::new(), warnings: Vec::new(), custom_resource_definitions: Vec::new(), ..step.clone() }
}
