//! Checks for objects that are in the way of a change.

use mainstay_objects::{ObjectRef, Owner};
use serde_json::{Value, json};

use super::crds::{CrdFindings, compared};
use crate::change::{Action, vanished};
use crate::live::{Live, LiveObjects};
use crate::object;
use crate::reason::{Reason, UnsafeCrd};
use crate::revision::{History, Record, State};

/// A change whose objects are checked.
#[derive(Clone, Copy)]
pub struct Checked<'a> {
    /// The kind of the change.
    pub action: &'a Action,
    /// The record that it leads to.
    pub record: &'a Record,
    /// The revisions so far.
    pub history: &'a History,
    /// The live objects of the record and of the objects that vanish.
    pub live: LiveObjects<'a>,
    /// The owner of everything that is applied.
    pub owner: &'a Owner,
    /// The consequence of findings of the CRD upgrade safety check.
    pub crd_findings: CrdFindings,
    /// True if kinds that are not served yet come from elsewhere before the change is applied.
    pub waits_for_kinds: bool,
}

/// An obstacle, and the warnings that were found before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// The reason why nothing is written.
    pub reason: Reason,
    /// Further information that a person should know.
    pub warnings: Vec<String>,
}

impl Obstacle {
    fn new(reason: impl Into<Reason>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), warnings: Vec::new() })
    }
}

/// Checks everything that must hold before the first write: kinds are served, objects can be read and are free or the subject's own
/// (OLM1-OWN-03), and CRDs change without losing data (OLM1-CRD-01). Returns warnings.
///
/// # Errors
/// The first obstacle, with the warnings so far.
pub fn checked(change: &Checked<'_>) -> Result<Vec<String>, Box<Obstacle>> {
    let Checked { action, record, history, live, owner, crd_findings, waits_for_kinds } = *change;
    let (mut warnings, mut unsafe_changes): (Vec<String>, Vec<UnsafeCrd>) = (Vec::new(), Vec::new());
    for object in &record.objects {
        let target = object::place(object);
        match live.get(&target) {
            Live::Absent => {}
            Live::NotServed if waits_for_kinds || brought_along(&target, &record.objects) => {}
            Live::NotServed => return Err(Obstacle::new(Reason::NotServed(target))),
            Live::Unreadable(problem) => return Err(Obstacle::new(Reason::Unreadable { object: target, problem: problem.clone() })),
            Live::Present(found) => {
                if let Err(refusal) = owner.check(found)
                    && !history.still_owns(&target, found, &owner.manager)
                {
                    return Err(Obstacle::new(refusal));
                }
                if target.kind == "CustomResourceDefinition" && action.brings_content() {
                    match compared(crd_findings, found, object) {
                        Ok(told) => warnings.extend(told),
                        Err(unsafe_crd) => unsafe_changes.push(unsafe_crd),
                    }
                }
            }
        }
    }
    if !unsafe_changes.is_empty() {
        return Err(Box::new(Obstacle { reason: Reason::UnsafeCrds(unsafe_changes), warnings }));
    }
    let gone = vanished(history, record);
    // An object of a deployed revision that cannot be read now would stay for ever: once another revision is deployed, no later plan looks for
    // it. An object of an attempt is looked for again, so it does not stop the change.
    let counts = |target: &ObjectRef| history.revisions.iter().any(|one| one.state == State::Deployed && one.record.holds(target));
    for target in gone.iter().filter(|target| counts(target)) {
        if let Live::Unreadable(problem) = live.get(target) {
            return Err(Obstacle::new(Reason::Unreadable { object: target.clone(), problem: problem.clone() }));
        }
    }
    warnings.extend(gone.iter().filter(|target| target.kind == "CustomResourceDefinition").map(|target| definition_goes(&target.name)));
    Ok(warnings)
}

/// Returns the warning about a CRD that is no longer part of the content. A preview that counts its custom resources is more specific, and omits
/// it.
pub fn definition_goes(name: &str) -> String {
    format!("CustomResourceDefinition {name} is not in the new bundle and is deleted with all its custom resources")
}

impl History {
    /// Returns true if an object that the installed revision applied still belongs to the subject although its marks were removed.
    pub fn still_owns(&self, target: &ObjectRef, found: &Value, manager: &str) -> bool {
        object::lost_its_marks(found, manager) && self.installed().is_some_and(|revision| revision.record.holds(target))
    }
}

/// Returns true if the content itself holds the CRD of an object that is not served yet.
fn brought_along(target: &ObjectRef, objects: &[Value]) -> bool {
    objects.iter().any(|object| {
        object["kind"] == json!("CustomResourceDefinition")
            && object["spec"]["group"] == json!(target.group())
            && object["spec"]["names"]["kind"] == json!(target.kind)
    })
}
