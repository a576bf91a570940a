//! The checks before anything is written: permissions of the account, live objects, owners, CRDs.

use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::preflight::{self, Checked, Needs, Permission};
use mainstay_lifecycle::revision::{History, Record};
use mainstay_lifecycle::{LiveObjects, Reason as Lifecycle, object};
use mainstay_objects::ObjectRef;
use mainstay_rbac::{PolicyIndex, UserInfo};
use serde_json::Value;

use super::super::facts::Fact;
use super::{Planner, Reason, Stop, Verdict, account_name, crd_findings};

/// The permissions that an account lacks to install, keep and remove `objects` for an extension (OLM1-PERM-09..14).
pub fn lacking(policy: &PolicyIndex, user: &UserInfo, extension: &str, objects: &[Value]) -> preflight::Report {
    let finalizers =
        Permission { verb: "update", group: "olm.operatorframework.io", resource: "clusterextensions/finalizers", name: extension };
    preflight::permissions(policy, user, Needs { purpose: "manage cluster extension", besides: &[finalizers] }, objects)
}

impl Planner<'_> {
    pub(super) fn permitted(&self, objects: &[Value]) -> Result<(), Stop> {
        let extension = &*self.snapshot.extension;
        if !self.snapshot.gates.on("PreflightPermissions") || self.snapshot.ignore_service_account {
            return Ok(());
        }
        let Some(policy) = &self.snapshot.known.policy else {
            return Err(Stop::Need(vec![Fact::Policy]));
        };
        let user = UserInfo::service_account(&extension.spec.namespace, account_name(extension));
        let report = lacking(policy, &user, &self.owner().name, objects);
        if report.is_empty() { Ok(()) } else { Err(self.fail(Lifecycle::Permissions(report))) }
    }

    /// The live objects of everything that is applied or deleted.
    pub(super) fn live(&self, record: &Record, gone: &[ObjectRef]) -> Result<LiveObjects<'_>, Stop> {
        let targets = record.objects.iter().map(object::place).chain(gone.iter().cloned());
        Ok(LiveObjects::of(&self.snapshot.known.live, targets)?)
    }

    /// Runs the checks: returns warnings, or the obstacle that forbids the change.
    pub(super) fn checked(&self, action: &Action, history: &History, record: &Record, live: LiveObjects<'_>) -> Result<Vec<String>, Stop> {
        let (crd_findings, complaint) = crd_findings(&self.snapshot.extension, &record.bundle.name);
        let (owner, waits_for_kinds) = (self.owner(), self.waits_for_others());
        let change = Checked { action, record, history, live, owner: &owner, crd_findings, waits_for_kinds };
        let complaints = |told: Vec<String>| complaint.into_iter().chain(told).collect::<Vec<_>>();
        match preflight::checked(&change) {
            Ok(told) => Ok(complaints(told)),
            Err(obstacle) if matches!(obstacle.reason, Lifecycle::UnsafeCrds(_)) => {
                let reason = Reason::from(obstacle.reason).of_bundle(self.resolution.as_ref());
                Err(self.advised(Verdict::Retrying(reason), complaints(obstacle.warnings)))
            }
            Err(obstacle) => Err(self.fail(obstacle.reason)),
        }
    }

    /// Returns true if other extensions have to install something first; their CRDs come with them.
    fn waits_for_others(&self) -> bool {
        self.dependencies.as_ref().is_some_and(|needs| !needs.missing.is_empty() || !needs.waits.is_empty())
    }
}
