//! Plain edges while a graph is built.

use std::collections::BTreeSet;

/// The origins of each node's edges.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    previous: Vec<BTreeSet<usize>>,
    count: usize,
}

impl Edges {
    /// Adds an edge; one that is there already stays.
    pub(crate) fn add(&mut self, from: usize, to: usize) {
        let last = from.max(to);
        if self.previous.len() <= last {
            self.previous.resize_with(last + 1, BTreeSet::new);
        }
        self.count += usize::from(self.previous[to].insert(from));
    }

    /// Removes an edge if it is there.
    pub(crate) fn remove(&mut self, from: usize, to: usize) {
        if self.previous.get_mut(to).is_some_and(|origins| origins.remove(&from)) {
            self.count -= 1;
        }
    }

    /// The origins of edges to a node.
    pub(crate) fn previous(&self, to: usize) -> impl Iterator<Item = usize> {
        self.previous.get(to).into_iter().flatten().copied()
    }

    /// Number of edges.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The targets of each of so many nodes, in order.
    pub(crate) fn next(&self, nodes: usize) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); nodes];
        for (to, origins) in self.previous.iter().enumerate() {
            for from in origins {
                next[*from].push(to);
            }
        }
        next
    }
}
