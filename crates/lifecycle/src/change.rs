//! From what is wanted, what was applied and what is live to the steps of a change, in order, phase by phase (MS-RB-01).
//!
//! ```text
//!   namespaces, policies │ crds ─ established ─► accounts, configuration, storage, rights, services │ workloads, routes, others
//!                                                                                                        │ available
//!                                           what is gone, the other way round ◄── admission ◄────────────┘
//! ```
//!
//! The phases are those of [`mainstay_objects::phase`]. Two gates stand between them. Nothing goes on before the CRDs are served, which takes a
//! moment and is waited for. Webhook configurations and APIServices come only when the workloads that serve them are available: until then the
//! attempt stays pending, and the watch of its objects wakes it. Where nothing comes after the workloads, nobody waits for them, so that
//! `Installed` says what was applied (OLM1-CTRL-03). What is only put right again (OLM1-INST-14) passes no gate: it was in service before.

use std::time::Duration;

use mainstay_objects::{Expect, ObjectRef, Owner, Propagation, Step, Until, phase, stale};
use serde_json::Value;

use crate::live::{Live, LiveObjects};
use crate::object;
use crate::revision::{self, History, Record, State};

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put these finalizers on the subject, and nothing else (OLM1-CTRL-07).
    AddFinalizers(Vec<String>),
    /// Clean up and take these finalizers off; what was applied goes by owner references (OLM1-INST-15).
    Finalize(Vec<String>),
    /// Only say how things are.
    Report,
    /// Nothing is installed yet.
    Install,
    /// Other content is installed; or an attempt was left half-way.
    Upgrade,
    /// The right content is installed; what is missing or changed is put right (OLM1-INST-14).
    Reassert,
}

impl Action {
    /// Whether other content comes: an install or an upgrade.
    pub fn brings_content(&self) -> bool {
        matches!(self, Self::Install | Self::Upgrade)
    }
}

/// A step of a change, ready to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// The object.
    pub target: ObjectRef,
    /// What is done.
    pub step: Step,
    /// How the object compares with the live one.
    pub operation: Operation,
}

impl AsRef<Step> for PlannedStep {
    fn as_ref(&self) -> &Step {
        &self.step
    }
}

/// How an object that is wanted, or was, compares with the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is not there.
    Create,
    /// It is there, and differs.
    Update,
    /// It is there as wanted.
    Same,
    /// It is no longer part of the content.
    Delete,
    /// Nothing; the API is given time to take the change in.
    Wait,
}

/// The phase that waits for the workloads.
pub const GATED: &str = "admission";
const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// Compares what is wanted with the records (OLM1-CTRL-01 step 8, OLM1-INST-14).
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

/// What the installed revision, or an attempt after it, applied and the new one does not hold, in the order of removal.
pub fn vanished(history: &History, record: &Record) -> Vec<ObjectRef> {
    let wanted: Vec<ObjectRef> = record.objects.iter().map(object::place).collect();
    let uncleared = history.revisions.iter().filter(|revision| revision.is_uncleared());
    let earlier: Vec<ObjectRef> = uncleared.flat_map(|revision| revision.record.objects.iter().map(object::place)).collect();
    stale(&earlier, &wanted)
}

/// Whether this very content was applied up to the gate already, so that only what differs is applied again.
pub fn stands_at_gate(history: &History, record: &Record) -> bool {
    history.latest().is_some_and(|latest| {
        latest.state == State::Pending && latest.notes.waits_before.as_deref() == Some(GATED) && latest.record == *record
    })
}

/// How long a CRD may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// What decides the steps of a change.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The kind of the change.
    pub action: &'a Action,
    /// The record that it leads to.
    pub record: &'a Record,
    /// What is no longer part of the content, in the order of removal; see [`vanished`].
    pub gone: &'a [ObjectRef],
    /// The live objects of both.
    pub live: LiveObjects<'a>,
    /// The owner of everything that is applied.
    pub owner: &'a Owner,
    /// Whether this very content was applied up to the gate already; see [`stands_at_gate`].
    pub at_gate: bool,
}

/// The steps of a change, in order.
pub fn steps(change: &Change<'_>) -> Vec<PlannedStep> {
    let Change { action, record, gone, live, owner, at_gate } = *change;
    let mut steps = Vec::new();
    let mut definitions = Vec::new();
    let mut gated = false;
    for object in &record.objects {
        let target = object::place(object);
        let apply = |expect| Step::Apply { object: object.clone(), force: true, expect };
        let (operation, step) = match live.get(&target) {
            // Whoever leads after this process may have changed it since.
            Live::Present(found) if object::stands(object, found) => (Operation::Same, apply(Expect::as_seen(found))),
            Live::Present(found) => (Operation::Update, apply(Expect::as_seen(found))),
            // What somebody else made since stays theirs: an apply would take it over (OLM1-OWN-01).
            _ if object::is_created_by_name(object) => (Operation::Create, Step::CreateNamed(object.clone())),
            _ => (Operation::Create, Step::Create(object.clone())),
        };
        let phase = phase(&target.kind);
        // An upgrade applies everything once: fields that the new content dropped are only let go of by applying.
        if operation == Operation::Same && (*action == Action::Reassert || at_gate && phase != GATED) {
            continue;
        }
        if target.kind != "CustomResourceDefinition" {
            steps.append(&mut definitions);
        }
        if phase == GATED && !gated && *action != Action::Reassert {
            gated = true;
            steps.extend(probes(record));
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

/// The workloads that have to be available.
fn probes(record: &Record) -> impl Iterator<Item = PlannedStep> + '_ {
    let workloads = record.objects.iter().map(object::place).filter(|target| WORKLOADS.contains(&target.kind.as_str()));
    workloads.map(|target| PlannedStep { step: Step::Probe(target.clone()), target, operation: Operation::Wait })
}
