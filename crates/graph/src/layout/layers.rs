//! The layer of each node, and the points where long edges pass the layers between.

use crate::model::Panel;
use crate::order::Order;

/// The most nodes beside each other.
const WIDEST: usize = 6;

/// The layer of each node, 0 the lowest: above everything that it has an edge from, and not too many in one.
pub(super) fn layers(panel: &Panel, order: &Order) -> Vec<usize> {
    let nodes = panel.nodes.len();
    let (mut above, mut below) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    for (edge, upward) in panel.edges.iter().zip(&order.upward).filter(|(edge, _)| edge.from != edge.to) {
        // An edge against the order also leads from one layer to another, downward.
        let (lower, upper) = if *upward { (edge.from, edge.to) } else { (edge.to, edge.from) };
        above[lower].push(upper);
        below[upper].push(lower);
    }
    let mut layer = vec![0; nodes];
    let mut count: Vec<usize> = Vec::new();
    let free = |count: &mut Vec<usize>, from: usize| {
        let mut at = from;
        while count.get(at).is_some_and(|count| *count >= WIDEST) {
            at += 1;
        }
        if count.len() <= at {
            count.resize(at + 1, 0);
        }
        count[at] += 1;
        at
    };
    for &node in &order.line {
        let from = below[node].iter().map(|lower| layer[*lower] + 1).max().unwrap_or_default();
        layer[node] = free(&mut count, from);
    }
    // A node with nothing below it may rise to just below the node that it leads to: short edges are better.
    for &node in order.line.iter().rev() {
        let Some(highest) = above[node].iter().map(|upper| layer[*upper]).min() else { continue };
        if !below[node].is_empty() {
            continue;
        }
        if let Some(better) = (layer[node] + 1..highest).rev().find(|at| count[*at] < WIDEST) {
            count[layer[node]] -= 1;
            count[better] += 1;
            layer[node] = better;
        }
    }
    without_gaps(&mut layer);
    layer
}

/// Removes layers that have become empty.
fn without_gaps(layer: &mut [usize]) {
    let mut used: Vec<usize> = layer.to_vec();
    used.sort_unstable();
    used.dedup();
    for at in layer {
        *at = used.binary_search(at).unwrap_or_default();
    }
}

/// A cell of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// A node.
    Node(usize),
    /// The point where an edge passes.
    Pass(usize),
}

/// Layers from the lowest, and the connections between them.
pub(super) struct Grid {
    /// All cells: nodes first, then passes.
    pub(super) cells: Vec<Cell>,
    /// Cells of each layer, from the left.
    pub(super) rows: Vec<Vec<usize>>,
    /// The cells below each cell.
    pub(super) below: Vec<Vec<usize>>,
    /// The cells above each cell.
    pub(super) above: Vec<Vec<usize>>,
    /// The cells of each drawn edge, from the lower end to the upper.
    pub(super) paths: Vec<(usize, Vec<usize>)>,
}

impl Grid {
    /// A grid of all nodes and of the given edges.
    pub(super) fn new(panel: &Panel, order: &Order, layer: &[usize], edges: &[usize]) -> Self {
        let nodes = panel.nodes.len();
        let rows = layer.iter().max().map_or(0, |last| last + 1);
        let mut grid = Self {
            cells: (0..nodes).map(Cell::Node).collect(),
            rows: vec![Vec::new(); rows],
            below: vec![Vec::new(); nodes],
            above: vec![Vec::new(); nodes],
            paths: Vec::new(),
        };
        for &node in &order.line {
            grid.rows[layer[node]].push(node);
        }
        for &position in edges {
            let edge = &panel.edges[position];
            let mut path = vec![edge.from];
            for row in layer[edge.from] + 1..layer[edge.to] {
                let pass = grid.cells.len();
                grid.cells.push(Cell::Pass(position));
                grid.below.push(Vec::new());
                grid.above.push(Vec::new());
                grid.rows[row].push(pass);
                path.push(pass);
            }
            path.push(edge.to);
            for pair in path.windows(2) {
                grid.above[pair[0]].push(pair[1]);
                grid.below[pair[1]].push(pair[0]);
            }
            grid.paths.push((position, path));
        }
        grid
    }
}
