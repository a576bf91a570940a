//! The reading of an update service's answer by a cluster (CVO-USC-07 to CVO-USC-13).

use std::collections::HashMap;

use mainstay_golang::url::{self, InvalidUrl};
use mainstay_golang::{quote, sort_slice};
use mainstay_versions::Version;
use serde::{Deserialize, Serialize};

use crate::evaluate::ConditionalUpdate;
use crate::labels;
use crate::read_graph::{InvalidGraph, TargetGraph, TargetNode};
use crate::request::{InvalidUuid, Query};
use crate::risk::valid_rules;

/// A release that a cluster could run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRelease {
    /// `Multi`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The pullspec of its image.
    #[serde(default)]
    pub image: String,
    /// The link to its errata.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The channels that hold it, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
}

/// The updates of a cluster, before risks are evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retrieved {
    /// The running release, as the graph has it.
    pub current: ClusterRelease,
    /// Recommended updates, in the order of their edges.
    pub updates: Vec<ClusterRelease>,
    /// Updates with risks, in the order of their edges.
    pub conditional: Vec<ConditionalUpdate>,
}

/// Why updates could not be retrieved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetrievalError {
    /// No update service is set.
    #[error("No updateService server has been set to retrieve updates.")]
    NoUpstream,
    /// The update service's URL cannot be read.
    #[error("failed to parse update service URL: {0}")]
    InvalidUri(InvalidUrl),
    /// The cluster's ID is no UUID.
    #[error("invalid cluster ID: {0}")]
    InvalidId(InvalidUuid),
    /// The architecture is not known.
    #[error("Architecture has not been configured.")]
    NoArchitecture,
    /// The running version is not known.
    #[error("The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.")]
    NoCurrentVersion,
    /// No channel is set.
    #[error("The update channel has not been configured.")]
    NoChannel,
    /// The running version is no semantic version.
    #[error("The current cluster version is not a valid semantic version and cannot be used to calculate upgrades.")]
    InvalidCurrentVersion,
    /// The request could not be made.
    #[error("Unable to retrieve available updates: {0}")]
    InvalidRequest(String),
    /// The update service could not be reached, in the words of the client.
    #[error("Unable to retrieve available updates: {0}")]
    RemoteFailed(String),
    /// The update service answered with another status than 200.
    #[error("Unable to retrieve available updates: unexpected HTTP status: {0}")]
    UnexpectedStatus(String),
    /// The answer broke off, in the words of the client.
    #[error("Unable to retrieve available updates: {0}")]
    ResponseFailed(String),
    /// The answer is no graph.
    #[error("Unable to retrieve available updates: {0}")]
    ResponseInvalid(InvalidGraph),
    /// The graph lacks the running version.
    #[error("Unable to retrieve available updates: currently reconciling cluster version {version} not found in the {} channel", quote(.channel))]
    VersionNotFound {
        /// The running version.
        version: String,
        /// The channel.
        channel: String,
    },
}

impl RetrievalError {
    /// The reason of the condition `RetrievedUpdates`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoUpstream => "NoUpstream",
            Self::InvalidUri(_) => "InvalidURI",
            Self::InvalidId(_) => "InvalidID",
            Self::NoArchitecture => "NoArchitecture",
            Self::NoCurrentVersion => "NoCurrentVersion",
            Self::NoChannel => "NoChannel",
            Self::InvalidCurrentVersion => "InvalidCurrentVersion",
            Self::InvalidRequest(_) => "InvalidRequest",
            Self::RemoteFailed(_) => "RemoteFailed",
            Self::UnexpectedStatus(_) | Self::ResponseFailed(_) => "ResponseFailed",
            Self::ResponseInvalid(_) => "ResponseInvalid",
            Self::VersionNotFound { .. } => "VersionNotFound",
        }
    }
}

/// The condition `RetrievedUpdates`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// True if the graph was read and holds the running version.
    pub retrieved: bool,
    /// The reason; empty if updates were retrieved.
    pub reason: &'static str,
    /// The message; empty if updates were retrieved.
    pub message: String,
}

/// Returns the condition of a retrieval (CVO-USC-07).
pub fn retrieved_condition<T>(outcome: &Result<T, RetrievalError>) -> Condition {
    match outcome {
        Ok(_) => Condition { retrieved: true, reason: "", message: String::new() },
        Err(error) => Condition { retrieved: false, reason: error.reason(), message: error.to_string() },
    }
}

/// A status as Go's servers and clients write it: `404 Not Found`.
pub fn status_text(code: u16) -> String {
    let reason = http::StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    match reason {
        Some(reason) => format!("{code} {reason}"),
        None => format!("{code} status code {code}"),
    }
}

/// Reads the answer to a query: `status` is the status line's text (`200 OK`), `body` the whole body.
pub fn retrieve(query: &Query, version: &Version, status: &str, body: &[u8]) -> Result<Retrieved, RetrievalError> {
    if status.split(' ').next() != Some("200") {
        return Err(RetrievalError::UnexpectedStatus(status.to_owned()));
    }
    let graph = TargetGraph::read(body).map_err(RetrievalError::ResponseInvalid)?;
    targets(query, version, &graph)
}

fn targets(query: &Query, version: &Version, graph: &TargetGraph) -> Result<Retrieved, RetrievalError> {
    let same = |node: &&TargetNode| node.version.cmp_precedence(version).is_eq();
    let Some(at) = graph.nodes.iter().position(|node| same(&node)) else {
        return Err(RetrievalError::VersionNotFound { version: version.to_string(), channel: query.channel.clone() });
    };
    let current = release(&graph.nodes[at], "current")?;
    if query.moves_to_multi() {
        return Ok(Retrieved { updates: vec![current.clone()], current, conditional: Vec::new() });
    }
    let mut updates = Vec::new();
    let node = |index: i64| usize::try_from(index).ok().filter(|index| *index < graph.nodes.len());
    // Edges of other versions are nothing to this cluster, wherever they lead.
    for (from, to) in graph.edges.iter().filter(|(from, _)| node(*from) == Some(at)) {
        let Some(target) = node(*to) else {
            let nodes = graph.nodes.len();
            return Err(RetrievalError::ResponseInvalid(InvalidGraph::EdgeOutOfRange { from: *from, to: *to, nodes }));
        };
        updates.push(release(&graph.nodes[target], "recommended update")?);
    }
    let text = version.to_string();
    let mut by_version = HashMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        by_version.entry(node.version.to_string()).or_insert(index);
    }
    let mut conditional = Vec::new();
    for group in &graph.conditional_edges {
        for edge in group.edges.iter().filter(|edge| edge.from == text) {
            let invalid = || RetrievalError::ResponseInvalid(InvalidGraph::NoNode(edge.to.clone()));
            let target = &graph.nodes[*by_version.get(&edge.to).ok_or_else(invalid)?];
            conditional.push(ConditionalUpdate {
                release: release(target, "conditional update")?,
                risks: group.risks.clone(),
                recommended: None,
            });
        }
    }
    updates.retain(|update| conditional.iter().all(|other| other.release.image != update.image));
    conditional.retain_mut(|update| {
        for risk in &mut update.risks {
            risk.matching_rules = valid_rules(&risk.matching_rules);
        }
        update.risks.iter().all(|risk| !risk.matching_rules.is_empty())
    });
    let mut images = HashMap::<String, usize>::new();
    for update in &conditional {
        *images.entry(update.release.image.clone()).or_default() += 1;
    }
    conditional.retain(|update| images[&update.release.image] == 1);
    Ok(Retrieved { current, updates, conditional })
}

/// The release of a node (CVO-USC-11); `role` names the node in errors.
fn release(node: &TargetNode, role: &'static str) -> Result<ClusterRelease, RetrievalError> {
    let version = node.version.to_string();
    let value = |key: &str| node.metadata.get(key).map(String::as_str);
    let link = value(labels::URL).unwrap_or_default();
    if let Err(source) = url::parse(link) {
        return Err(RetrievalError::ResponseInvalid(InvalidGraph::NodeUrl { role, version, source }));
    }
    let mut channels: Vec<String> = match value(labels::CHANNELS) {
        // An empty list is a list of one empty name, as upstream splits it.
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => Vec::new(),
    };
    channels.sort_unstable();
    let is_multi = value(labels::RELEASE_ARCHITECTURE) == Some(labels::MULTI);
    Ok(ClusterRelease {
        architecture: if is_multi { crate::request::MULTI_CLUSTER.to_owned() } else { String::new() },
        version,
        image: node.payload.clone(),
        url: link.to_owned(),
        channels,
    })
}

/// Sorts by version, highest first (CVO-USC-13); versions of one precedence are left as upstream's sort leaves them.
pub(crate) fn sort_by_version<T>(items: &mut [T], version: impl Fn(&T) -> &str) {
    sort_slice(items, |left, right| match (Version::parse(version(left)), Version::parse(version(right))) {
        (Ok(left), Ok(right)) => left.cmp_precedence(&right).is_ge(),
        // Versions of a graph were read from it as versions.
        _ => version(left) >= version(right),
    });
}
