//! A planned update of the cluster in a file, for `mainstay apply-plan` (MS-PLAN-02).

use std::collections::BTreeMap;
use std::path::Path;

use mainstay_cluster_update::{Allowances, Asked, Screen, request};
use mainstay_cluster_version_core::readiness::{Check, Finding, Level};
use mainstay_diagnostics::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Assessment;
use crate::cluster_update::{cluster_version, patch};
use crate::plan_file;
use crate::session::Session;

/// The format of the file.
const FORMAT: &str = "mainstay.dev/cluster-update-plan/v1";
/// The command that makes a new one.
const AGAIN: &str = "mainstay plan cluster-update --out FILE";
/// The most differences that are told.
const MOST: usize = 10;

/// The update that was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The version.
    pub to: String,
    /// The place of its release, if it was named.
    pub release: Option<String>,
    /// The place of the cluster's release, if it was named.
    pub current: Option<String>,
    /// The cluster profile.
    pub profile: String,
    /// The pull spec of the release in the cluster.
    pub image: String,
    /// The cluster's identity.
    pub cluster: String,
}

/// A planned update, as a file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedUpdate {
    update: Update,
    /// The effect on each object, by file and object.
    objects: BTreeMap<String, Value>,
    /// The findings that were shown.
    findings: Vec<String>,
    /// True if the risks of the update were among them.
    risky: bool,
}

impl SavedUpdate {
    /// A plan in the format of a file.
    ///
    /// # Errors
    /// Something blocks the update, so that there is nothing to save.
    pub fn of(update: Update, assessed: &Assessment) -> Result<Self, Failure> {
        let subject = format!("update to {}", update.to);
        let findings = &assessed.report.findings;
        if let Some(finding) = findings.iter().find(|finding| finding.level == Level::Blocks) {
            return Err(Failure::new(FailureKind::Impossible, subject, told(finding)));
        }
        let Some(plan) = &assessed.plan else {
            return Err(Failure::new(FailureKind::Failed, subject, "cannot be planned without the content of both releases"));
        };
        let failed = |error: serde_json::Error| Failure::failed("plan", &error);
        let objects = plan.groups.iter().flat_map(|group| &group.objects);
        let objects = objects.map(|object| Ok((format!("{} {}", object.file, object.id), serde_json::to_value(&object.effect)?)));
        let objects = objects.collect::<Result<_, _>>().map_err(failed)?;
        let risky = findings.iter().any(|finding| finding.check == Check::ConditionalRisks);
        Ok(Self { update, objects, findings: findings.iter().map(told).collect(), risky })
    }

    /// Writes the file, which others cannot read.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        plan_file::write(FORMAT, self, path)
    }

    /// Reads a file; `None` if it is no planned update.
    ///
    /// # Errors
    /// It was edited.
    pub fn find(path: &Path) -> Result<Option<Self>, Failure> {
        plan_file::find(FORMAT, path, AGAIN)
    }

    /// The update.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// Compares it with the same plan as it would be made now.
    ///
    /// # Errors
    /// The plan is of another cluster, an object or a finding is otherwise; `subject` is the file.
    pub fn check(&self, now: &Self, subject: &str) -> Result<(), Failure> {
        let lines = self.differences(now);
        if lines.is_empty() { Ok(()) } else { Err(plan_file::moved_on(subject, lines, AGAIN)) }
    }

    fn differences(&self, now: &Self) -> Vec<String> {
        if self.update.cluster != now.update.cluster {
            return vec!["the plan is of another cluster".to_owned()];
        }
        let mut lines = Vec::new();
        if self.update.image != now.update.image {
            lines.push(format!("the release {} is {} now, and was {}", self.update.to, now.update.image, self.update.image));
        }
        let names = self.objects.keys().chain(now.objects.keys().filter(|name| !self.objects.contains_key(*name)));
        lines.extend(
            names
                .filter(|name| self.objects.get(*name) != now.objects.get(*name))
                .map(|name| format!("{name}: the effect on it is otherwise")),
        );
        lines.extend(now.findings.iter().filter(|finding| !self.findings.contains(finding)).cloned());
        let more = lines.len().saturating_sub(MOST);
        lines.truncate(MOST);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// Asks the cluster for the update, as `adm upgrade --to` does. The risks that the plan showed are accepted with it.
    ///
    /// # Errors
    /// The cluster does not offer it, or refuses it.
    pub async fn request(&self, session: &Session) -> Result<Screen, Failure> {
        let subject = format!("update to {}", self.update.to);
        let Some(live) = cluster_version(session).await? else {
            return Err(Failure::new(FailureKind::NotFound, "clusterversion version", "not found"));
        };
        let offered =
            ["availableUpdates", "conditionalUpdates"].iter().flat_map(|field| live["status"][field].as_array().into_iter().flatten());
        let is_it = |one: &Value| one["version"] == *self.update.to || one["release"]["version"] == *self.update.to;
        let is_offered = offered.into_iter().any(is_it);
        let asked = Asked {
            to: is_offered.then(|| self.update.to.clone()),
            to_image: (!is_offered).then(|| self.update.image.clone()),
            allow: Allowances { explicit_upgrade: !is_offered, not_recommended: self.risky, ..Allowances::default() },
            ..Asked::default()
        };
        let screen = request(&asked, &live).map_err(|refusal| Failure::of(FailureKind::Impossible, &*subject, &refusal))?;
        if let Some(wanted) = screen.patch.clone() {
            patch(session, wanted).await?;
        }
        Ok(screen)
    }
}

/// A finding without the time of its beginning.
fn told(finding: &Finding) -> String {
    format!("{} {}: {}: {}", finding.level, finding.check.name(), finding.object, finding.evidence)
}
