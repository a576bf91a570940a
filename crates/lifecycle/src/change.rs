//! Computes the ordered steps of a change, phase by phase, from the wanted, the applied and the live objects (MS-RB-01).
//!
//! ```text
//!   namespaces, policies │ crds ─ established ─► accounts, configuration, storage, permissions, services │ workloads, routes, others
//!                                                                                                        │ available
//!                                           what is gone, the other way round ◄── admission ◄────────────┘
//! ```
//!
//! The phases are those of [`mainstay_objects::phase`]. Two gates stand between them. The first waits until the CRDs are served, which takes a
//! moment. The second holds back webhook configurations and APIServices until the workloads that serve them are available: until then the attempt
//! stays pending, and the watch of its objects wakes it. If nothing comes after the workloads, the change does not wait for them, so that
//! `Installed` reports what was applied (OLM1-CTRL-03). A repair (OLM1-INST-14) passes no gate: its objects were in service before.

use std::time::Duration;

use mainstay_objects::{Expect, ObjectRef, Owner, Propagation, Step, Until, phase, stale};
use serde_json::Value;

use crate::live::{Live, LiveObjects};
use crate::object;
use crate::revision::{self, History, Record, State};

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Puts these finalizers on the subject, and does nothing else (OLM1-CTRL-07).
    AddFinalizers(Vec<String>),
    /// Cleans up and removes these finalizers. The applied objects are removed through their owner references (OLM1-INST-15).
    Finalize(Vec<String>),
    /// Only reports the state.
    Report,
    /// Installs; nothing is installed yet.
    Install,
    /// Upgrades: other content is installed, or an attempt was left half-way.
    Upgrade,
    /// Repairs: the right content is installed, and missing or changed objects are restored (OLM1-INST-14).
    Reassert,
}

impl Action {
    /// Returns true if the content changes: an install or an upgrade.
    pub fn brings_content(&self) -> bool {
        matches!(self, Self::Install | Self::Upgrade)
    }
}

/// A step of a change, ready to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// The object.
    pub target: ObjectRef,
    /// The step that is executed.
    pub step: Step,
    /// The object's difference from the live one.
    pub operation: Operation,
}

impl AsRef<Step> for PlannedStep {
    fn as_ref(&self) -> &Step {
        &self.step
    }
}

/// The difference between an object and the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object does not exist.
    Create,
    /// The object exists and differs.
    Update,
    /// The object exists as wanted.
    Same,
    /// The object is no longer part of the content.
    Delete,
    /// Nothing is compared; the API gets time to take the change in.
    Wait,
}

/// The phase that waits for the workloads.
pub const GATED: &str = "admission";
const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// Compares the wanted content with the records (OLM1-CTRL-01 step 8, OLM1-INST-14).
pub fn action(history: &History, record: &Record) -> Action {
    match (history.installed(), history.latest()) {
        (None, _) => Action::Install,
        (Some(installed), Some(latest))
            if latest.state == State::Deployed
                && installed.record.bundle == record.bundle
                && installed.record.digest() == revision::digest(&record.objects) =>
        {
            Action::Reassert
        }
        _ => Action::Upgrade,
    }
}

/// Returns the objects that the installed revision or a later attempt applied and that the new one does not hold, in the order of removal.
pub fn vanished(history: &History, record: &Record) -> Vec<ObjectRef> {
    let wanted: Vec<ObjectRef> = record.objects.iter().map(object::place).collect();
    let uncleared = history.revisions.iter().filter(|revision| revision.is_uncleared());
    let earlier: Vec<ObjectRef> = uncleared.flat_map(|revision| revision.record.objects.iter().map(object::place)).collect();
    stale(&earlier, &wanted)
}

/// Returns true if this very content was applied up to the gate already, so that only what differs is applied again.
pub fn stands_at_gate(history: &History, record: &Record) -> bool {
    history.latest().is_some_and(|latest| {
        latest.state == State::Pending && latest.notes.waits_before.as_deref() == Some(GATED) && *latest.record == *record
    })
}

/// Maximum time until a CRD is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// The input from which the steps of a change are computed.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The kind of the change.
    pub action: &'a Action,
    /// The objects that it leads to, in order.
    pub objects: &'a [&'a Value],
    /// Objects that are no longer part of the content, in the order of removal; see [`vanished`].
    pub gone: &'a [ObjectRef],
    /// The live objects of `objects` and of `gone`.
    pub live: LiveObjects<'a>,
    /// The owner of everything that is applied.
    pub owner: &'a Owner,
    /// True if this very content was applied up to the gate already; see [`stands_at_gate`].
    pub at_gate: bool,
}

/// Returns the steps of a change, in order.
pub fn steps(change: &Change<'_>) -> Vec<PlannedStep> {
    let Change { action, objects, gone, live, owner, at_gate } = *change;
    let mut steps = Vec::new();
    let mut definitions = Vec::new();
    let mut gated = false;
    for &object in objects {
        let target = object::place(object);
        let phase = phase(&target.kind);
        let found = live.get(&target);
        let stands = matches!(found, Live::Present(found) if object::stands(object, found));
        // An upgrade applies everything once: only an apply releases the fields that the new content dropped.
        if stands && (*action == Action::Reassert || at_gate && phase != GATED) {
            continue;
        }
        let apply = |expect| Step::Apply { object: object.clone(), force: true, expect };
        let (operation, step) = match found {
            // Another leader may have changed it since.
            Live::Present(found) => (if stands { Operation::Same } else { Operation::Update }, apply(Expect::as_seen(found))),
            // An object that was created by another party meanwhile stays theirs: an apply would take it over (OLM1-OWN-01).
            _ if object::is_created_by_name(object) => (Operation::Create, Step::CreateNamed(object.clone())),
            _ => (Operation::Create, Step::Create(object.clone())),
        };
        if target.kind != "CustomResourceDefinition" {
            steps.append(&mut definitions);
        }
        if phase == GATED && !gated && *action != Action::Reassert {
            gated = true;
            steps.extend(probes(objects));
        }
        steps.push(PlannedStep { target: target.clone(), step, operation });
        if target.kind == "CustomResourceDefinition" {
            let step = Step::Wait { object: target.clone(), until: Until::Healthy, timeout: ESTABLISHED };
            definitions.push(PlannedStep { step, target, operation: Operation::Wait });
        }
    }
    steps.append(&mut definitions);
    for target in gone {
        if let Live::Present(found) = live.get(target) {
            let kept = found.pointer("/metadata/annotations/helm.sh~1resource-policy").and_then(Value::as_str) == Some("keep");
            if owner.owns(found) && !kept && found["metadata"]["deletionTimestamp"].is_null() {
                let step = Step::Delete { object: target.clone(), expect: Expect::as_seen(found), propagation: Propagation::Background };
                steps.push(PlannedStep { target: target.clone(), step, operation: Operation::Delete });
            }
        }
    }
    steps
}

/// Returns the steps that wait for the workloads to become available.
fn probes(objects: &[&Value]) -> impl Iterator<Item = PlannedStep> {
    let workloads = objects.iter().map(|object| object::place(object)).filter(|target| WORKLOADS.contains(&target.kind.as_str()));
    workloads.map(|target| PlannedStep { step: Step::Probe(target.clone()), target, operation: Operation::Wait })
}
