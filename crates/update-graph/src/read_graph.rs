//! The graph in an answer, read as Go's JSON reader fills upstream's struct, with the words of its errors (CVO-USC-09, CVO-USC-10).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use mainstay_golang::json_reader::{SyntaxError, check_syntax};
use mainstay_golang::url::InvalidUrl;
use mainstay_versions::Version;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::risk::{MatchingRule, Promql, Risk};

/// The largest answer that is read, in bytes; the whole graph of a product has about two million.
pub const MAX_GRAPH_BYTES: usize = 32 << 20;
const MAX_NODES: usize = 50_000;
const MAX_EDGES: usize = 1_000_000;
const MAX_CONDITIONAL_EDGES: usize = 1_000_000;
const MAX_RISKS: usize = 1_000_000;

/// The part of a graph that a cluster looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetGraph {
    pub(crate) nodes: Vec<TargetNode>,
    pub(crate) edges: Vec<(i64, i64)>,
    pub(crate) conditional_edges: Vec<TargetEdges>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetNode {
    pub(crate) version: Version,
    pub(crate) payload: String,
    pub(crate) metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetEdges {
    pub(crate) edges: Vec<TargetEdge>,
    pub(crate) risks: Vec<Risk>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetEdge {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// Why an answer is no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGraph {
    /// It is no JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A value does not fit its place.
    #[error("json: cannot unmarshal {found} into Go {place} of type {expected}")]
    Type {
        /// The JSON type that was found.
        found: String,
        /// The place.
        place: String,
        /// Go's type.
        expected: &'static str,
    },
    /// The version of a node is no semantic version.
    #[error(transparent)]
    Version(#[from] mainstay_versions::Error),
    /// An edge is not a pair.
    #[error("expected 2 fields, found {0}")]
    EdgeFields(usize),
    /// An edge names a node that is not in the list.
    #[error("edge from {from} to {to} is out of range: the graph has {nodes} nodes")]
    EdgeOutOfRange {
        /// The index of its origin.
        from: i64,
        /// The index of its target.
        to: i64,
        /// The number of nodes.
        nodes: usize,
    },
    /// A conditional edge leads from the running version to a version without a node.
    #[error("no node for conditional update {0}")]
    NoNode(String),
    /// The link of a node is no URL.
    #[error("invalid {role} node: invalid URL for {version}: {source}")]
    NodeUrl {
        /// The release that the node stands for.
        role: &'static str,
        /// Its version.
        version: String,
        /// The problem of the URL.
        source: InvalidUrl,
    },
    /// It is too large.
    #[error("the graph is too large: more than {limit} {what}")]
    TooLarge {
        /// The limit that is exceeded.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The text cannot be taken apart although it is JSON, as a text with half of a surrogate pair.
    #[error("{0}")]
    Unreadable(String),
}

impl TargetGraph {
    /// Reads an answer's body.
    pub fn read(body: &[u8]) -> Result<Self, InvalidGraph> {
        if body.len() > MAX_GRAPH_BYTES {
            return Err(InvalidGraph::TooLarge { what: "bytes", limit: MAX_GRAPH_BYTES });
        }
        // Go replaces bytes that are no UTF-8.
        let text = String::from_utf8_lossy(body);
        check_syntax(text.as_bytes())?;
        let mut reader = Reader { wrong_type: None, place: Place { owner: "", path: Vec::new() } };
        let graph = reader.graph(raw(&text)?)?;
        match reader.wrong_type {
            // Go reads on after a value of a wrong type, and reports the first one; other errors end the reading at once.
            Some(error) => Err(error),
            None => Ok(graph),
        }
    }
}

fn unreadable(error: &serde_json::Error) -> InvalidGraph {
    InvalidGraph::Unreadable(error.to_string())
}

fn raw(text: &str) -> Result<&RawValue, InvalidGraph> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

/// The members of an object in the order of the text.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((Cow::Owned(key), value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// The JSON type of a value, by its first character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

fn kind(value: &RawValue) -> Kind {
    match value.get().trim_start().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::List,
        Some(b'"') => Kind::Text,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
            Self::Object => "object",
        }
    }
}

/// Where the reader is, as Go's errors name it: the innermost struct, and the path from the outermost.
#[derive(Clone)]
struct Place {
    owner: &'static str,
    path: Vec<&'static str>,
}

struct Reader {
    wrong_type: Option<InvalidGraph>,
    place: Place,
}

type Field = (&'static str, usize);

impl Reader {
    fn misfit(&self, found: impl Into<String>, expected: &'static str) -> InvalidGraph {
        let place = if self.place.owner.is_empty() {
            "value".to_owned()
        } else {
            format!("struct field {}.{}", self.place.owner, self.place.path.join("."))
        };
        InvalidGraph::Type { found: found.into(), place, expected }
    }

    /// Notes a value of a wrong type; the first counts.
    fn note(&mut self, found: Kind, expected: &'static str) {
        if self.wrong_type.is_none() {
            self.wrong_type = Some(self.misfit(found.name(), expected));
        }
    }

    /// Goes through the members of a struct that have fields, in the order of the text.
    fn fields(
        &mut self,
        value: &RawValue,
        (owner, go_type): (&'static str, &'static str),
        fields: &[Field],
        mut read: impl FnMut(&mut Self, usize, &RawValue) -> Result<(), InvalidGraph>,
    ) -> Result<(), InvalidGraph> {
        match kind(value) {
            Kind::Null => return Ok(()),
            Kind::Object => {}
            other => {
                self.note(other, go_type);
                return Ok(());
            }
        }
        let Members(members) = serde_json::from_str(value.get()).map_err(|error| unreadable(&error))?;
        let outer = self.place.owner;
        for (key, member) in members {
            let exact = fields.iter().find(|(name, _)| *name == key);
            let Some((name, number)) = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key))) else { continue };
            self.place.owner = owner;
            self.place.path.push(name);
            read(self, *number, member)?;
            self.place.path.pop();
        }
        self.place.owner = outer;
        Ok(())
    }

    /// The elements of a list; none if the value is null or no list.
    fn items<'a>(&mut self, value: &'a RawValue, go_type: &'static str) -> Result<Vec<&'a RawValue>, InvalidGraph> {
        match kind(value) {
            Kind::List => serde_json::from_str(value.get()).map_err(|error| unreadable(&error)),
            Kind::Null => Ok(Vec::new()),
            other => {
                self.note(other, go_type);
                Ok(Vec::new())
            }
        }
    }

    /// A text; null leaves it as it is.
    fn text(&mut self, value: &RawValue, into: &mut String) -> Result<(), InvalidGraph> {
        match kind(value) {
            Kind::Text => *into = serde_json::from_str(value.get()).map_err(|error| unreadable(&error))?,
            Kind::Null => {}
            other => self.note(other, "string"),
        }
        Ok(())
    }

    fn graph(&mut self, value: &RawValue) -> Result<TargetGraph, InvalidGraph> {
        let mut graph = TargetGraph::default();
        let (mut pairs, mut risks) = (0, 0);
        self.fields(
            value,
            ("graph", "cincinnati.graph"),
            &[("Nodes", 0), ("Edges", 1), ("conditionalEdges", 2)],
            |reader, field, value| {
                match field {
                    0 => {
                        let items = reader.items(value, "[]cincinnati.node")?;
                        at_most("nodes", items.len(), MAX_NODES)?;
                        graph.nodes = items.into_iter().map(|item| reader.node(item)).collect::<Result<_, _>>()?;
                    }
                    1 => {
                        let items = reader.items(value, "[]cincinnati.edge")?;
                        at_most("edges", items.len(), MAX_EDGES)?;
                        graph.edges = items.into_iter().map(|item| reader.edge(item)).collect::<Result<_, _>>()?;
                    }
                    _ => {
                        let items = reader.items(value, "[]cincinnati.conditionalEdges")?;
                        at_most("conditional edges", items.len(), MAX_CONDITIONAL_EDGES)?;
                        graph.conditional_edges.clear();
                        for item in items {
                            let group = reader.conditional_edges(item)?;
                            pairs += group.edges.len();
                            risks += group.risks.len();
                            at_most("conditional edges", pairs, MAX_CONDITIONAL_EDGES)?;
                            at_most("risks", risks, MAX_RISKS)?;
                            graph.conditional_edges.push(group);
                        }
                    }
                }
                Ok(())
            },
        )?;
        Ok(graph)
    }

    fn node(&mut self, value: &RawValue) -> Result<TargetNode, InvalidGraph> {
        let mut node = TargetNode { version: Version::new(0, 0, 0), payload: String::new(), metadata: BTreeMap::new() };
        self.fields(value, ("node", "cincinnati.node"), &[("version", 0), ("payload", 1), ("metadata", 2)], |reader, field, value| {
            match field {
                0 => node.version = reader.version(value)?,
                1 => reader.text(value, &mut node.payload)?,
                _ => reader.metadata(value, &mut node.metadata)?,
            }
            Ok(())
        })?;
        Ok(node)
    }

    /// A version reads itself: an error of it ends the reading.
    fn version(&mut self, value: &RawValue) -> Result<Version, InvalidGraph> {
        let text: String = match kind(value) {
            Kind::Text => serde_json::from_str(value.get()).map_err(|error| unreadable(&error))?,
            Kind::Null => String::new(),
            other => return Err(self.misfit(other.name(), "string")),
        };
        Ok(Version::parse(&text)?)
    }

    fn metadata(&mut self, value: &RawValue, into: &mut BTreeMap<String, String>) -> Result<(), InvalidGraph> {
        match kind(value) {
            Kind::Object => {}
            Kind::Null => {
                into.clear();
                return Ok(());
            }
            other => {
                self.note(other, "map[string]string");
                return Ok(());
            }
        }
        let Members(members) = serde_json::from_str(value.get()).map_err(|error| unreadable(&error))?;
        for (key, member) in members {
            let mut text = String::new();
            self.text(member, &mut text)?;
            into.insert(key.into_owned(), text);
        }
        Ok(())
    }

    /// An edge reads itself, too.
    fn edge(&mut self, value: &RawValue) -> Result<(i64, i64), InvalidGraph> {
        let items: Vec<&RawValue> = match kind(value) {
            Kind::List => serde_json::from_str(value.get()).map_err(|error| unreadable(&error))?,
            Kind::Null => Vec::new(),
            other => return Err(self.misfit(other.name(), "[]int")),
        };
        let (mut numbers, mut wrong) = (Vec::with_capacity(2), None);
        for item in &items {
            let number = match kind(item) {
                Kind::Null => Ok(0),
                Kind::Number => item.get().trim().parse::<i64>().map_err(|_| format!("number {}", item.get().trim())),
                other => Err(other.name().to_owned()),
            };
            match number {
                Ok(number) => numbers.push(number),
                Err(found) => wrong = wrong.or(Some(found)),
            }
        }
        if let Some(found) = wrong {
            return Err(self.misfit(found, "int"));
        }
        match numbers.as_slice() {
            [from, to] => Ok((*from, *to)),
            other => Err(InvalidGraph::EdgeFields(other.len())),
        }
    }

    fn conditional_edges(&mut self, value: &RawValue) -> Result<TargetEdges, InvalidGraph> {
        let mut group = TargetEdges::default();
        self.fields(value, ("conditionalEdges", "cincinnati.conditionalEdges"), &[("edges", 0), ("risks", 1)], |reader, field, value| {
            if field == 0 {
                let items = reader.items(value, "[]cincinnati.conditionalEdge")?;
                group.edges = items.into_iter().map(|item| reader.conditional_edge(item)).collect::<Result<_, _>>()?;
            } else {
                let items = reader.items(value, "[]v1.ConditionalUpdateRisk")?;
                group.risks = items.into_iter().map(|item| reader.risk(item)).collect::<Result<_, _>>()?;
            }
            Ok(())
        })?;
        Ok(group)
    }

    fn conditional_edge(&mut self, value: &RawValue) -> Result<TargetEdge, InvalidGraph> {
        let mut edge = TargetEdge::default();
        self.fields(value, ("conditionalEdge", "cincinnati.conditionalEdge"), &[("from", 0), ("to", 1)], |reader, field, value| {
            reader.text(value, if field == 0 { &mut edge.from } else { &mut edge.to })
        })?;
        Ok(edge)
    }

    fn risk(&mut self, value: &RawValue) -> Result<Risk, InvalidGraph> {
        const FIELDS: [Field; 4] = [("url", 0), ("name", 1), ("message", 2), ("matchingRules", 3)];
        let mut risk = Risk::default();
        self.fields(value, ("ConditionalUpdateRisk", "v1.ConditionalUpdateRisk"), &FIELDS, |reader, field, value| match field {
            0 => reader.text(value, &mut risk.url),
            1 => reader.text(value, &mut risk.name),
            2 => reader.text(value, &mut risk.message),
            _ => {
                let items = reader.items(value, "[]v1.ClusterCondition")?;
                risk.matching_rules = items.into_iter().map(|item| reader.rule(item)).collect::<Result<_, _>>()?;
                Ok(())
            }
        })?;
        Ok(risk)
    }

    fn rule(&mut self, value: &RawValue) -> Result<MatchingRule, InvalidGraph> {
        let mut rule = MatchingRule::default();
        self.fields(value, ("ClusterCondition", "v1.ClusterCondition"), &[("type", 0), ("promql", 1)], |reader, field, value| {
            if field == 0 {
                return reader.text(value, &mut rule.kind);
            }
            if kind(value) == Kind::Null {
                rule.promql = None;
                return Ok(());
            }
            let mut promql = Promql::default();
            reader.fields(value, ("PromQLClusterCondition", "v1.PromQLClusterCondition"), &[("promql", 0)], |reader, _, value| {
                reader.text(value, &mut promql.promql)
            })?;
            rule.promql = Some(promql);
            Ok(())
        })?;
        Ok(rule)
    }
}

fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), InvalidGraph> {
    if found > limit { Err(InvalidGraph::TooLarge { what, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn refused(text: &str) -> String {
        TargetGraph::read(text.as_bytes()).unwrap_err().to_string()
    }

    /// CVO-USC-07, CVO-USC-10: an answer that is no graph is refused in the words of Go's reader; of several wrong values the first counts.
    #[test]
    fn what_is_no_graph() {
        for (text, words) in [
            ("", "unexpected end of JSON input"),
            ("<html>", "invalid character '<' looking for beginning of value"),
            ("[]", "json: cannot unmarshal array into Go value of type cincinnati.graph"),
            (r#"{"nodes": 1}"#, "json: cannot unmarshal number into Go struct field graph.Nodes of type []cincinnati.node"),
            (r#"{"nodes": ["a"]}"#, "json: cannot unmarshal string into Go struct field graph.Nodes of type cincinnati.node"),
            (r#"{"nodes": [{"version": 4}]}"#, "json: cannot unmarshal number into Go struct field node.Nodes.version of type string"),
            (r#"{"nodes": [{"version": "4.x.1"}]}"#, "Invalid character(s) found in minor number \"x\""),
            (r#"{"nodes": [{"version": null}]}"#, "Version string empty"),
            (
                r#"{"nodes": [{"version": "1.0.0", "metadata": {"a": 1}}]}"#,
                "json: cannot unmarshal number into Go struct field node.Nodes.metadata of type string",
            ),
            (r#"{"edges": [[0, 1, 2]]}"#, "expected 2 fields, found 3"),
            (r#"{"edges": [null]}"#, "expected 2 fields, found 0"),
            (r#"{"edges": [["0", 1]]}"#, "json: cannot unmarshal string into Go struct field graph.Edges of type int"),
            (r#"{"edges": [[0, 1.5]]}"#, "json: cannot unmarshal number 1.5 into Go struct field graph.Edges of type int"),
            (r#"{"edges": [{}]}"#, "json: cannot unmarshal object into Go struct field graph.Edges of type []int"),
            (
                r#"{"conditionalEdges": [{"risks": [{"matchingRules": [{"promql": "up"}]}]}]}"#,
                "json: cannot unmarshal string into Go struct field ClusterCondition.conditionalEdges.risks.matchingRules.promql of type v1.PromQLClusterCondition",
            ),
            (r#"{"nodes": 1, "edges": 2}"#, "json: cannot unmarshal number into Go struct field graph.Nodes of type []cincinnati.node"),
            (r#"{"nodes": 1, "edges": [[0]]}"#, "expected 2 fields, found 1"),
        ] {
            assert_eq!(refused(text), words, "{text}");
        }
    }

    /// CVO-USC-09: names of fields are read without regard to case, unknown ones are ignored, null is nothing.
    #[test]
    fn what_is_a_graph() {
        let text = r#"{"version": 7, "NODES": [{"Version": "1.0.0+b", "payload": null, "metadata": null, "x": []}], "edges": null, "conditionaledges": [null]}"#;
        let graph = TargetGraph::read(text.as_bytes()).unwrap();
        assert_eq!((graph.nodes.len(), graph.edges.len(), graph.conditional_edges.len()), (1, 0, 1));
        assert_eq!(graph.nodes[0].version.to_string(), "1.0.0+b");
        assert_eq!(TargetGraph::read(b" null "), Ok(TargetGraph::default()));
    }

    /// CVO-USC-10: hostile answers end in an error, not in memory.
    #[test]
    fn hostile_answers() {
        let large = format!("{{\"a\": \"{}\"}}", "x".repeat(50 << 20));
        assert_eq!(refused(&large), format!("the graph is too large: more than {MAX_GRAPH_BYTES} bytes"));
        assert_eq!(refused(&"[".repeat(1 << 20)), "exceeded max depth");
        let many = format!("{{\"nodes\": [{}]}}", vec!["{}"; MAX_NODES + 1].join(","));
        assert_eq!(refused(&many), "the graph is too large: more than 50000 nodes");
        let mut edges = "{\"edges\": [".to_owned();
        edges.push_str(&"[0,0],".repeat(MAX_EDGES));
        edges.push_str("[0,0]]}");
        assert_eq!(refused(&edges), "the graph is too large: more than 1000000 edges");
        let half = TargetGraph::read(br#"{"nodes": [{"version": "1.0.0", "payload": "\ud800"}]}"#);
        assert!(matches!(half, Err(InvalidGraph::Unreadable(_))), "{half:?}");
    }
}
