//! What must hold before anything is written: rights, live objects, owners, CRDs.

use std::collections::{BTreeSet, HashMap};

use mainstay_objects::ObjectRef;
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};

use super::super::facts::{Fact, Live};
use super::super::record::{History, Record, State};
use super::super::{object, permissions};
use super::crd_safety::{compared, crd_findings};
use super::steps::vanished;
use super::{Action, Planner, Reason, Stop, UnsafeCrd, Verdict, account_name};

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
        let report = permissions::check(policy, &user, &self.owner().name, objects);
        if report.is_empty() { Ok(()) } else { Err(self.fail(Reason::Permissions(report))) }
    }

    /// The live objects of everything that is applied or deleted.
    pub(super) fn live(&self, record: &Record, gone: &[ObjectRef]) -> Result<LiveObjects<'_>, Stop> {
        let targets: Vec<ObjectRef> = record.objects.iter().map(object::place).chain(gone.iter().cloned()).collect();
        let known = &self.snapshot.known.live;
        let missing: BTreeSet<&ObjectRef> = targets.iter().filter(|target| !known.contains_key(target)).collect();
        if missing.is_empty() { Ok(LiveObjects { known }) } else { Err(Stop::Need(missing.into_iter().cloned().map(Fact::Live).collect())) }
    }

    /// Nothing is written before all of this holds: kinds are served, objects can be read and are free or the extension's own
    /// (OLM1-OWN-03), and CRDs change without losing data (OLM1-CRD-01). Returns warnings.
    pub(super) fn checked(&self, action: &Action, record: &Record, live: &LiveObjects<'_>) -> Result<Vec<String>, Stop> {
        let owner = self.owner();
        let (findings, complaint) = crd_findings(&self.snapshot.extension, &record.bundle.name);
        let (mut warnings, mut unsafe_changes): (Vec<String>, Vec<UnsafeCrd>) = (complaint.into_iter().collect(), Vec::new());
        for object in &record.objects {
            let target = object::place(object);
            match live.get(&target) {
                Live::Absent => {}
                Live::NotServed if brought_along(&target, &record.objects) || self.waits_for_others() => {}
                Live::NotServed => return Err(self.fail(Reason::NotServed(target))),
                Live::Unreadable(problem) => return Err(self.fail(Reason::Unreadable { object: target, problem: problem.clone() })),
                Live::Present(found) => {
                    if let Err(refusal) = owner.check(found)
                        && !self.was_applied(&target, found)
                    {
                        return Err(self.fail(refusal));
                    }
                    if target.kind == "CustomResourceDefinition" && matches!(action, Action::Install | Action::Upgrade) {
                        match compared(findings, found, object) {
                            Ok(told) => warnings.extend(told),
                            Err(unsafe_crd) => unsafe_changes.push(unsafe_crd),
                        }
                    }
                }
            }
        }
        if !unsafe_changes.is_empty() {
            let reason = Reason::UnsafeCrds(unsafe_changes).of_bundle(self.resolution.as_ref());
            return Err(self.advised(Verdict::Retrying(reason), warnings));
        }
        let lost = |target: &ObjectRef| target.kind == "CustomResourceDefinition";
        let history = self.snapshot.history.as_ref().ok();
        let gone = history.map(|history| vanished(history, record)).unwrap_or_default();
        // What a revision that counts leaves, and that cannot be read now, would stay for ever: once another one counts, no later plan looks for it.
        // What an attempt left is looked for again, so it holds nothing up.
        let counts = |target: &ObjectRef| {
            let mut all = history.into_iter().flat_map(|history| &history.revisions);
            all.any(|revision| revision.state == State::Deployed && revision.record.holds(target))
        };
        for target in gone.iter().filter(|target| counts(target)) {
            if let Live::Unreadable(problem) = live.get(target) {
                return Err(self.fail(Reason::Unreadable { object: (*target).clone(), problem: problem.clone() }));
            }
        }
        let deleted = |target: &ObjectRef| format!("{target} is not in the new bundle and is deleted with all its custom resources");
        warnings.extend(gone.iter().filter(|target| lost(target)).map(deleted));
        Ok(warnings)
    }

    /// Whether other extensions have to bring something first; their CRDs come with them.
    fn waits_for_others(&self) -> bool {
        self.dependencies.as_ref().is_some_and(|needs| !needs.missing.is_empty() || !needs.waits.is_empty())
    }

    /// An object that the installed revision applied is still the extension's when somebody only took its marks off.
    pub(super) fn was_applied(&self, target: &ObjectRef, found: &Value) -> bool {
        let installed = self.snapshot.history.as_ref().ok().and_then(History::installed);
        object::lost_its_marks(found) && installed.is_some_and(|revision| revision.record.holds(target))
    }
}

/// The live objects that a plan asked for.
pub(super) struct LiveObjects<'a> {
    known: &'a HashMap<ObjectRef, Live>,
}

impl LiveObjects<'_> {
    pub(super) fn get(&self, target: &ObjectRef) -> &Live {
        self.known.get(target).unwrap_or(&Live::Absent)
    }
}

/// Whether the manifest itself holds the CRD of an object that is not served yet.
fn brought_along(target: &ObjectRef, objects: &[Value]) -> bool {
    objects.iter().any(|object| {
        object["kind"] == json!("CustomResourceDefinition")
            && object["spec"]["group"] == json!(target.group())
            && object["spec"]["names"]["kind"] == json!(target.kind)
    })
}
