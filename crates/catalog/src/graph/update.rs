//! The update graph of one package: each channel's bundles with all edges between them, and the update paths from one of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use mainstay_versions::Version;

use super::edge::{EdgeKind, Updates};
use crate::facts::{ChannelFacts, PackageFacts};

/// The most bundles of a channel, and the most edges between them.
const MAX_NODES: usize = 5_000;
const MAX_EDGES: usize = 200_000;

/// Error for a channel that is too large for a readable graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("channel {channel} of package {package} has more than {limit} {what}, which is more than a graph can show")]
pub struct TooLarge {
    /// The package.
    pub package: String,
    /// The channel.
    pub channel: String,
    /// Bundles or update edges.
    pub what: &'static str,
    /// The most that a graph can show.
    pub limit: usize,
}

/// The update graph of a package.
#[derive(Debug, Clone)]
pub struct UpdateGraph<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// Its default channel.
    pub default_channel: Option<&'a str>,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Its channels, the default one first, then by name.
    pub channels: Vec<ChannelGraph<'a>>,
    /// The start of the update paths.
    pub start: Option<Start>,
}

/// The bundle that is installed, or assumed to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Name of the bundle, or its version if no bundle is known.
    pub bundle: String,
    /// Its version.
    pub version: Option<Version>,
    /// State of the bundle: installed on a cluster or only asked about.
    pub state: StartState,
}

/// State of the start of update paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartState {
    /// It is installed.
    Installed,
    /// It is only asked about.
    Asked,
}

/// One channel.
#[derive(Debug, Clone)]
pub struct ChannelGraph<'a> {
    /// Name of the channel.
    pub name: &'a str,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// Its bundles and those that its edges begin at, by version, the lowest first.
    pub nodes: Vec<GraphNode<'a>>,
    /// Its edges.
    pub edges: Vec<UpdateEdge>,
    /// Names that are skipped, but that no channel of the package has.
    pub skipped_unknown: BTreeSet<&'a str>,
}

/// A bundle in a channel.
#[derive(Debug, Clone)]
pub struct GraphNode<'a> {
    /// Name of the bundle.
    pub name: String,
    /// Its version, if a blob gives it.
    pub version: Option<Version>,
    /// Its relation to the channel.
    pub place: Place,
    /// Message of its deprecation.
    pub deprecation: Option<&'a str>,
    /// The range of its entry.
    pub skip_range: Option<&'a str>,
    /// True if nothing in the channel replaces or skips it.
    pub head: bool,
}

/// Relation of a bundle to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The channel has an entry for it, and the catalog has its blob.
    Entry,
    /// The channel has an entry for it, but there is no blob: it cannot be installed.
    EntryWithoutBundle,
    /// Edges begin at it, but the channel has no entry for it.
    Outside,
}

/// An edge inside a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateEdge {
    /// Position of the bundle that is updated.
    pub from: usize,
    /// Position of the bundle that it is updated to.
    pub to: usize,
    /// The kind of the edge.
    pub kind: EdgeKind,
}

impl<'a> UpdateGraph<'a> {
    /// The graph of the channels that `wanted` names (of all, when it names none).
    pub fn new(facts: &'a PackageFacts<'a>, wanted: &[String], start: Option<Start>) -> Result<Self, TooLarge> {
        let known = Known::of(facts);
        let chosen = facts.channels.iter().filter(|channel| wanted.is_empty() || wanted.iter().any(|name| name == channel.name));
        let too_large = |channel: &str, (what, limit): (&'static str, usize)| TooLarge {
            package: facts.name.to_owned(),
            channel: channel.to_owned(),
            what,
            limit,
        };
        let mut channels: Vec<ChannelGraph<'a>> = chosen
            .map(|channel| ChannelGraph::new(channel, &known, start.as_ref()).map_err(|excess| too_large(channel.name, excess)))
            .collect::<Result<_, _>>()?;
        let default = facts.default_channel;
        channels.sort_by(|a, b| (Some(a.name) != default, a.name).cmp(&(Some(b.name) != default, b.name)));
        Ok(Self { package: facts.name, default_channel: default, deprecation: facts.deprecation, channels, start })
    }

    /// Returns the bundles that can be reached from the start, with the number of steps, over all channels of the graph.
    pub fn paths(&self) -> UpdatePaths {
        let Some(start) = &self.start else { return UpdatePaths::default() };
        let mut next: HashMap<&str, BTreeMap<(Option<&Version>, &str), &str>> = HashMap::new();
        for channel in &self.channels {
            for edge in &channel.edges {
                let (from, to) = (&channel.nodes[edge.from], &channel.nodes[edge.to]);
                next.entry(&from.name).or_default().insert((to.version.as_ref(), to.name.as_str()), to.name.as_str());
            }
        }
        let mut ways = UpdatePaths { before: BTreeMap::new(), steps: BTreeMap::from([(start.bundle.clone(), 0)]) };
        let mut queue = VecDeque::from([(start.bundle.as_str(), 0)]);
        while let Some((here, steps)) = queue.pop_front() {
            // The highest version first, so that a shortest path goes through it.
            for to in next.get(here).into_iter().flat_map(|next| next.values().rev()) {
                if !ways.steps.contains_key(*to) {
                    ways.steps.insert((*to).to_owned(), steps + 1);
                    ways.before.insert((*to).to_owned(), here.to_owned());
                    queue.push_back((to, steps + 1));
                }
            }
        }
        ways
    }
}

/// Paths from the start to the other bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdatePaths {
    steps: BTreeMap<String, usize>,
    before: BTreeMap<String, String>,
}

impl UpdatePaths {
    /// The number of steps to a bundle; `None` if it cannot be reached.
    pub fn steps(&self, bundle: &str) -> Option<usize> {
        self.steps.get(bundle).copied()
    }

    /// A shortest path, start and end included.
    pub fn path(&self, bundle: &str) -> Option<Vec<&str>> {
        let (mut at, _) = self.steps.get_key_value(bundle)?;
        let mut path = vec![at.as_str()];
        while let Some(before) = self.before.get(at) {
            path.push(before);
            at = before;
        }
        path.reverse();
        Some(path)
    }
}

/// Facts of the package about its bundles.
struct Known<'a> {
    bundles: HashMap<&'a str, (Option<Version>, Option<&'a str>)>,
    entries: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(facts: &'a PackageFacts<'a>) -> Self {
        let of = |text: Option<&str>| text.and_then(|text| Version::parse(text).ok());
        Self {
            bundles: facts.bundles.iter().map(|bundle| (bundle.name, (of(bundle.version), bundle.deprecation))).collect(),
            entries: facts.channels.iter().flat_map(|channel| &channel.entries).map(|entry| entry.name).collect(),
        }
    }

    fn node(&self, name: &str, place: Place) -> GraphNode<'a> {
        let (version, deprecation) = self.bundles.get(name).cloned().unwrap_or_default();
        GraphNode { name: name.to_owned(), version, place, deprecation, skip_range: None, head: false }
    }
}

impl<'a> ChannelGraph<'a> {
    /// Returns the graph, or the part of which there is too much.
    fn new(channel: &'a ChannelFacts<'a>, known: &Known<'a>, start: Option<&Start>) -> Result<Self, (&'static str, usize)> {
        let mut nodes: Vec<GraphNode<'a>> = Vec::new();
        let mut met: BTreeSet<&str> = BTreeSet::new();
        for entry in channel.entries.iter().filter(|entry| met.insert(entry.name)) {
            let place = if known.bundles.contains_key(entry.name) { Place::Entry } else { Place::EntryWithoutBundle };
            nodes.push(GraphNode { skip_range: entry.skip_range, ..known.node(entry.name, place) });
        }
        let passed: BTreeSet<&str> = channel
            .entries
            .iter()
            .flat_map(|entry| entry.skips.iter().copied().chain(entry.replaces).filter(|name| *name != entry.name))
            .collect();
        for node in &mut nodes {
            node.head = !passed.contains(node.name.as_str());
        }
        let mut skipped_unknown = BTreeSet::new();
        for &name in passed.iter().filter(|name| !met.contains(*name)) {
            let replaced = channel.entries.iter().any(|entry| entry.replaces == Some(name));
            if replaced
                || known.bundles.contains_key(name)
                || known.entries.contains(name)
                || start.is_some_and(|start| start.bundle == name)
            {
                nodes.push(known.node(name, Place::Outside));
            } else {
                skipped_unknown.insert(name);
            }
        }
        let updates: Vec<Updates<'_>> = channel.entries.iter().map(Updates::of).collect();
        if let Some(start) = start
            && nodes.iter().all(|node| node.name != start.bundle)
            && updates.iter().any(|entry| entry.edge(&start.bundle, start.version.as_ref()).is_some())
        {
            nodes.push(GraphNode { version: start.version.clone(), ..known.node(&start.bundle, Place::Outside) });
        }
        if nodes.len() > MAX_NODES {
            return Err(("bundles", MAX_NODES));
        }
        nodes.sort_by(|a, b| (a.order(), &a.name).cmp(&(b.order(), &b.name)));
        let position: HashMap<&str, usize> = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let mut edges = Vec::new();
        for (entry, updates) in channel.entries.iter().zip(&updates) {
            let to = position[entry.name];
            for (from, node) in nodes.iter().enumerate().filter(|(from, _)| *from != to) {
                edges.extend(updates.edges(&node.name, node.version.as_ref()).map(|kind| UpdateEdge { from, to, kind }));
            }
            if edges.len() > MAX_EDGES {
                return Err(("update edges", MAX_EDGES));
            }
        }
        Ok(Self { name: channel.name, deprecation: channel.deprecation, nodes, edges, skipped_unknown })
    }

    /// The bundles that nothing in the channel replaces or skips; one, in a valid channel.
    pub fn heads(&self) -> impl Iterator<Item = &GraphNode<'a>> {
        self.nodes.iter().filter(|node| node.head)
    }

    /// The entry with the highest version.
    pub fn newest(&self) -> Option<&GraphNode<'a>> {
        self.nodes.iter().rev().find(|node| node.place != Place::Outside)
    }
}

impl GraphNode<'_> {
    /// The version that orders the node among others: its own, or the one that its name ends with.
    fn order(&self) -> Option<Version> {
        self.version.clone().or_else(|| self.version_in_name())
    }

    fn version_in_name(&self) -> Option<Version> {
        let starts = self.name.char_indices().filter(|(_, letter)| *letter == '.').map(|(at, _)| at + 1).chain([0]);
        starts.filter_map(|at| self.name.get(at..)).find_map(|text| Version::parse(text.strip_prefix('v').unwrap_or(text)).ok())
    }

    /// A short name of the node.
    pub fn short(&self) -> String {
        self.order().map_or_else(|| self.name.clone(), |version| version.to_string())
    }
}
