//! Objects that are in the way.

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
    /// The live objects of the record and of what vanishes.
    pub live: LiveObjects<'a>,
    /// The owner of everything that is applied.
    pub owner: &'a Owner,
    /// The consequence of findings of the CRD upgrade safety check.
    pub crd_findings: CrdFindings,
    /// Whether kinds that are not served yet come from elsewhere before the change is made.
    pub waits_for_kinds: bool,
}

/// What is in the way, and the warnings that were found before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// Why nothing is written.
    pub reason: Reason,
    /// What a person should know besides.
    pub warnings: Vec<String>,
}

impl Obstacle {
    fn new(reason: impl Into<Reason>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), warnings: Vec::new() })
    }
}

/// Nothing is written before all of this holds: kinds are served, objects can be read and are free or the subject's own (OLM1-OWN-03), and CRDs
/// change without losing data (OLM1-CRD-01). Returns warnings.
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
    // What a revision that counts leaves, and that cannot be read now, would stay for ever: once another one counts, no later plan looks for it.
    // What an attempt left is looked for again, so it holds nothing up.
    let counts = |target: &ObjectRef| history.revisions.iter().any(|one| one.state == State::Deployed && one.record.holds(target));
    for target in gone.iter().filter(|target| counts(target)) {
        if let Live::Unreadable(problem) = live.get(target) {
            return Err(Obstacle::new(Reason::Unreadable { object: target.clone(), problem: problem.clone() }));
        }
    }
    warnings.extend(gone.iter().filter(|target| target.kind == "CustomResourceDefinition").map(|target| definition_goes(&target.name)));
    Ok(warnings)
}

/// The warning about a CRD that is no longer part of the content. A preview that counts its custom resources says more, and leaves it out.
pub fn definition_goes(name: &str) -> String {
    format!("CustomResourceDefinition {name} is not in the new bundle and is deleted with all its custom resources")
}

impl History {
    /// Whether an object that the installed revision applied is still the subject's although somebody took its marks off.
    pub fn still_owns(&self, target: &ObjectRef, found: &Value, manager: &str) -> bool {
        object::lost_its_marks(found, manager) && self.installed().is_some_and(|revision| revision.record.holds(target))
    }
}

/// Whether the content itself holds the CRD of an object that is not served yet.
fn brought_along(target: &ObjectRef, objects: &[Value]) -> bool {
    objects.iter().any(|object| {
        object["kind"] == json!("CustomResourceDefinition")
            && object["spec"]["group"] == json!(target.group())
            && object["spec"]["names"]["kind"] == json!(target.kind)
    })
}
