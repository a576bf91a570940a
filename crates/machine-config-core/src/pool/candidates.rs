//! Which nodes get the wanted configuration next (MACH-MCP-04 to MACH-MCP-08).

use std::fmt;

use mainstay_golang::sort_slice;

use super::MASTER;
use super::node::Node;

/// The nodes that could be next, and how many of them may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates<'a> {
    /// Nodes that are not asked for the configuration yet and are ready, in the given order.
    pub nodes: Vec<&'a Node>,
    /// The number of them that may become unavailable.
    pub capacity: usize,
}

impl<'a> Candidates<'a> {
    /// Finds the candidates among a pool's nodes. Nodes that fail at this very configuration use up capacity: they may recover.
    pub fn among(nodes: &'a [Node], target: &str, max_unavailable: i64) -> Self {
        let unavailable = nodes.iter().filter(|node| node.is_unavailable()).count();
        let failing = nodes.iter().filter(|node| node.is_targeted_at(target) && node.is_failing()).count();
        let free = max_unavailable.saturating_sub(unavailable as i64);
        match usize::try_from(free).map(|free| free.saturating_sub(failing)) {
            Ok(capacity) if capacity > 0 => {
                let nodes = nodes.iter().filter(|node| !node.is_targeted_at(target) && node.is_ready()).collect();
                Self { nodes, capacity }
            }
            _ => Self::default(),
        }
    }

    /// Returns as many as may be next, in the given order.
    pub fn in_given_order(&self) -> &[&'a Node] {
        self.nodes.get(..self.capacity).unwrap_or(&self.nodes)
    }

    /// Chooses those that are targeted now. In the control-plane pool the node that runs the operator waits until it is the only one; if
    /// not all can be targeted, zones follow each other, and the oldest nodes of a zone come first.
    pub fn choose(mut self, pool: &str, operator_node: Option<&str>) -> Targeting<'a> {
        let mut deferred = None;
        if pool == MASTER && self.nodes.len() > 1 {
            deferred = self.nodes.iter().find(|node| operator_node == Some(&node.name)).map(|node| node.name.clone());
            self.nodes.retain(|node| operator_node != Some(&node.name));
        }
        if self.capacity < self.nodes.len() {
            in_zones(&mut self.nodes);
            self.nodes.truncate(self.capacity);
        }
        Targeting { nodes: self.nodes, deferred }
    }
}

/// Sorts nodes by zone and age: nodes without a zone last, the oldest of a zone first.
pub fn in_zones(nodes: &mut [&Node]) {
    sort_slice(nodes, |one, other| match (one.zone(), other.zone()) {
        (Some(here), Some(there)) if here != there => here < there,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        _ => one.created < other.created,
    });
}

/// The nodes that are targeted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targeting<'a> {
    /// Those that get the wanted configuration, in the order of writing.
    pub nodes: Vec<&'a Node>,
    /// The operator's own node, which waits.
    pub deferred: Option<String>,
}

impl Targeting<'_> {
    /// Returns what is told about the pool, in order.
    pub fn events(&self, target: &str) -> Vec<PoolEvent> {
        let deferred = self.deferred.clone().map(|node| PoolEvent::DeferringOperatorNodeUpdate { node });
        let targeted = match self.nodes.as_slice() {
            [node] => PoolEvent::TargetedNode { node: node.name.clone(), config: target.to_owned() },
            nodes => PoolEvent::TargetedNodes { count: nodes.len(), config: target.to_owned() },
        };
        deferred.into_iter().chain([targeted]).collect()
    }
}

/// An event on a pool; its message is the `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEvent {
    /// The operator's node waits for the others.
    DeferringOperatorNodeUpdate {
        /// The node.
        node: String,
    },
    /// One node was targeted.
    TargetedNode {
        /// The node.
        node: String,
        /// The configuration.
        config: String,
    },
    /// Several nodes, or none, were targeted.
    TargetedNodes {
        /// The number.
        count: usize,
        /// The configuration.
        config: String,
    },
    /// The pool selects every node and is not processed.
    SelectingAll,
}

impl PoolEvent {
    /// Returns `Normal` or `Warning`.
    pub fn kind(&self) -> &'static str {
        if *self == Self::SelectingAll { "Warning" } else { "Normal" }
    }

    /// Returns the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DeferringOperatorNodeUpdate { .. } => "DeferringOperatorNodeUpdate",
            Self::TargetedNode { .. } | Self::TargetedNodes { .. } => "SetDesiredConfig",
            Self::SelectingAll => "SelectingAll",
        }
    }
}

impl fmt::Display for PoolEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeferringOperatorNodeUpdate { node } => write!(f, "Deferring update of machine config operator node {node}"),
            Self::TargetedNode { node, config } => write!(f, "Targeted node {node} to MachineConfig: {config}"),
            Self::TargetedNodes { count, config } => write!(f, "Set target for {count} nodes to MachineConfig: {config}"),
            Self::SelectingAll => f.write_str("This machineconfigpool is selecting all nodes. A non-empty selector is required."),
        }
    }
}
