//! The vertical order of nodes: a line of all nodes in which edges point upward, and the few edges that cannot.
//!
//! Nodes come in the order of the caller (versions, for example). Edges that demand another order win. If edges form a cycle, the one that
//! goes against the caller's order is set aside.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::model::{Edge, Panel};

/// Nodes from the lowest to the highest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// Positions of nodes, lowest first.
    pub line: Vec<usize>,
    /// The place of each node in `line`.
    pub place: Vec<usize>,
    /// One flag for each edge, true if it points upward. The others close a cycle, or begin and end at one node.
    pub upward: Vec<bool>,
}

impl Order {
    /// The same order upside down: edges that point upward in the result pointed downward before.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let last = self.line.len().saturating_sub(1);
        Self {
            line: self.line.iter().rev().copied().collect(),
            place: self.place.iter().map(|place| last - place).collect(),
            upward: self.upward.iter().map(|upward| !upward).collect(),
        }
    }
}

/// Computes the order of a panel's nodes.
pub fn order(panel: &Panel) -> Order {
    let nodes = panel.nodes.len();
    let mut upward: Vec<bool> = panel.edges.iter().map(|edge| edge.from != edge.to).collect();
    let components = components(nodes, &panel.edges);
    for (edge, upward) in panel.edges.iter().zip(&mut upward) {
        // Inside a cycle the caller's order decides; the cycle has none of its own.
        if components[edge.from] == components[edge.to] && edge.from > edge.to {
            *upward = false;
        }
    }
    let line = line(nodes, &panel.edges, &upward);
    let mut place = vec![0; nodes];
    for (at, &node) in line.iter().enumerate() {
        place[node] = at;
    }
    // Not every edge that was set aside has to point downward in the end.
    let upward = panel.edges.iter().map(|edge| place[edge.from] < place[edge.to]).collect();
    Order { line, place, upward }
}

/// A topological order that takes the first possible node in the caller's order each time.
fn line(nodes: usize, edges: &[Edge], upward: &[bool]) -> Vec<usize> {
    let mut above = vec![Vec::new(); nodes];
    let mut below = vec![0_usize; nodes];
    for (edge, _) in edges.iter().zip(upward).filter(|(_, upward)| **upward) {
        above[edge.from].push(edge.to);
        below[edge.to] += 1;
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes).filter(|node| below[*node] == 0).map(Reverse).collect();
    let mut line = Vec::with_capacity(nodes);
    while let Some(Reverse(node)) = ready.pop() {
        line.push(node);
        for &next in &above[node] {
            below[next] -= 1;
            if below[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    line
}

/// Strongly connected components (Tarjan, without recursion): a number for each node, equal for nodes on a common cycle.
fn components(nodes: usize, edges: &[Edge]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let mut out = vec![Vec::new(); nodes];
    for edge in edges {
        out[edge.from].push(edge.to);
    }
    let mut component = vec![UNSEEN; nodes];
    let (mut index, mut low) = (vec![UNSEEN; nodes], vec![0; nodes]);
    let mut open: Vec<usize> = Vec::new();
    let mut is_open = HashSet::new();
    let mut next = 0;
    for root in 0..nodes {
        if index[root] != UNSEEN {
            continue;
        }
        let mut walk = vec![(root, 0_usize)];
        while let Some(&(node, at)) = walk.last() {
            if at == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                open.push(node);
                is_open.insert(node);
            }
            if let Some(&to) = out[node].get(at) {
                if let Some(top) = walk.last_mut() {
                    top.1 += 1;
                }
                if index[to] == UNSEEN {
                    walk.push((to, 0));
                } else if is_open.contains(&to) {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            walk.pop();
            if let Some(&(parent, _)) = walk.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = open.pop() {
                    is_open.remove(&member);
                    component[member] = node;
                    if member == node {
                        break;
                    }
                }
            }
        }
    }
    component
}
