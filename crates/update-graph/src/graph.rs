//! The graph as the protocol has it (CVO-OSUS-02).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::risk::Risk;

/// A graph: nodes, plain edges between them by index, and edges with risks by version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    /// The version of the protocol.
    pub version: u32,
    /// The releases, by version.
    pub nodes: Vec<Node>,
    /// Plain edges: from, to.
    pub edges: Vec<(usize, usize)>,
    /// Edges with risks.
    #[serde(default)]
    pub conditional_edges: Vec<ConditionalEdges>,
}

/// A release in a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The version.
    pub version: String,
    /// The pullspec of the image by digest.
    pub payload: String,
    /// Labels.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Edges that share their risks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalEdges {
    /// The edges.
    pub edges: Vec<ConditionalEdge>,
    /// The risks.
    pub risks: Vec<Risk>,
}

/// An edge by versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConditionalEdge {
    /// The version updated from.
    pub from: String,
    /// The version updated to.
    pub to: String,
}

/// Limits of a graph that is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphLimits {
    /// Releases, those that are only named included.
    pub nodes: usize,
    /// Plain edges.
    pub edges: usize,
    /// Risks on edges: each risk of each edge counts.
    pub risks: usize,
}

impl Default for GraphLimits {
    fn default() -> Self {
        Self { nodes: 50_000, edges: 2_000_000, risks: 2_000_000 }
    }
}

impl Graph {
    /// The version of the protocol that is spoken.
    pub const VERSION: u32 = 1;

    /// A graph without nodes, as an unknown channel has it.
    pub fn empty() -> Self {
        Self { version: Self::VERSION, ..Self::default() }
    }

    /// Number of conditional edges.
    pub fn conditional_count(&self) -> usize {
        self.conditional_edges.iter().map(|group| group.edges.len()).sum()
    }
}
