//! A planned migration in a file, for `mainstay apply-plan` (MS-RB-04): the request, the plan, and the state of every object that it rests on.

use std::path::{Path, PathBuf};

use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::{FactRevision, moved};
use mainstay_olm_classic_core::migration::reference;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Planned, Request, observe};
use crate::plan_file;
use crate::progress::Progress;
use crate::session::Session;

/// The format of the file.
const FORMAT: &str = "mainstay.dev/migration-plan/v1";
/// The command that makes a new one.
const AGAIN: &str = "mainstay migrate ... --out FILE";

/// A planned migration, as a file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedMigration {
    /// The request.
    request: Request,
    /// The file of the backup.
    backup: PathBuf,
    /// The identity of the cluster.
    cluster: String,
    /// The plan as it was shown.
    migration: Value,
    /// The ClusterExtension that is created.
    extension: Value,
    /// The objects that it rests on.
    revisions: Vec<FactRevision>,
}

impl SavedMigration {
    /// A plan in the format of a file.
    ///
    /// # Errors
    /// The migration is refused, so there is nothing to save.
    pub fn of(request: &Request, backup: &Path, planned: &Planned) -> Result<Self, Failure> {
        if let Some(refusal) = planned.refusal() {
            return Err(refusal);
        }
        Self::from_plan(request, backup, planned)
    }

    /// Writes the file, which others cannot read.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        plan_file::write(FORMAT, self, path)
    }

    /// Reads a file; `None` if it is no planned migration.
    ///
    /// # Errors
    /// It was edited.
    pub fn find(path: &Path) -> Result<Option<Self>, Failure> {
        plan_file::find(FORMAT, path, AGAIN)
    }

    /// The request that was planned.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The file of the backup.
    pub fn backup(&self) -> &Path {
        &self.backup
    }

    /// Plans the migration again from the cluster as it is.
    ///
    /// # Errors
    /// An object that the plan rests on has changed, with the file as its `subject`; or the migration is refused.
    pub async fn renewed(&self, session: &Session, subject: &str, progress: &mut dyn Progress) -> Result<Planned, Failure> {
        let now = match observe(session, &self.request, progress).await {
            Ok(now) => now,
            Err(failure) => return Err(plan_file::moved_on(subject, [failure.to_line()], AGAIN)),
        };
        if let Some(refusal) = now.refusal() {
            return Err(refusal);
        }
        let differences = self.differences(&Self::from_plan(&self.request, &self.backup, &now)?);
        if differences.is_empty() {
            return Ok(now);
        }
        Err(plan_file::moved_on(subject, differences, AGAIN))
    }

    fn from_plan(request: &Request, file: &Path, planned: &Planned) -> Result<Self, Failure> {
        let backup = &planned.backup;
        let single = [&backup.subscription, &backup.csv, &backup.group, &backup.condition];
        let all = single.into_iter().chain(&backup.owned).chain(&backup.definitions).filter(|object| !object.is_null());
        let revisions = all.map(|object| FactRevision::object(reference(object).to_string(), Some(object)));
        Ok(Self {
            request: request.clone(),
            backup: file.to_owned(),
            cluster: backup.cluster.clone(),
            migration: serde_json::to_value(&planned.migration).map_err(|error| Failure::failed("plan", &error))?,
            extension: backup.extension.clone(),
            revisions: revisions.collect(),
        })
    }

    /// The differences, one line each.
    fn differences(&self, now: &Self) -> Vec<String> {
        if self.cluster != now.cluster {
            return vec!["the plan is of another cluster".to_owned()];
        }
        let mut lines = moved(&self.revisions, &now.revisions);
        if lines.is_empty() && (self.migration != now.migration || self.extension != now.extension) {
            lines.push("the plan: what OLM v1 would make of the operator is otherwise now".to_owned());
        }
        lines
    }
}
