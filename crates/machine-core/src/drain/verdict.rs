//! The verdict whether the node of a machine that is being deleted is drained now.

use std::fmt;
use std::time::Duration;

use mainstay_golang::{duration_text, quote};

use super::filter::Settings;
use crate::condition::{self, Condition, Severity};
use crate::event::EventKind;
use crate::machine::{DRAINED, Machine, phase};
use crate::node::Node;

/// Annotation of machines that are deleted without a drain.
pub const EXCLUDE_ANNOTATION: &str = "machine.openshift.io/exclude-node-draining";
/// The wait until a drain that is not permitted, or a cordon that failed, is tried again.
pub const RETRY: Duration = Duration::from_secs(20);
const DRAIN_ERROR: &str = "DrainError";

/// The next step for a machine's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Nothing: the machine is not being deleted, or its node was drained.
    Nothing,
    /// Nothing, until the owners of these hooks are done.
    Blocked,
    /// The drain is left out: the machine says so, or never had a node.
    Skipped,
    /// The drain is done: the node does not exist any more.
    NodeGone,
    /// The drain waits: another node of the control plane is cordoned already (MACH-DRAIN-05).
    NotPermitted {
        /// The other node.
        other: &'a Node,
    },
    /// The node is cordoned and its pods are evicted.
    Drain {
        /// The permissions of the drain (MACH-DRAIN-04).
        settings: Settings,
        /// The grace period of evicted pods in seconds; `None` for their own.
        grace_period: Option<i64>,
    },
}

/// Decides about a machine. `node` is its node if it exists, `nodes` are all nodes.
pub fn verdict<'a>(machine: &Machine, node: Option<&Node>, nodes: &'a [Node]) -> Verdict<'a> {
    if !machine.deleting || !machine.is_in(phase::DELETING) || condition::is_true(&machine.conditions, DRAINED) {
        return Verdict::Nothing;
    }
    if machine.is_annotated(EXCLUDE_ANNOTATION) || machine.node.is_none() {
        return Verdict::Skipped;
    }
    if !machine.hooks.pre_drain.is_empty() {
        return Verdict::Blocked;
    }
    let Some(node) = node else { return Verdict::NodeGone };
    if node.is_control_plane() && !node.unschedulable {
        // A node that was cordoned before may go on.
        if let Some(other) = nodes.iter().find(|other| other.is_control_plane() && other.unschedulable) {
            return Verdict::NotPermitted { other };
        }
    }
    if node.is_unreachable() {
        Verdict::Drain { settings: Settings::UNREACHABLE, grace_period: Some(1) }
    } else {
        Verdict::Drain { settings: Settings::MACHINE, grace_period: None }
    }
}

/// Why a drain is tried again, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainFailure {
    /// Another node of the control plane is cordoned.
    NotPermitted,
    /// The node could not be cordoned.
    NotCordoned,
    /// Pods could not be evicted.
    Pods(String),
}

impl DrainFailure {
    /// Returns the wait until the next try; `None` for the usual back-off.
    pub fn retry(&self) -> Option<Duration> {
        match self {
            Self::NotPermitted | Self::NotCordoned => Some(RETRY),
            Self::Pods(_) => None,
        }
    }

    /// Returns the condition Drained that says so.
    pub fn condition(&self) -> Condition {
        Condition::is_false(DRAINED, DRAIN_ERROR, Severity::Warning, format!("could not drain machine: {self}"))
    }
}

impl fmt::Display for DrainFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => write!(f, "drain not permitted: requeue in: {}", duration_text(RETRY)),
            Self::NotCordoned => write!(f, "requeue in: {}", duration_text(RETRY)),
            Self::Pods(cause) => f.write_str(cause),
        }
    }
}

/// Returns the condition of a node that is drained, or need not be.
pub fn drained(skipped: bool) -> Condition {
    Condition::is_true(DRAINED, if skipped { "Node drain skipped" } else { "Drain finished successfully" })
}

/// An event on a machine; its message is the `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainEvent {
    /// Hooks hold up the drain.
    Blocked,
    /// The drain begins.
    Proceeds,
    /// It will be tried again.
    Requeued(DrainFailure),
    /// The node of this name is empty.
    Drained(String),
    /// The drain is done.
    Succeeded,
    /// The drain is left out.
    Skipped,
}

impl DrainEvent {
    /// Returns the sort; all are normal.
    pub fn kind(&self) -> EventKind {
        EventKind::Normal
    }

    /// Returns the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Blocked => "DrainBlocked",
            Self::Proceeds => "DrainProceeds",
            Self::Requeued(_) => "DrainRequeued",
            Self::Drained(_) => "Deleted",
            Self::Succeeded => "DrainSucceeded",
            Self::Skipped => "DrainSkipped",
        }
    }
}

impl fmt::Display for DrainEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("Drain blocked by pre-drain hook"),
            Self::Proceeds => f.write_str("Node drain proceeds"),
            Self::Requeued(failure) => write!(f, "Node drain requeued: {failure}"),
            Self::Drained(node) => write!(f, "Node {} drained", quote(node)),
            Self::Succeeded => f.write_str("Node drain succeeded"),
            Self::Skipped => f.write_str("Node drain skipped"),
        }
    }
}
