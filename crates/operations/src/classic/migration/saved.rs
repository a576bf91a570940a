//! A planned migration in a file, for `mainstay apply-plan` (MS-RB-04): the request, the plan, and the state of every object that it rests on.

use std::path::{Path, PathBuf};

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::preview::{FactRevision, moved};
use mainstay_olm_classic_core::migration::reference;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Planned, Request, observe};
use crate::progress::Progress;
use crate::session::Session;

/// The format of the file.
const FORMAT: &str = "mainstay.dev/migration-plan/v1";
/// Size limit of a file, in bytes.
const BYTES: u64 = 64 << 20;

/// A file with a planned migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedMigration {
    /// `mainstay.dev/migration-plan/v1`.
    format: String,
    /// The digest of the plan; it does not match if the file was edited.
    digest: String,
    /// The plan.
    plan: SavedPlan,
}

/// The plan in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedPlan {
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
        let plan = SavedPlan::of(request, backup, planned)?;
        let value = serde_json::to_value(&plan).map_err(|error| Failure::failed("plan", &error))?;
        Ok(Self { format: FORMAT.to_owned(), digest: digest(&value), plan })
    }

    /// Writes the file, which others cannot read.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let subject = || format!("plan {}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::failed(subject(), &error))?;
        mainstay_apiserver::access::write_private(path, (text + "\n").as_bytes()).map_err(|error| Failure::failed(subject(), &error))
    }

    /// Reads a file; `None` if it is no planned migration.
    ///
    /// # Errors
    /// It was edited.
    pub fn find(path: &Path) -> Result<Option<Self>, Failure> {
        let subject = || format!("plan {}", path.display());
        // Other mistakes in the file are told by the reader of the other kind of plan.
        if std::fs::metadata(path).map_or(true, |metadata| metadata.len() > BYTES) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(subject(), &error))?;
        let Ok(value) = serde_json::from_str::<Value>(&text) else { return Ok(None) };
        if value["format"] != FORMAT {
            return Ok(None);
        }
        let digest = digest(&value["plan"]);
        let saved: Self = serde_json::from_value(value).map_err(|error| Failure::failed(subject(), &error))?;
        if digest == saved.digest {
            return Ok(Some(saved));
        }
        Err(Failure::new(FailureKind::Impossible, subject(), "was changed after it was written; its digest does not fit")
            .hint("mainstay migrate ... --out FILE makes a new one"))
    }

    /// The request that was planned.
    pub fn request(&self) -> &Request {
        &self.plan.request
    }

    /// The file of the backup.
    pub fn backup(&self) -> &Path {
        &self.plan.backup
    }

    /// Plans the migration again from the cluster as it is.
    ///
    /// # Errors
    /// An object that the plan rests on has changed, with the file as its `subject`; or the migration is refused.
    pub async fn renewed(&self, session: &Session, subject: &str, progress: &mut dyn Progress) -> Result<Planned, Failure> {
        let moved_on = || Failure::new(FailureKind::Impossible, subject, "the cluster changed since the plan was saved; nothing was done");
        let hint = "mainstay migrate ... --out FILE makes a new one";
        let now = match observe(session, &self.plan.request, progress).await {
            Ok(now) => now,
            Err(failure) => return Err(moved_on().because(failure.to_line()).hint(hint)),
        };
        if let Some(refusal) = now.refusal() {
            return Err(refusal);
        }
        let differences = self.plan.differences(&SavedPlan::of(&self.plan.request, &self.plan.backup, &now)?);
        if differences.is_empty() {
            return Ok(now);
        }
        Err(differences.into_iter().fold(moved_on(), Failure::because).hint(hint))
    }
}

impl SavedPlan {
    fn of(request: &Request, file: &Path, planned: &Planned) -> Result<Self, Failure> {
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

fn digest(plan: &Value) -> String {
    Sha256::digest(plan.to_string().as_bytes()).iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}
