//! Fans of edges as rails.
//!
//! When many versions may update to each of many others, a line for each pair hides everything. A rail is one line beside the nodes that
//! some nodes enter and some leave: a node that enters has an edge to every exit above. A rail stands for exactly the edges of the picture:
//!
//! ```text
//!    c ◄╮       c can be reached from a and b,
//!    b ◄┤       b from a:
//!    a ─╯       three edges, one rail
//! ```

use std::collections::BTreeMap;

use crate::model::Panel;
use crate::order::Order;

/// The most rails that a fan is compared with. More would be slow, for pictures that are unreadable anyway.
const RAILS_TRIED: usize = 48;

/// One line that stands for an edge from each of its entries to each exit above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// Kind of the edges.
    pub kind: usize,
    /// Nodes that enter, lowest first.
    pub entries: Vec<usize>,
    /// Nodes where the rail can be left, lowest first.
    pub exits: Vec<usize>,
    /// Remarks on its edges, each text once.
    pub notes: Vec<String>,
}

impl Rail {
    /// Places of the lowest entry and the highest exit.
    pub(crate) fn span(&self, order: &Order) -> (usize, usize) {
        let low = self.entries.iter().map(|node| order.place[*node]).min().unwrap_or_default();
        let high = self.exits.iter().map(|node| order.place[*node]).max().unwrap_or_default();
        (low, high)
    }
}

/// Merges the given edges, all of one kind and all upward, into rails.
pub fn rails(panel: &Panel, order: &Order, edges: &[usize]) -> Vec<Rail> {
    let mut fans: BTreeMap<(usize, usize), Fan> = BTreeMap::new();
    for &edge in edges {
        let edge = &panel.edges[edge];
        let fan = fans.entry((edge.kind, order.place[edge.to])).or_insert_with(|| Fan::new(panel.nodes.len()));
        fan.sources.insert(order.place[edge.from]);
        if !edge.note.is_empty() && !fan.notes.contains(&edge.note) {
            fan.notes.push(edge.note.clone());
        }
    }
    let mut open: Vec<Open<'_>> = Vec::new();
    for ((kind, exit), fan) in &fans {
        let mut left = fan.sources.clone();
        let recent = open.len().saturating_sub(RAILS_TRIED);
        // The rail that carries most of the fan comes first.
        let mut candidates: Vec<(usize, usize)> = (recent..open.len())
            .filter(|at| open[*at].kind == *kind && open[*at].entries.is_within(&fan.sources))
            .map(|at| (open[at].entries.common(&left), at))
            .collect();
        candidates.sort_by(|a, b| b.cmp(a));
        for (_, at) in candidates {
            let rail = &mut open[at];
            if rail.entries.common(&left) == 0 {
                continue;
            }
            left.remove_all(&rail.entries);
            for source in left.places().collect::<Vec<_>>() {
                // A rail has an edge from each entry to every exit above; the fan must have these edges, too.
                if rail.exits.iter().all(|(exit, fan)| *exit <= source || fan.sources.contains(source)) {
                    rail.entries.insert(source);
                    left.remove(source);
                }
            }
            rail.exits.push((*exit, fan));
        }
        if !left.is_empty() {
            open.push(Open { kind: *kind, entries: left, exits: vec![(*exit, fan)] });
        }
    }
    let rail = |open: Open<'_>| {
        let mut notes: Vec<String> = Vec::new();
        for note in open.exits.iter().flat_map(|(_, fan)| &fan.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        Rail {
            kind: open.kind,
            entries: open.entries.places().map(|place| order.line[place]).collect(),
            exits: open.exits.iter().map(|(place, _)| order.line[*place]).collect(),
            notes,
        }
    };
    open.into_iter().map(rail).collect()
}

/// All edges of one kind that end at one node.
struct Fan {
    sources: Places,
    notes: Vec<String>,
}

impl Fan {
    fn new(nodes: usize) -> Self {
        Self { sources: Places(vec![0; nodes.div_ceil(64)]), notes: Vec::new() }
    }
}

struct Open<'f> {
    kind: usize,
    entries: Places,
    exits: Vec<(usize, &'f Fan)>,
}

/// A set of places in the order.
#[derive(Clone)]
struct Places(Vec<u64>);

impl Places {
    fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn remove(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }

    fn contains(&self, place: usize) -> bool {
        self.0[place / 64] & (1 << (place % 64)) != 0
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine & !theirs == 0)
    }

    fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(mine, theirs)| (mine & theirs).count_ones() as usize).sum()
    }

    fn remove_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= !theirs;
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len() * 64).filter(|place| self.contains(*place))
    }
}
