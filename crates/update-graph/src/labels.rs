//! The keys of node metadata.

/// The prefix of the graph's own keys.
const PREFIX: &str = "io.openshift.upgrades.graph";
/// The channels of a node, separated by commas.
pub const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
/// The architectures of a node's image, separated by commas; for the update service alone.
pub const ARCHITECTURE: &str = "io.openshift.upgrades.graph.release.arch";
/// The digest of a node's image.
pub const MANIFEST_REF: &str = "io.openshift.upgrades.graph.release.manifestref";
/// The architecture that a release gives itself; `multi` is its only value.
pub const RELEASE_ARCHITECTURE: &str = "release.openshift.io/architecture";
/// The architecture of a release for several.
pub const MULTI: &str = "multi";
/// The link to a release's errata.
pub(crate) const URL: &str = "url";

/// Versions to add an edge from.
pub(crate) const PREVIOUS_ADD: &str = "io.openshift.upgrades.graph.previous.add";
/// Versions to add an edge to.
pub(crate) const NEXT_ADD: &str = "io.openshift.upgrades.graph.next.add";
/// Versions to remove the edge from, or `*`.
pub(crate) const PREVIOUS_REMOVE: &str = "io.openshift.upgrades.graph.previous.remove";
/// An expression for versions to remove the edge from.
pub(crate) const PREVIOUS_REMOVE_REGEX: &str = "io.openshift.upgrades.graph.previous.remove_regex";
/// Versions to remove the edge to.
pub(crate) const NEXT_REMOVE: &str = "io.openshift.upgrades.graph.next.remove";
/// `true` removes the node.
pub(crate) const RELEASE_REMOVE: &str = "io.openshift.upgrades.graph.release.remove";

/// The labels that change a graph.
pub(crate) const KNOWN: [&str; 7] = [PREVIOUS_ADD, NEXT_ADD, PREVIOUS_REMOVE, PREVIOUS_REMOVE_REGEX, NEXT_REMOVE, RELEASE_REMOVE, CHANNELS];

/// Returns true for a label that the graph could act on, by its name.
pub(crate) fn is_graph_label(key: &str) -> bool {
    key.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('.'))
}

/// The entries of a comma list, without blanks around them and without empty ones.
pub(crate) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}
