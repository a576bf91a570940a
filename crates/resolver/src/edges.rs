//! The update edges from the installed bundle (OLM1-UPG-05 to OLM1-UPG-07).

use std::fmt;

use mainstay_catalog::ChannelFacts;
pub use mainstay_catalog::graph::EdgeKind;
use mainstay_catalog::graph::Updates;
use mainstay_versions::Version;

/// An update edge: the reason why a bundle may follow the installed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Channel that has the edge.
    pub channel: String,
    /// Kind of the edge.
    pub kind: EdgeKind,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EdgeKind::Replaces => write!(f, "replaces it in channel {}", self.channel),
            EdgeKind::Skips => write!(f, "skips it in channel {}", self.channel),
            EdgeKind::SkipRange(range) => write!(f, "updates versions \"{range}\" in channel {}", self.channel),
        }
    }
}

/// The first edge from the installed bundle to `bundle` in the considered channels.
pub(crate) fn edge_to(bundle: &str, installed: (&str, &Version), channels: &[&ChannelFacts<'_>]) -> Option<Edge> {
    channels.iter().find_map(|channel| {
        let mut entries = channel.entries.iter().filter(|entry| entry.name == bundle);
        let kind = entries.find_map(|entry| Updates::of(entry).edge(installed.0, Some(installed.1)))?;
        Some(Edge { channel: channel.name.to_owned(), kind })
    })
}
