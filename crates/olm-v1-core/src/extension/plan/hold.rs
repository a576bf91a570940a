//! Keeping the installed revision as it is: the first step for an extension, whatever the decision on its request (OLM1-CTRL-01).
//!
//! Everything that was applied is in the record, so this needs neither a catalog nor a registry.

use std::sync::Arc;

use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::LiveObjects;
use mainstay_lifecycle::change::{self, Action, Change, GATED};
use mainstay_lifecycle::health_gate::HealthGate;
use mainstay_lifecycle::object;
use mainstay_lifecycle::revision::{History, Record, State};
use mainstay_objects::{install_order, phase};
use serde_json::Value;

use super::super::facts::{Answer, Snapshot};
use super::{Plan, Planner, Reason, Stop, Verdict, finalizing};

/// The plan that repairs the installed revision; none if nothing is installed, or if no account can act for the extension.
pub fn hold(snapshot: &Snapshot) -> Answer<Option<Plan>> {
    let planner = Planner { snapshot, resolution: None, dependencies: None, gate: HealthGate::default() };
    match planner.hold() {
        Ok(plan) => Answer::Ready(plan),
        Err(Stop::Need(facts)) => Answer::Need(facts),
        Err(Stop::Plan(_)) => Answer::Ready(None),
    }
}

impl Planner<'_> {
    fn hold(&self) -> Result<Option<Plan>, Stop> {
        let extension = &*self.snapshot.extension;
        let (None, Ok(history)) = (finalizing(extension), &self.snapshot.history) else { return Ok(None) };
        let Some(record) = standing(history) else { return Ok(None) };
        self.account(extension)?;
        let live = self.live(&record, &[])?;
        Ok(Some(self.kept(history, record, live, Verdict::Reached)))
    }

    /// Keeps the installed revision as it is, with the verdict of the plan that waits.
    pub(super) fn meanwhile(&self, history: &History, live: LiveObjects<'_>, verdict: Verdict) -> Plan {
        match standing(history) {
            Some(record) if history.is_whole() => self.kept(history, record, live, verdict),
            _ => self.report(verdict),
        }
    }

    fn kept(&self, history: &History, record: Arc<Record>, live: LiveObjects<'_>, verdict: Verdict) -> Plan {
        let owner = self.owner();
        // Objects of other owners, objects that cannot be read, and objects that an attempt has changed already are left alone.
        let kept = record.objects.iter().filter(|object| {
            let target = object::place(object);
            match live.get(&target) {
                Live::Absent => true,
                Live::Present(found) => {
                    (owner.check(found).is_ok() || history.still_owns(&target, found, &owner.manager))
                        && !is_attempted(history, object, found)
                }
                Live::NotServed | Live::Unreadable(_) => false,
            }
        });
        let (action, kept) = (Action::Reassert, kept.collect::<Vec<_>>());
        let steps = change::steps(&Change { action: &action, objects: &kept, gone: &[], live, owner: &owner, at_gate: false });
        Plan { action, steps, record: Some(record), ..self.report(verdict) }
    }
}

/// The record to keep live while nothing is changed: the installed one, with the objects that an attempt at the gate has applied.
fn standing(history: &History) -> Option<Arc<Record>> {
    let record = &history.installed()?.record;
    let at_gate = history
        .attempt()
        .filter(|attempt| attempt.state == State::Pending && attempt.notes.waits_before.as_deref() == Some(GATED))
        .map(|attempt| &attempt.record.objects);
    let Some(at_gate) = at_gate else { return Some(record.clone()) };
    let mut record = Record::clone(record);
    let applied = at_gate.iter().filter(|object| phase(object["kind"].as_str().unwrap_or_default()) != GATED);
    for object in applied {
        let target = object::place(object);
        match record.objects.iter_mut().find(|before| object::place(before).same(&target)) {
            Some(before) => *before = object.clone(),
            None => record.objects.push(object.clone()),
        }
    }
    install_order(&mut record.objects);
    Some(Arc::new(record))
}

/// Returns true if a live object is as an attempt left it.
fn is_attempted(history: &History, kept: &Value, found: &Value) -> bool {
    let target = object::place(kept);
    let attempted = history.attempt().into_iter().flat_map(|attempt| &attempt.record.objects);
    attempted.filter(|object| object::place(object).same(&target)).any(|object| object != kept && object::holds(object, found))
}

/// The verdict if the installed revision could not be kept as it is: the problem at hand comes first.
pub fn unheld(verdict: Verdict, problem: &SharedError) -> Verdict {
    let with = |reason: Reason| Reason::Unheld { reason: Box::new(reason), problem: problem.clone() };
    match verdict {
        Verdict::Retrying(reason) => Verdict::Retrying(with(reason)),
        // It is retried, although the verdict waits for a person.
        Verdict::Blocked(reason) => Verdict::Blocked(with(reason)),
        other => other,
    }
}
