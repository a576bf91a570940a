//! What is drawn: panels of nodes and edges.

use std::fmt;

use crate::Error;

/// The most nodes of a panel.
pub(crate) const MAX_NODES: usize = 5_000;
/// The most edges of a panel.
pub(crate) const MAX_EDGES: usize = 200_000;

/// A picture of one or more graphs that belong together.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// What it shows, one line.
    pub title: String,
    /// What a person should know before reading it, one or more sentences; may be empty.
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
    /// What is to be said of the whole graph; may be empty.
    pub notes: Vec<String>,
    /// Nodes from the lowest to the highest: where edges leave it open, this order decides who stands above whom.
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
    /// What is special about it.
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
    /// What is to be said of this edge alone; may be empty.
    pub note: String,
}

/// A kind of edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name, for the legend and for programs.
    pub name: String,
    /// How it is drawn.
    pub line: Line,
    /// Its colour.
    pub tone: Tone,
    /// Whether edges with common ends may be drawn as one line.
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

/// A colour by what it is for; pages and terminals have their own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The usual way.
    Main,
    /// A way beside it.
    Second,
    /// One more.
    Third,
    /// With care.
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

/// Whether edges of a kind are drawn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each edge is a line of its own.
    Apart,
    /// Edges with common ends share a line where that says nothing wrong.
    Fans,
}

/// Something special about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// It is the newest, nothing leads on from it.
    Head,
    /// It is what runs now.
    Installed,
    /// It does not run, but is what is asked about: ways begin here.
    Start,
    /// One step leads to it from what runs now.
    Next,
    /// It can be reached from what runs now.
    Reachable,
    /// It is better left.
    Deprecated,
    /// It can not be had.
    Blocked,
    /// It belongs to another panel, and is here because edges begin at it.
    Elsewhere,
}

impl Mark {
    /// All marks, in the order they are shown in.
    pub const ALL: [Self; 8] =
        [Self::Head, Self::Installed, Self::Start, Self::Next, Self::Reachable, Self::Deprecated, Self::Blocked, Self::Elsewhere];

    /// The word for it.
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

    /// Whether the mark is there.
    pub fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u8) != 0
    }

    /// The marks that are there.
    pub fn iter(self) -> impl Iterator<Item = Mark> {
        Mark::ALL.into_iter().filter(move |mark| self.has(*mark))
    }

    /// The marks as words. What is one step away can be reached, so that is said only once; who is elsewhere says where in its details.
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
    /// Checks that edges lead somewhere and that there are not too many; every drawing begins with it.
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
