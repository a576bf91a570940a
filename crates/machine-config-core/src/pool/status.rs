//! The status of a pool: counts, conditions, and which configuration it has (MACH-MCP-09, MACH-MCP-10).

use mainstay_golang::quote;

use super::Pool;
use super::node::{Node, annotation};

/// Types of a pool's conditions.
pub mod condition {
    /// All nodes have the configuration.
    pub const UPDATED: &str = "Updated";
    /// Nodes get the configuration.
    pub const UPDATING: &str = "Updating";
    /// Nodes report failures.
    pub const NODE_DEGRADED: &str = "NodeDegraded";
    /// The configuration cannot be rendered.
    pub const RENDER_DEGRADED: &str = "RenderDegraded";
    /// Either of both.
    pub const DEGRADED: &str = "Degraded";
}

const TRUE: &str = "True";
const FALSE: &str = "False";

/// A condition of a pool. The time is a value of the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCondition<T> {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When the status changed.
    pub changed: T,
}

/// The nodes of each class, in the given order; a node may be in several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes<'a> {
    /// Nodes that have the configuration and are done.
    pub updated: Vec<&'a Node>,
    /// Those of them that are ready.
    pub ready: Vec<&'a Node>,
    /// Nodes that are not available.
    pub unavailable: Vec<&'a Node>,
    /// Nodes that report a failure.
    pub degraded: Vec<&'a Node>,
}

impl<'a> Classes<'a> {
    /// Sorts a pool's nodes into classes.
    pub fn of(nodes: &'a [Node], target: &str) -> Self {
        let all = |is: &dyn Fn(&Node) -> bool| nodes.iter().filter(|node| is(node)).collect();
        Self {
            updated: all(&|node| node.is_done_at(target)),
            ready: all(&|node| node.is_done_at(target) && node.is_ready()),
            unavailable: all(&Node::is_unavailable),
            degraded: all(&Node::is_degraded),
        }
    }

    /// Returns whether every one of this many nodes is updated, ready and available.
    pub fn all_updated(&self, nodes: usize) -> bool {
        self.updated.len() == nodes && self.ready.len() == nodes && self.unavailable.is_empty()
    }

    fn reported(&self) -> String {
        let said = |node: &&&Node| node.annotation(annotation::REASON).is_some_and(|reason| !reason.is_empty());
        let sentence =
            |node: &&Node| format!("Node {} is reporting: {}", node.name, quote(node.annotation(annotation::REASON).unwrap_or_default()));
        self.degraded.iter().filter(said).map(sentence).collect::<Vec<_>>().join(", ")
    }
}

/// A pool's calculated status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus<'a, T> {
    /// The nodes of each class; their numbers are the counts.
    pub classes: Classes<'a>,
    /// All conditions, in the order of their last change.
    pub conditions: Vec<PoolCondition<T>>,
    /// True if the wanted configuration is now the one that the pool has.
    pub has_target: bool,
}

/// Calculates a pool's status from its nodes and the conditions that it had.
pub fn status<'a, T: Clone>(pool: &Pool, nodes: &'a [Node], before: &[PoolCondition<T>], now: &T) -> PoolStatus<'a, T> {
    let classes = Classes::of(nodes, &pool.target);
    let target = &pool.target;
    let has_target = classes.all_updated(nodes.len());
    let mut conditions = Conditions { all: before.to_vec(), now };
    if has_target {
        conditions.set(condition::UPDATED, TRUE, "", format!("All nodes are updated with MachineConfig {target}"));
        conditions.set(condition::UPDATING, FALSE, "", String::new());
    } else {
        conditions.set(condition::UPDATED, FALSE, "", String::new());
        if pool.paused {
            conditions.set(condition::UPDATING, FALSE, "", format!("Pool is paused; will not update to MachineConfig {target}"));
        } else {
            conditions.set(condition::UPDATING, TRUE, "", format!("All nodes are updating to MachineConfig {target}"));
        }
    }
    let failing = classes.degraded.len();
    let node_degraded = failing > 0;
    let message = if node_degraded { classes.reported() } else { String::new() };
    if node_degraded {
        let reason = format!("{failing} nodes are reporting degraded status on sync");
        conditions.set(condition::NODE_DEGRADED, TRUE, &reason, message.clone());
    } else {
        conditions.set(condition::NODE_DEGRADED, FALSE, "", String::new());
    }
    let unrendered = before.iter().find(|one| one.kind == condition::RENDER_DEGRADED).is_some_and(|one| one.status == TRUE);
    let degraded = if node_degraded || unrendered { TRUE } else { FALSE };
    conditions.set(condition::DEGRADED, degraded, "", message);
    PoolStatus { classes, conditions: conditions.all, has_target }
}

struct Conditions<'a, T> {
    all: Vec<PoolCondition<T>>,
    now: &'a T,
}

impl<T: Clone> Conditions<'_, T> {
    /// Sets a condition. One that says the same stays where it is; another goes to the end, with the old time if the status is the same.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let old = self.all.iter().rfind(|one| one.kind == kind);
        if old.is_some_and(|old| old.status == status && old.reason == reason && old.message == message) {
            return;
        }
        let changed = old.filter(|old| old.status == status).map_or_else(|| self.now.clone(), |old| old.changed.clone());
        self.all.retain(|one| one.kind != kind);
        self.all.push(PoolCondition { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned(), message, changed });
    }
}
