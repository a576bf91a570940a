//! The graph that is served, and its answers: immutable, each encoded once (CVO-OSUS-08, CVO-OSUS-09).

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use mainstay_update_graph::{AnswerError, BuiltGraph, Graph, Parameters, answer};
use sha2::{Digest as _, Sha256};

/// Pairs of channel and architecture that answers are kept for.
const MAX_ANSWERS: usize = 100_000;

/// A graph with its answers.
#[derive(Debug)]
pub struct Snapshot {
    graph: BuiltGraph,
    answers: HashMap<Parameters, OnceLock<Encoded>>,
    /// The answer for channels and architectures that the graph lacks.
    empty: OnceLock<Encoded>,
    /// The whole graph, for policy engines elsewhere.
    whole: OnceLock<Encoded>,
    pub(crate) graph_data: Bytes,
    pub(crate) graph_data_tag: String,
}

/// An answer's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) plain: Bytes,
    pub(crate) gzip: Bytes,
    /// The strong tag of the plain bytes, in quotes; that of the compressed bytes differs.
    pub(crate) tag: String,
    pub(crate) gzip_tag: String,
}

impl Snapshot {
    /// A snapshot of a graph, with the graph-data that it was built with as tar.gz.
    pub fn new(graph: BuiltGraph, graph_data: Bytes) -> Arc<Self> {
        let mut answers = HashMap::new();
        for channel in graph.channels() {
            for architecture in graph.architectures() {
                if answers.len() < MAX_ANSWERS {
                    let parameters = Parameters { channel: channel.to_owned(), architecture: architecture.to_owned() };
                    answers.insert(parameters, OnceLock::new());
                }
            }
        }
        let graph_data_tag = format!("\"{}\"", hash(&graph_data));
        Arc::new(Self { graph, answers, empty: OnceLock::new(), whole: OnceLock::new(), graph_data, graph_data_tag })
    }

    /// Number of releases.
    pub fn len(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Returns true if there is no release.
    pub fn is_empty(&self) -> bool {
        self.graph.nodes.is_empty()
    }

    /// The answer for a channel and an architecture.
    pub(crate) fn answer(&self, parameters: &Parameters) -> Result<Encoded, AnswerError> {
        match self.answers.get(parameters) {
            Some(cell) => encoded(cell, || answer(&self.graph, parameters)),
            // The names are the client's: nothing is kept for them.
            None if self.answers.len() == MAX_ANSWERS => encode(&answer(&self.graph, parameters)),
            None => encoded(&self.empty, Graph::empty),
        }
    }

    /// The whole graph.
    pub(crate) fn whole(&self) -> Result<Encoded, AnswerError> {
        encoded(&self.whole, || self.graph.to_graph())
    }
}

fn encoded(cell: &OnceLock<Encoded>, graph: impl FnOnce() -> Graph) -> Result<Encoded, AnswerError> {
    if let Some(known) = cell.get() {
        return Ok(known.clone());
    }
    let made = encode(&graph())?;
    Ok(cell.get_or_init(|| made).clone())
}

fn encode(graph: &Graph) -> Result<Encoded, AnswerError> {
    let failed = |error: &dyn std::error::Error| AnswerError::FailedJsonOut(error.to_string());
    let plain = serde_json::to_vec(graph).map_err(|error| failed(&error))?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&plain).map_err(|error| failed(&error))?;
    let gzip = gzip.finish().map_err(|error| failed(&error))?;
    let tag = hash(&plain);
    Ok(Encoded { plain: plain.into(), gzip: gzip.into(), gzip_tag: format!("\"{tag}-gzip\""), tag: format!("\"{tag}\"") })
}

fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().take(16).fold(String::new(), |mut out, byte| {
        // Writing to a text cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
