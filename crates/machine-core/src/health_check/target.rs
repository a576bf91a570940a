//! The verdict whether a machine is unhealthy, or when it could be (MACH-MHC-02).

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::check::{HealthCheck, UnhealthyCondition};
use crate::machine::{Machine, phase};
use crate::node::Node;

/// Annotation of machines that the controller of bare-metal hosts remediates.
pub const EXTERNAL_ANNOTATION: &str = "host.metal3.io/external-remediation";

/// The wait for the next look is never longer.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The node of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetNode<'a> {
    /// The machine has none.
    None,
    /// The machine names one that does not exist.
    Gone(&'a str),
    /// It exists.
    Found(&'a Node),
}

/// A machine that a check looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its node.
    pub node: TargetNode<'a>,
}

/// Why a machine needs remediation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ailment {
    /// Its phase is Failed.
    Failed,
    /// It has had no node for too long.
    NoNode,
    /// Its node does not exist.
    NodeGone,
    /// Its node has been in this condition for too long.
    Condition(UnhealthyCondition),
}

/// The health of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It needs remediation.
    Unhealthy(Ailment),
    /// It will need remediation after this time, if nothing changes.
    AtRisk(Duration),
    /// Nothing is wrong.
    Sound,
}

impl<'a> Target<'a> {
    /// Creates the target of a machine. `node` finds a node by its name.
    pub fn of(machine: &'a Machine, node: impl Fn(&str) -> Option<&'a Node>) -> Self {
        let node = match machine.node.as_deref() {
            None => TargetNode::None,
            Some(name) => node(name).filter(|node| !node.uid.is_empty()).map_or(TargetNode::Gone(name), TargetNode::Found),
        };
        Self { machine, node }
    }

    /// Returns the name of the node; empty if the machine has none.
    pub fn node_name(&self) -> &'a str {
        match self.node {
            TargetNode::None => "",
            TargetNode::Gone(name) => name,
            TargetNode::Found(node) => &node.name,
        }
    }

    /// Examines the machine.
    pub fn health(&self, check: &HealthCheck, now: Timestamp) -> Health {
        if self.machine.is_in(phase::FAILED) {
            return Health::Unhealthy(Ailment::Failed);
        }
        match self.node {
            TargetNode::None => self.startup(check.startup_timeout, now),
            TargetNode::Gone(_) => Health::Unhealthy(Ailment::NodeGone),
            TargetNode::Found(node) => conditions(node, &check.unhealthy, now),
        }
    }

    fn startup(&self, timeout: Duration, now: Timestamp) -> Health {
        if timeout.is_zero() {
            return Health::Sound;
        }
        match self.machine.last_updated {
            None => Health::AtRisk(timeout),
            Some(since) => left(since, timeout, now).map_or(Health::Unhealthy(Ailment::NoNode), Health::AtRisk),
        }
    }

    /// Returns whether a machine with which nothing is wrong counts as healthy: not one that is deleted, has no node, or is being remediated
    /// by another controller.
    pub fn counts_as_healthy(&self) -> bool {
        !self.machine.deleting && self.node != TargetNode::None && !self.machine.is_annotated(EXTERNAL_ANNOTATION)
    }

    /// Returns the machine as events name it.
    pub fn named(&self, check: &HealthCheck) -> TargetName {
        TargetName {
            namespace: check.namespace.clone(),
            check: check.name.clone(),
            machine: self.machine.name.clone(),
            node: self.node_name().to_owned(),
        }
    }
}

/// A target as events name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetName {
    /// Namespace of the check.
    pub namespace: String,
    /// Name of the check.
    pub check: String,
    /// Name of the machine.
    pub machine: String,
    /// Name of the node; empty if there is none.
    pub node: String,
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.namespace, self.check, self.machine, self.node)
    }
}

fn conditions(node: &Node, unhealthy: &[UnhealthyCondition], now: Timestamp) -> Health {
    let mut waits = Vec::new();
    for wanted in unhealthy {
        let Some(found) = node.condition(&wanted.kind).filter(|found| found.status == wanted.status) else { continue };
        // A condition without a time has been so for ever.
        match found.since.and_then(|since| left(since, wanted.timeout, now)) {
            None => return Health::Unhealthy(Ailment::Condition(wanted.clone())),
            Some(wait) => waits.push(wait),
        }
    }
    next(waits).map_or(Health::Sound, Health::AtRisk)
}

/// Returns the earliest of several waits, and no more than an hour.
pub(super) fn next(waits: impl IntoIterator<Item = Duration>) -> Option<Duration> {
    waits.into_iter().min().map(|wait| wait.min(LONGEST_WAIT))
}

/// Returns the time until something that began then has lasted too long, with a second more so that it has at the next look; `None` if it
/// has already.
fn left(since: Timestamp, timeout: Duration, now: Timestamp) -> Option<Duration> {
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let lasted = now.duration_since(since);
    if timeout < lasted {
        return None;
    }
    let left = timeout.saturating_sub(lasted).saturating_add(SignedDuration::from_secs(1));
    Duration::try_from(left).ok()
}
