//! The content of a drawing: panels of nodes and edges.

use std::fmt;

use crate::Error;

/// The most nodes of a panel.
pub(crate) const MAX_NODES: usize = 5_000;
/// The most edges of a panel.
pub(crate) const MAX_EDGES: usize = 200_000;

/// A picture of one or more graphs that belong together.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// Its subject, one line.
    pub title: String,
    /// An introduction for the reader, one or more sentences; may be empty.
    pub description: String,
    /// The kinds of edges, in the order of the legend.
    pub kinds: Vec<Kind>,
    /// The graphs.
    pub panels: Vec<Panel>,
}

/// One graph of a picture.
#[derive(Debug, Clone, Default)]
pub struct Panel {
    /// Its name.
    pub name: String,
    /// Remarks on the whole graph; may be empty.
    pub notes: Vec<String>,
    /// Nodes from the lowest to the highest: this order decides whatever the edges leave open.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
}

/// A box with text.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Unique name in its panel.
    pub id: String,
    /// The short name that people look for first.
    pub label: String,
    /// The rest, each a line of its own; may be empty.
    pub details: Vec<String>,
    /// Its special traits.
    pub marks: Marks,
}

/// A line with a head, from the lower to the higher node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Position of the node where it begins.
    pub from: usize,
    /// Position of the node where its head is.
    pub to: usize,
    /// Position of its kind in [`Picture::kinds`].
    pub kind: usize,
    /// A remark on this edge alone; may be empty.
    pub note: String,
}

/// A kind of edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name, for the legend and for programs.
    pub name: String,
    /// Its stroke.
    pub line: Line,
    /// Its colour.
    pub tone: Tone,
    /// Merging of edges with common ends into one line.
    pub merge: Merge,
}

/// Stroke of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Unbroken.
    Solid,
    /// Long strokes.
    Dashed,
    /// Points.
    Dotted,
}

/// A colour by purpose; pages and terminals have their own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The usual update.
    Main,
    /// An alternative to it.
    Second,
    /// One more alternative.
    Third,
    /// An edge that needs care.
    Warning,
}

impl Tone {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Second => "second",
            Self::Third => "third",
            Self::Warning => "warning",
        }
    }
}

/// Merging of the edges of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each edge is a line of its own.
    Apart,
    /// Edges with common ends share a line if that line stands for no other edge.
    Fans,
}

/// A special trait of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// It is the newest; no edge leads on from it.
    Head,
    /// It is installed now.
    Installed,
    /// It is not installed, but is the subject of the question: paths begin here.
    Start,
    /// One step leads to it from the installed node.
    Next,
    /// It can be reached from the installed node.
    Reachable,
    /// It should be avoided.
    Deprecated,
    /// It is unavailable.
    Blocked,
    /// It belongs to another panel, and is here because edges begin at it.
    Elsewhere,
}

impl Mark {
    /// All marks, in display order.
    pub const ALL: [Self; 8] =
        [Self::Head, Self::Installed, Self::Start, Self::Next, Self::Reachable, Self::Deprecated, Self::Blocked, Self::Elsewhere];

    /// Its name in drawings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Installed => "installed",
            Self::Start => "start",
            Self::Next => "next",
            Self::Reachable => "reachable",
            Self::Deprecated => "deprecated",
            Self::Blocked => "blocked",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// The marks of a node.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// No marks.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a mark.
    #[must_use]
    pub fn with(self, mark: Mark) -> Self {
        Self(self.0 | (1 << mark as u8))
    }

    /// Returns true if the mark is set.
    pub fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u8) != 0
    }

    /// The marks that are set.
    pub fn iter(self) -> impl Iterator<Item = Mark> {
        Mark::ALL.into_iter().filter(move |mark| self.has(*mark))
    }

    /// The marks as words. A node one step away can be reached, so `reachable` is left out; a node of another panel says so in its details.
    pub(crate) fn words(self) -> Vec<&'static str> {
        let said = |mark: &Mark| !(*mark == Mark::Reachable && self.has(Mark::Next) || *mark == Mark::Elsewhere);
        self.iter().filter(said).map(Mark::name).collect()
    }
}

impl FromIterator<Mark> for Marks {
    fn from_iter<I: IntoIterator<Item = Mark>>(marks: I) -> Self {
        marks.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Picture {
    /// Checks that every edge has its nodes and kind, and that there are not too many; every drawing begins with it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for panel in &self.panels {
            for (what, count, limit) in [("nodes", panel.nodes.len(), MAX_NODES), ("edges", panel.edges.len(), MAX_EDGES)] {
                if count > limit {
                    return Err(Error::TooLarge { panel: panel.name.clone(), what, count, limit });
                }
            }
            let known = |edge: &Edge| edge.from < panel.nodes.len() && edge.to < panel.nodes.len() && edge.kind < self.kinds.len();
            if let Some(edge) = panel.edges.iter().position(|edge| !known(edge)) {
                return Err(Error::UnknownEnd { panel: panel.name.clone(), edge });
            }
        }
        Ok(())
    }

    /// The kinds that occur, by position.
    pub(crate) fn kinds_in_use(&self) -> Vec<(usize, &Kind)> {
        let used = |position: usize| self.panels.iter().any(|panel| panel.edges.iter().any(|edge| edge.kind == position));
        self.kinds.iter().enumerate().filter(|(position, _)| used(*position)).collect()
    }

    /// The marks that occur.
    pub(crate) fn marks_in_use(&self) -> Vec<Mark> {
        let used = |mark: Mark| self.panels.iter().any(|panel| panel.nodes.iter().any(|node| node.marks.has(mark)));
        Mark::ALL.into_iter().filter(|mark| used(*mark)).collect()
    }
}
