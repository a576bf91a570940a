//! Builds the graph from releases and graph-data (CVO-OSUS-13, CVO-OSUS-14, CVO-GD-02 to CVO-GD-05).
//!
//! ```text
//!   releases ─ nodes, edges of previous and next
//!   labels, channels, blocked edges ─ on nodes
//!   add edges ─ no circle? ─ conditional edges of what is there ─ remove edges ─ remove nodes
//! ```

use std::collections::{BTreeMap, HashMap};

use mainstay_versions::Version;

use crate::edges::Edges;
use crate::graph::GraphLimits;
use crate::graph_data::labels::append;
use crate::graph_data::{BlockedEdge, GraphData, GraphDataProblem, Patterns};
use crate::labels::{self, entries};
use crate::release::{Release, with_build, without_build};
use crate::risk::Risk;
use crate::{cycle, graph};

/// The graph of all channels and architectures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuiltGraph {
    /// The releases, by version.
    pub nodes: Vec<BuiltNode>,
    /// Plain edges: from, to.
    pub edges: Vec<(usize, usize)>,
    /// Edges with risks, by the lists of risks that they share.
    pub conditional: Vec<ConditionalGroup>,
}

/// A release of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltNode {
    /// The version; its build part is the architecture.
    pub version: Version,
    /// The pullspec of the image.
    pub payload: String,
    /// Labels.
    pub metadata: BTreeMap<String, String>,
}

/// Edges that share their risks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalGroup {
    /// The edges: from, to.
    pub edges: Vec<(usize, usize)>,
    /// The risks.
    pub risks: Vec<Risk>,
}

/// Why a graph cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// Two images are one release.
    #[error("mismatched manifest ref for concrete release {version}: {first}, {second}")]
    TwoImages {
        /// The version with its architecture.
        version: String,
        /// One image.
        first: String,
        /// The other.
        second: String,
    },
    /// Edges go in a circle.
    #[error("edges go in a circle: {}", .0.join(" -> "))]
    Circle(Vec<String>),
    /// A label of a node cannot be read.
    #[error(transparent)]
    Label(Box<InvalidLabel>),
    /// Two files give a risk of one name different texts for one edge.
    #[error(transparent)]
    RiskTexts(Box<DifferentRisks>),
    /// There is too much.
    #[error("the graph has more than {limit} {what}")]
    TooLarge {
        /// The limit that is exceeded.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// A label of a node that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("release {version}: label {label}: {}: {problem}", mainstay_golang::quote(.value))]
pub struct InvalidLabel {
    /// The node.
    pub version: String,
    /// The label.
    pub label: &'static str,
    /// Its value.
    pub value: String,
    /// The problem.
    pub problem: LabelProblem,
}

/// Two files that give a risk of one name different texts for one edge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("risk {name} of the update from {from} to {to} is described differently by {first} and {second}")]
pub struct DifferentRisks {
    /// The risk.
    pub name: String,
    /// The origin.
    pub from: String,
    /// The target.
    pub to: String,
    /// One file.
    pub first: String,
    /// The other.
    pub second: String,
}

/// A problem of a label.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LabelProblem {
    /// It names no version.
    #[error(transparent)]
    Version(#[from] mainstay_versions::Error),
    /// It is no regular expression, or too large a one.
    #[error(transparent)]
    Pattern(#[from] GraphDataProblem),
}

fn invalid_label(version: &Version, label: &'static str, value: &str, problem: LabelProblem) -> BuildError {
    BuildError::Label(Box::new(InvalidLabel { version: version.to_string(), label, value: value.to_owned(), problem }))
}

/// Builds the graph.
pub fn build(releases: Vec<Release>, data: &GraphData, limits: &GraphLimits) -> Result<BuiltGraph, BuildError> {
    let mut builder = Builder { limits, nodes: Vec::new(), concrete: Vec::new(), by_version: HashMap::new(), edges: Edges::default() };
    builder.add_releases(releases)?;
    builder.apply_labels(data);
    builder.apply_channels(data);
    let blocked = builder.blocked_edges(data);
    builder.add_labelled_edges()?;
    builder.refuse_circles()?;
    let conditional = builder.conditional_edges(data, &blocked)?;
    builder.remove_labelled_edges()?;
    builder.remove_by_pattern()?;
    for (node, edges) in &blocked {
        builder.remove_blocked(data, *node, edges);
    }
    builder.remove_next()?;
    Ok(builder.finish(conditional))
}

struct Builder<'a> {
    limits: &'a GraphLimits,
    nodes: Vec<BuiltNode>,
    /// False for a release that is only named by others.
    concrete: Vec<bool>,
    by_version: HashMap<String, usize>,
    edges: Edges,
}

/// Blocked edges of graph-data by the node that they lead to.
type Blocked = BTreeMap<usize, Vec<usize>>;
/// Numbers of risks by edge: target, origin.
type Risks = BTreeMap<(usize, usize), Vec<usize>>;

/// The conditional edges while a graph is built.
struct Conditional {
    risks: Vec<Risk>,
    by_edge: Risks,
}

impl Builder<'_> {
    fn node(&mut self, node: BuiltNode, concrete: bool) -> Result<usize, BuildError> {
        if self.nodes.len() == self.limits.nodes {
            return Err(BuildError::TooLarge { what: "releases", limit: self.limits.nodes });
        }
        self.by_version.insert(node.version.to_string(), self.nodes.len());
        self.nodes.push(node);
        self.concrete.push(concrete);
        Ok(self.nodes.len() - 1)
    }

    fn edge(&mut self, from: usize, to: usize) -> Result<(), BuildError> {
        self.edges.add(from, to);
        if self.edges.len() > self.limits.edges {
            return Err(BuildError::TooLarge { what: "edges", limit: self.limits.edges });
        }
        Ok(())
    }

    fn add_releases(&mut self, mut releases: Vec<Release>) -> Result<(), BuildError> {
        // The order of a registry's tags must not show.
        releases.sort_by(|left, right| (&left.metadata.version, &left.payload).cmp(&(&right.metadata.version, &right.payload)));
        let mut neighbours = Vec::new();
        for Release { payload, metadata } in releases {
            let version = metadata.version.to_string();
            if let Some(known) = self.by_version.get(&version).map(|index| &self.nodes[*index]) {
                let image = |payload: &str, labels: &BTreeMap<String, String>| {
                    labels.get(labels::MANIFEST_REF).cloned().unwrap_or_else(|| payload.to_owned())
                };
                let (first, second) = (image(&known.payload, &known.metadata), image(&payload, &metadata.metadata));
                if first != second {
                    return Err(BuildError::TwoImages { version, first, second });
                }
                continue;
            }
            let node = self.node(BuiltNode { version: metadata.version, payload, metadata: metadata.metadata }, true)?;
            neighbours.push((node, metadata.previous, metadata.next));
        }
        for (node, previous, next) in neighbours {
            let build = self.nodes[node].version.build().to_owned();
            for version in previous {
                let from = self.named(&with_build(&version, &build))?;
                self.edge(from, node)?;
            }
            for version in next {
                let to = self.named(&with_build(&version, &build))?;
                self.edge(node, to)?;
            }
        }
        Ok(())
    }

    /// The node of a version; one without an image if no release has it.
    fn named(&mut self, version: &Version) -> Result<usize, BuildError> {
        match self.by_version.get(&version.to_string()) {
            Some(index) => Ok(*index),
            None => self.node(BuiltNode { version: version.clone(), payload: String::new(), metadata: BTreeMap::new() }, false),
        }
    }

    fn concrete_nodes(&mut self) -> impl Iterator<Item = (usize, &mut BuiltNode)> {
        self.nodes
            .iter_mut()
            .zip(&self.concrete)
            .enumerate()
            .filter(|(_, (_, concrete))| **concrete)
            .map(|(index, (node, _))| (index, node))
    }

    fn apply_labels(&mut self, data: &GraphData) {
        for (_, node) in self.concrete_nodes() {
            for (key, value) in data.labels.get(&without_build(&node.version)).into_iter().flatten() {
                append(&mut node.metadata, key, value);
            }
        }
    }

    fn apply_channels(&mut self, data: &GraphData) {
        for (_, node) in self.concrete_nodes() {
            let own = node.metadata.get(labels::CHANNELS).map(String::as_str).unwrap_or_default();
            let mut names: Vec<String> = entries(own).map(str::to_owned).collect();
            names.extend(data.channels.iter().filter(|channel| channel.holds(&node.version)).map(|channel| channel.name.clone()));
            if names.is_empty() {
                continue;
            }
            names.sort_by(|left, right| channel_order(left).cmp(&channel_order(right)));
            names.dedup();
            node.metadata.insert(labels::CHANNELS.to_owned(), names.join(","));
        }
    }

    /// The blocked edges of graph-data by the node that they lead to.
    fn blocked_edges(&self, data: &GraphData) -> Blocked {
        let mut by_target = HashMap::<Version, Vec<usize>>::new();
        for (number, edge) in data.blocked_edges.iter().enumerate() {
            by_target.entry(without_build(&edge.to)).or_default().push(number);
        }
        let mut blocked = Blocked::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| self.concrete[*index]) {
            let candidates = by_target.get(&without_build(&node.version)).into_iter().flatten().copied();
            let of_node: Vec<usize> = candidates.filter(|number| data.blocked_edges[*number].leads_to(&node.version)).collect();
            if !of_node.is_empty() {
                blocked.insert(index, of_node);
            }
        }
        blocked
    }

    /// The nodes with a label, in order.
    fn labelled(&self, label: &str) -> Vec<(usize, String)> {
        let value = |(index, node): (usize, &BuiltNode)| Some((index, node.metadata.get(label)?.clone()));
        self.nodes.iter().enumerate().filter_map(value).collect()
    }

    /// The nodes that a label of a node names; versions that the graph lacks are left out.
    fn neighbours(&self, node: usize, label: &'static str, list: &str) -> Result<Vec<usize>, BuildError> {
        let BuiltNode { version, metadata, .. } = &self.nodes[node];
        let architecture = metadata.get(labels::ARCHITECTURE);
        let mut found = Vec::new();
        for text in entries(list) {
            let named = Version::parse(text).map_err(|error| invalid_label(version, label, text, error.into()))?;
            let named = architecture.map_or_else(|| named.clone(), |build| with_build(&named, build));
            found.extend(self.by_version.get(&named.to_string()));
        }
        Ok(found)
    }

    fn add_labelled_edges(&mut self) -> Result<(), BuildError> {
        for (to, list) in self.labelled(labels::PREVIOUS_ADD) {
            for from in self.neighbours(to, labels::PREVIOUS_ADD, &list)? {
                self.edge(from, to)?;
            }
        }
        for (from, list) in self.labelled(labels::NEXT_ADD) {
            for to in self.neighbours(from, labels::NEXT_ADD, &list)? {
                self.edge(from, to)?;
            }
        }
        Ok(())
    }

    fn refuse_circles(&self) -> Result<(), BuildError> {
        const SHOWN: usize = 10;
        let Some(circle) = cycle::find(&self.edges.next(self.nodes.len())) else { return Ok(()) };
        let mut versions: Vec<String> = circle.iter().take(SHOWN).map(|node| self.nodes[*node].version.to_string()).collect();
        if circle.len() > SHOWN {
            versions.push("...".to_owned());
        }
        versions.push(self.nodes[circle[0]].version.to_string());
        Err(BuildError::Circle(versions))
    }

    /// The edges that are there and that a blocked edge offers with a risk.
    fn conditional_edges(&self, data: &GraphData, blocked: &Blocked) -> Result<Conditional, BuildError> {
        let mut found = Conditional { risks: Vec::new(), by_edge: Risks::new() };
        let mut numbers = HashMap::<&Risk, usize>::new();
        let mut count = 0;
        for (to, edges) in blocked {
            for from in self.edges.previous(*to).filter(|from| self.concrete[*from]) {
                let origin = self.nodes[from].version.to_string();
                let matching = edges.iter().map(|number| &data.blocked_edges[*number]).filter(|edge| edge.matches(&origin));
                let mut of_edge: Vec<(usize, &BlockedEdge)> = Vec::new();
                for (edge, risk) in matching.filter_map(|edge| Some((edge, edge.risk.as_ref()?))) {
                    let number = *numbers.entry(risk).or_insert_with(|| {
                        found.risks.push(risk.clone());
                        found.risks.len() - 1
                    });
                    match of_edge.iter().find(|(other, _)| found.risks[*other].name == risk.name) {
                        Some((other, _)) if *other == number => continue,
                        Some((_, other)) => {
                            return Err(BuildError::RiskTexts(Box::new(DifferentRisks {
                                name: risk.name.clone(),
                                from: origin,
                                to: self.nodes[*to].version.to_string(),
                                first: other.file.clone(),
                                second: edge.file.clone(),
                            })));
                        }
                        None => of_edge.push((number, edge)),
                    }
                    count += 1;
                    if count > self.limits.risks {
                        return Err(BuildError::TooLarge { what: "risks of edges", limit: self.limits.risks });
                    }
                }
                if !of_edge.is_empty() {
                    found.by_edge.insert((*to, from), of_edge.into_iter().map(|(number, _)| number).collect());
                }
            }
        }
        Ok(found)
    }

    fn remove_labelled_edges(&mut self) -> Result<(), BuildError> {
        for (to, list) in self.labelled(labels::PREVIOUS_REMOVE) {
            let origins =
                if list.trim() == "*" { self.edges.previous(to).collect() } else { self.neighbours(to, labels::PREVIOUS_REMOVE, &list)? };
            for from in origins {
                self.edges.remove(from, to);
            }
        }
        Ok(())
    }

    /// Removes blocked edges, and writes their expressions on the node that they lead to, as upstream does.
    fn remove_blocked(&mut self, data: &GraphData, to: usize, edges: &[usize]) {
        let edges: Vec<&BlockedEdge> = edges.iter().map(|number| &data.blocked_edges[*number]).collect();
        self.remove_previous(to, |origin| edges.iter().any(|edge| edge.matches(origin)));
        let label = self.nodes[to].metadata.entry(labels::PREVIOUS_REMOVE_REGEX.to_owned()).or_default();
        for edge in edges {
            if !label.is_empty() {
                label.push('|');
            }
            label.push_str(&edge.from);
        }
    }

    fn remove_previous(&mut self, to: usize, is_blocked: impl Fn(&str) -> bool) {
        let origins: Vec<usize> = self.edges.previous(to).filter(|from| is_blocked(&self.nodes[*from].version.to_string())).collect();
        for from in origins {
            self.edges.remove(from, to);
        }
    }

    /// Removes edges by the expressions that a release, or the labels of its version, have.
    fn remove_by_pattern(&mut self) -> Result<(), BuildError> {
        let mut patterns = Patterns::default();
        for (to, text) in self.labelled(labels::PREVIOUS_REMOVE_REGEX) {
            let invalid =
                |problem: GraphDataProblem| invalid_label(&self.nodes[to].version, labels::PREVIOUS_REMOVE_REGEX, &text, problem.into());
            let pattern = patterns.get(&text).map_err(invalid)?;
            self.remove_previous(to, |origin| pattern.is_match(origin));
        }
        Ok(())
    }

    fn remove_next(&mut self) -> Result<(), BuildError> {
        for (from, list) in self.labelled(labels::NEXT_REMOVE) {
            for to in self.neighbours(from, labels::NEXT_REMOVE, &list)? {
                self.edges.remove(from, to);
            }
        }
        Ok(())
    }

    /// The graph without nodes that have no image or are to be removed, in the order of versions.
    fn finish(self, conditional: Conditional) -> BuiltGraph {
        let next = self.edges.next(self.nodes.len());
        let is_kept = |index: usize| {
            self.concrete[index] && self.nodes[index].metadata.get(labels::RELEASE_REMOVE).is_none_or(|value| value != "true")
        };
        let kept: Vec<bool> = (0..self.nodes.len()).map(is_kept).collect();
        // Concrete nodes came first, in the order of their versions.
        let mut place = vec![None; self.nodes.len()];
        for (number, index) in (0..self.nodes.len()).filter(|index| kept[*index]).enumerate() {
            place[index] = Some(number);
        }
        let both = |from: usize, to: usize| Some((place[from]?, place[to]?));
        let edges = next.iter().enumerate().flat_map(|(from, targets)| targets.iter().filter_map(move |to| both(from, *to))).collect();
        let mut groups = Vec::<ConditionalGroup>::new();
        let mut by_risks = HashMap::<Vec<usize>, usize>::new();
        for ((to, from), risks) in conditional.by_edge {
            let Some(edge) = both(from, to) else { continue };
            let group = *by_risks.entry(risks).or_insert_with_key(|risks| {
                let risks = risks.iter().map(|number| conditional.risks[*number].clone()).collect();
                groups.push(ConditionalGroup { edges: Vec::new(), risks });
                groups.len() - 1
            });
            groups[group].edges.push(edge);
        }
        let nodes = self.nodes.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(node, _)| node).collect();
        BuiltGraph { nodes, edges, conditional: groups }
    }
}

impl BlockedEdge {
    /// Returns true if the expression is found in an origin's version.
    pub fn matches(&self, origin: &str) -> bool {
        self.from == ".*" || self.pattern.is_match(origin)
    }
}

impl BuiltGraph {
    /// The graph in the form of the protocol, with the labels that the update service itself acts on.
    pub fn to_graph(&self) -> graph::Graph {
        let version = |index: usize| self.nodes[index].version.to_string();
        let node = |node: &BuiltNode| graph::Node {
            version: node.version.to_string(),
            payload: node.payload.clone(),
            metadata: node.metadata.clone(),
        };
        let edge = |(from, to): &(usize, usize)| graph::ConditionalEdge { from: version(*from), to: version(*to) };
        let group = |group: &ConditionalGroup| graph::ConditionalEdges {
            edges: group.edges.iter().map(edge).collect(),
            risks: group.risks.clone(),
        };
        graph::Graph {
            version: graph::Graph::VERSION,
            nodes: self.nodes.iter().map(node).collect(),
            edges: self.edges.clone(),
            conditional_edges: self.conditional.iter().map(group).collect(),
        }
    }
}

/// The order of channels on a node (CVO-GD-03): by what follows the last dash, as a version, then by what stands before.
pub(crate) fn channel_order(name: &str) -> (Vec<ChannelPart<'_>>, &str) {
    let (prefix, version) = name.rsplit_once('-').unwrap_or((name, ""));
    let part = |text| str::parse(text).map_or(ChannelPart::Text(text), ChannelPart::Number);
    (version.split('.').map(part).collect(), prefix)
}

/// A part of a channel's version: numbers by size, before other texts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChannelPart<'a> {
    Number(u64),
    Text(&'a str),
}
