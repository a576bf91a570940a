//! The answer to a client: the graph of a channel and an architecture (CVO-OSUS-04 to CVO-OSUS-07).

use std::collections::BTreeSet;

use mainstay_golang::url;
use mainstay_versions::Version;
use serde_json::{Value, json};

use crate::build::{BuiltGraph, BuiltNode};
use crate::graph::{ConditionalEdge, ConditionalEdges, Graph, Node};
use crate::labels::{self, entries};

const DEFAULT_ARCHITECTURE: &str = "amd64";
const CHANNEL_FORM: &str = r"^[0-9a-z\-\.]+$";
const ARCHITECTURE_FORM: &str = "^[0-9a-z]+$";

/// The question of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters {
    /// The channel.
    pub channel: String,
    /// The architecture, in Go's spelling, or `multi`.
    pub architecture: String,
}

/// Why a client gets no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Parameters are missing.
    #[error("mandatory client parameters missing: {}", .0.join(", "))]
    MissingParams(Vec<&'static str>),
    /// A parameter has a value that it cannot have.
    #[error("invalid client parameters: {0}")]
    InvalidParams(String),
    /// The client accepts no media type that is spoken.
    #[error("invalid Content-Type requested")]
    InvalidContentType,
    /// There is nothing of that name.
    #[error("does not exist: {0}")]
    DoesNotExist(String),
    /// A version of the graph cannot be read.
    #[error("failed to process version: {0}")]
    ArchVersion(String),
    /// No graph could be fetched or built yet.
    #[error("failed to fetch upstream graph: {0}")]
    FailedUpstreamFetch(String),
    /// A graph cannot be written as JSON.
    #[error("failed to serialize JSON: {0}")]
    FailedJsonOut(String),
    /// A file cannot be opened.
    #[error("failed to open file: {0}")]
    FileOpen(String),
}

impl AnswerError {
    /// The kind in the error's document.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MissingParams(_) => "missing_params",
            Self::InvalidParams(_) => "invalid_params",
            Self::InvalidContentType => "invalid_content_type",
            Self::DoesNotExist(_) => "does_not_exist",
            Self::ArchVersion(_) => "arch_version_error",
            Self::FailedUpstreamFetch(_) => "failed_upstream_fetch",
            Self::FailedJsonOut(_) => "failed_json_out",
            Self::FileOpen(_) => "file_open_err",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::MissingParams(_) | Self::InvalidParams(_) => 400,
            Self::DoesNotExist(_) => 404,
            Self::InvalidContentType => 406,
            Self::ArchVersion(_) | Self::FailedUpstreamFetch(_) | Self::FailedJsonOut(_) | Self::FileOpen(_) => 500,
        }
    }

    /// The error's document.
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind(), "value": self.to_string()})
    }
}

impl Parameters {
    /// Reads the query of a URL, without its `?`.
    pub fn read(query: &str) -> Result<Self, AnswerError> {
        let mut pairs = url::Url { query: query.to_owned(), ..url::Url::default() }.pairs();
        let mut last = |key| pairs.remove(key).and_then(|mut values| values.pop());
        let channel = last("channel").ok_or(AnswerError::MissingParams(vec!["channel"]))?;
        let architecture = last("arch").unwrap_or_else(|| DEFAULT_ARCHITECTURE.to_owned());
        let plain = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
        if channel.is_empty() || !channel.chars().all(|c| plain(c) || matches!(c, '-' | '.')) {
            return Err(AnswerError::InvalidParams(format!("channel '{channel}' does not match regex '{CHANNEL_FORM}'")));
        }
        if architecture.is_empty() || !architecture.chars().all(plain) {
            return Err(AnswerError::InvalidParams(format!("arch '{architecture}' does not match regex '{ARCHITECTURE_FORM}'")));
        }
        Ok(Self { channel, architecture })
    }
}

/// The graph for a client: the nodes of its channel and architecture, and the edges that keep both ends.
pub fn answer(graph: &BuiltGraph, wanted: &Parameters) -> Graph {
    let has =
        |node: &BuiltNode, label: &str, value: &str| node.metadata.get(label).is_some_and(|list| entries(list).any(|entry| entry == value));
    let is_kept = |node: &BuiltNode| has(node, labels::CHANNELS, &wanted.channel) && has(node, labels::ARCHITECTURE, &wanted.architecture);
    let mut place = vec![None; graph.nodes.len()];
    let mut nodes = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| is_kept(node)) {
        place[index] = Some(nodes.len());
        let mut metadata = node.metadata.clone();
        metadata.remove(labels::ARCHITECTURE);
        let version = without_architecture(&node.version, &wanted.architecture);
        nodes.push(Node { version, payload: node.payload.clone(), metadata });
    }
    let both = |(from, to): &(usize, usize)| Some((place[*from]?, place[*to]?));
    let edges = graph.edges.iter().filter_map(both).collect();
    let groups = graph.conditional.iter().map(|group| ConditionalEdges {
        edges: group
            .edges
            .iter()
            .filter_map(both)
            .map(|(from, to)| ConditionalEdge { from: nodes[from].version.clone(), to: nodes[to].version.clone() })
            .collect(),
        risks: group.risks.clone(),
    });
    let conditional_edges = groups.filter(|group| !group.edges.is_empty()).collect();
    Graph { version: Graph::VERSION, nodes, edges, conditional_edges }
}

/// The version without the elements of its build part that name the architecture.
fn without_architecture(version: &Version, architecture: &str) -> String {
    let text = version.to_string();
    let Some((plain, build)) = text.split_once('+') else { return text };
    let rest: Vec<&str> = build.split('.').filter(|element| *element != architecture).collect();
    if rest.is_empty() { plain.to_owned() } else { format!("{plain}+{}", rest.join(".")) }
}

impl BuiltGraph {
    /// The channels that a node is in.
    pub fn channels(&self) -> BTreeSet<&str> {
        self.values(labels::CHANNELS)
    }

    /// The architectures that a node is for.
    pub fn architectures(&self) -> BTreeSet<&str> {
        self.values(labels::ARCHITECTURE)
    }

    fn values(&self, label: &str) -> BTreeSet<&str> {
        self.nodes.iter().filter_map(|node| node.metadata.get(label)).flat_map(|list| entries(list)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// CVO-OSUS-04, CVO-OSUS-06: parameters, and the errors about them.
    #[test]
    fn parameters() {
        for (query, channel, architecture) in [
            ("channel=fast-4.11", "fast-4.11", "amd64"),
            ("channel=a&channel=b&arch=arm64&version=x&id=y", "b", "arm64"),
            ("arch=multi&channel=c%2Dd", "c-d", "multi"),
        ] {
            let expected = Parameters { channel: channel.to_owned(), architecture: architecture.to_owned() };
            assert_eq!(Parameters::read(query).unwrap(), expected, "{query}");
        }
        for (query, status, kind, value) in [
            ("", 400, "missing_params", "mandatory client parameters missing: channel"),
            ("arch=amd64", 400, "missing_params", "mandatory client parameters missing: channel"),
            ("channel=", 400, "invalid_params", r"invalid client parameters: channel '' does not match regex '^[0-9a-z\-\.]+$'"),
            ("channel=A", 400, "invalid_params", r"invalid client parameters: channel 'A' does not match regex '^[0-9a-z\-\.]+$'"),
            ("channel=a&arch=x-y", 400, "invalid_params", "invalid client parameters: arch 'x-y' does not match regex '^[0-9a-z]+$'"),
            ("channel=a&arch=", 400, "invalid_params", "invalid client parameters: arch '' does not match regex '^[0-9a-z]+$'"),
        ] {
            let error = Parameters::read(query).unwrap_err();
            assert_eq!((error.status(), error.to_json()), (status, json!({"kind": kind, "value": value})), "{query}");
        }
    }

    /// CVO-OSUS-07: only the element of the build part that is the architecture leaves a version.
    #[test]
    fn build_parts() {
        for (version, expected) in
            [("4.1.0+amd64", "4.1.0"), ("4.1.0", "4.1.0"), ("4.1.0-rc.1+x.amd64.7", "4.1.0-rc.1+x.7"), ("4.1.0+amd64x", "4.1.0+amd64x")]
        {
            assert_eq!(without_architecture(&Version::parse(version).unwrap(), "amd64"), expected);
        }
    }
}
