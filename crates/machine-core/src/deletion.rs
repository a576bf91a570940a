//! The deletion of a machine as it goes: its steps in order, and which hooks hold it up (MACH-DEL-02, MACH-DEL-04, MACH-DEL-09, MS-READY-02).
//!
//! The steps come from the decisions that the controllers act upon, asked about the machine as it is, or as it would be once it is deleted.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::drain::verdict::{Verdict, verdict};
use crate::hooks::{LifecycleHook, LifecycleHooks, Stage};
use crate::lifecycle::{Begin, Deletion, begin};
use crate::machine::{Machine, phase};
use crate::node::Node;

/// The time after which a hook without any action of its owner is told (MACH-TRB-02).
pub const SILENCE: SignedDuration = SignedDuration::from_mins(10);

/// A step of a deletion, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Phase Deleting; the machine is still there.
    Mark,
    /// Owners remove the hooks that hold up the drain.
    PreDrainHooks,
    /// The node is cordoned and emptied.
    Drain,
    /// Owners remove the hooks that hold up the removal of the instance.
    PreTerminateHooks,
    /// The provider removes the instance.
    Terminate,
    /// The node object is deleted.
    RemoveNode,
    /// The finalizer is removed, and the machine is gone.
    Release,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Mark, Self::PreDrainHooks, Self::Drain, Self::PreTerminateHooks, Self::Terminate, Self::RemoveNode, Self::Release];

    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::PreDrainHooks => "pre-drain-hooks",
            Self::Drain => "drain",
            Self::PreTerminateHooks => "pre-terminate-hooks",
            Self::Terminate => "terminate",
            Self::RemoveNode => "remove-node",
            Self::Release => "release",
        }
    }
}

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartState {
    /// It is done.
    Done,
    /// It is under way.
    Now,
    /// It comes.
    Later,
    /// It is left out.
    Skipped,
}

impl PartState {
    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Now => "now",
            Self::Later => "later",
            Self::Skipped => "skipped",
        }
    }
}

/// A deletion as it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course<'a> {
    /// The steps with their states.
    pub parts: Vec<(Part, PartState)>,
    /// The next step of the drain controller once no hook holds it up.
    pub drain: Verdict<'a>,
}

impl Course<'_> {
    /// Returns the step that is under way; `None` before the deletion.
    pub fn current(&self) -> Option<Part> {
        self.parts.iter().find(|(_, state)| *state == PartState::Now).map(|(part, _)| *part)
    }

    /// Returns the step after the one that is under way.
    pub fn next(&self) -> Option<Part> {
        let current = self.current()?;
        self.parts.iter().find(|(part, state)| *part > current && *state == PartState::Later).map(|(part, _)| *part)
    }

    /// Returns the state of a step.
    pub fn state(&self, part: Part) -> PartState {
        self.parts.iter().find(|(known, _)| *known == part).map_or(PartState::Later, |(_, state)| *state)
    }
}

/// Returns how a machine's deletion goes, or would go. `node` is its node if it exists, `nodes` are all nodes.
pub fn course<'a>(machine: &Machine, object: &Value, node: Option<&Node>, nodes: &'a [Node]) -> Course<'a> {
    let deleted = Machine { deleting: true, phase: Some(phase::DELETING.to_owned()), ..machine.clone() };
    let free = Machine { hooks: LifecycleHooks::default(), ..deleted.clone() };
    let drain = verdict(&free, node, nodes);
    let current = match begin(&deleted, object) {
        _ if !machine.deleting => None,
        Begin::Delete(Deletion::Released) => Some(Part::Release),
        Begin::Delete(Deletion::WaitForHooks) => Some(Part::PreTerminateHooks),
        Begin::Delete(Deletion::Remove) => Some(Part::Terminate),
        // Nothing else is answered about a machine that is being deleted, but that it is invalid: then it waits where it is.
        _ if matches!(verdict(&deleted, node, nodes), Verdict::Blocked) => Some(Part::PreDrainHooks),
        _ => Some(Part::Drain),
    };
    let is_drain_skipped = matches!(drain, Verdict::Skipped);
    let skipped = |part: Part| match part {
        // Hooks do not hold up a drain that is left out.
        Part::PreDrainHooks => is_drain_skipped || machine.hooks.pre_drain.is_empty(),
        Part::Drain => is_drain_skipped,
        Part::PreTerminateHooks => machine.hooks.pre_terminate.is_empty(),
        Part::RemoveNode => machine.node.is_none(),
        _ => false,
    };
    let state = |part: Part| match current {
        Some(current) if part == current => PartState::Now,
        Some(current) if part < current => {
            if part == Part::Drain && is_drain_skipped {
                PartState::Skipped
            } else {
                PartState::Done
            }
        }
        _ if skipped(part) => PartState::Skipped,
        _ => PartState::Later,
    };
    Course { parts: Part::ALL.map(|part| (part, state(part))).to_vec(), drain }
}

/// A hook with its age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// The list that it is in.
    pub stage: Stage,
    /// The hook.
    pub hook: LifecycleHook,
    /// Since when it holds up the deletion; since when it is there, before one.
    pub since: Option<Timestamp>,
    /// The field manager that wrote it last, and when.
    pub written: Option<(String, Timestamp)>,
}

impl HeldBy {
    /// Returns the time without any action, if that is longer than [`SILENCE`].
    pub fn silence(&self, now: Timestamp) -> Option<SignedDuration> {
        let acted = self.written.as_ref().map(|(_, at)| *at).into_iter().chain(self.since).max()?;
        Some(now.duration_since(acted)).filter(|silent| *silent >= SILENCE)
    }
}

/// Returns the hooks of a machine, in the order in which they hold it up.
pub fn hooks(machine: &Machine, object: &Value) -> Vec<HeldBy> {
    let deleted: Option<Timestamp> =
        object.pointer("/metadata/deletionTimestamp").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let all = Stage::ALL.into_iter().flat_map(|stage| machine.hooks.at(stage).iter().map(move |hook| (stage, hook.clone())));
    all.map(|(stage, hook)| {
        let written = written(object, stage, &hook.name);
        let there = written.as_ref().map(|(_, at)| *at).or(machine.created);
        HeldBy { since: deleted.map_or(there, |deleted| Some(there.map_or(deleted, |there| there.max(deleted)))), stage, hook, written }
    })
    .collect()
}

/// Finds who wrote a hook last, and when, in an object's managed fields.
fn written(object: &Value, stage: Stage, name: &str) -> Option<(String, Timestamp)> {
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let list = format!("/fieldsV1/f:spec/f:lifecycleHooks/f:{}", stage.field());
    let owns = |manager: &&Value| {
        let items = manager.pointer(&list).and_then(Value::as_object).into_iter().flatten();
        items.into_iter().any(|(key, _)| {
            let key = key.strip_prefix("k:").and_then(|key| serde_json::from_str::<Value>(key).ok());
            key.is_some_and(|key| key["name"] == name)
        })
    };
    let found = managers
        .iter()
        .filter(owns)
        .filter_map(|manager| Some((manager["manager"].as_str()?.to_owned(), manager["time"].as_str()?.parse::<Timestamp>().ok()?)));
    found.max_by_key(|(_, at)| *at)
}
