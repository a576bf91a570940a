//! One pass over a pool: what is written to its nodes, and what is told.

use mainstay_objects::LabelSelector;

use super::Pool;
use super::candidates::{Candidates, PoolEvent};
use super::limit::{LimitError, max_unavailable};
use super::node::Node;

/// The plan of a pass over a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass<'a> {
    /// Nothing: no configuration was rendered yet.
    Unconfigured,
    /// Nothing but an event: the pool selects every node (MACH-MCP-13).
    SelectingAll,
    /// Only the status is calculated: the pool is paused or deleted (MACH-PAUSE-01).
    StatusOnly,
    /// Nodes are tainted and targeted.
    Update(Update<'a>),
}

/// The writes of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// Nodes that wait and lack the taint.
    pub taint: Vec<&'a Node>,
    /// Nodes that are asked for the configuration and still have the taint.
    pub untaint: Vec<&'a Node>,
    /// Nodes that are asked for the configuration now.
    pub target: Vec<&'a Node>,
    /// The events about the pool.
    pub events: Vec<PoolEvent>,
}

/// Plans a pass over a pool and its nodes.
///
/// # Errors
/// The pool's `maxUnavailable` cannot be read.
pub fn plan<'a>(
    pool: &Pool,
    selector: Option<&LabelSelector>,
    deleted: bool,
    nodes: &'a [Node],
    operator_node: Option<&str>,
) -> Result<Pass<'a>, LimitError> {
    if pool.target.is_empty() {
        return Ok(Pass::Unconfigured);
    }
    if selector.is_some_and(LabelSelector::is_empty) {
        return Ok(Pass::SelectingAll);
    }
    if deleted || pool.paused {
        return Ok(Pass::StatusOnly);
    }
    let limit = max_unavailable(pool.max_unavailable.as_ref(), nodes.len())?;
    let (asked, waiting): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| node.is_targeted_at(&pool.target));
    let mut update = Update {
        taint: waiting.into_iter().filter(|node| !node.update_taint).collect(),
        untaint: asked.into_iter().filter(|node| node.update_taint).collect(),
        target: Vec::new(),
        events: Vec::new(),
    };
    let candidates = Candidates::among(nodes, &pool.target, limit);
    if !candidates.nodes.is_empty() {
        let targeting = candidates.choose(&pool.name, operator_node);
        update.events = targeting.events(&pool.target);
        update.target = targeting.nodes;
    }
    Ok(Pass::Update(update))
}
