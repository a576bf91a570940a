//! Which bundles may follow the installed one (OLM1-UPG-05 to OLM1-UPG-07).

use std::fmt;

use mainstay_catalog::{ChannelFacts, EntryFacts};
use mainstay_versions::{CatalogRange, Version};

/// Why a bundle may follow the installed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Channel that has the edge.
    pub channel: String,
    /// Kind of the edge.
    pub kind: EdgeKind,
}

/// Kind of an update edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeKind {
    /// The entry replaces the installed bundle.
    Replaces,
    /// The entry skips the installed bundle.
    Skips,
    /// The entry's range contains the installed version.
    SkipRange(String),
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
        let kind = entries.find_map(|entry| kind_of(entry, installed))?;
        Some(Edge { channel: channel.name.to_owned(), kind })
    })
}

fn kind_of(entry: &EntryFacts<'_>, (name, version): (&str, &Version)) -> Option<EdgeKind> {
    if entry.replaces == Some(name) {
        return Some(EdgeKind::Replaces);
    }
    if entry.skips.contains(&name) {
        return Some(EdgeKind::Skips);
    }
    // A range that can not be read contains nothing (OLM1-UPG-07).
    let range = entry.skip_range?;
    CatalogRange::parse(range).is_ok_and(|parsed| parsed.matches(version)).then(|| EdgeKind::SkipRange(range.to_owned()))
}
