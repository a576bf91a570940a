//! From entries of channels to update edges: one row a bundle and channel.
//!
//! A row of `channel_entry` is one edge into a bundle, or a bundle that replaces nothing. The chain of `replaces` begins at
//! the entries of the least depth, which are the heads, and follows them; every other edge is a skip.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::tables::{EntryRow, Tables};

/// A bundle in a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed<'a> {
    pub(crate) bundle: &'a str,
    pub(crate) package: &'a str,
    pub(crate) channel: &'a str,
    pub(crate) replaces: Option<&'a str>,
    pub(crate) skips: Vec<&'a str>,
}

/// The bundles of all channels by name, package and channel.
pub(crate) fn list(tables: &Tables) -> Vec<Listed<'_>> {
    let by_id: HashMap<i64, &EntryRow> = tables.entries.iter().map(|entry| (entry.id, entry)).collect();
    let chain = chain(&tables.entries, &by_id);
    let mut listed: BTreeMap<(&str, &str, &str), Listed<'_>> = BTreeMap::new();
    for entry in &tables.entries {
        let (Some(bundle), Some(channel)) = (entry.bundle.as_deref(), entry.channel.as_deref()) else { continue };
        let package = entry.package.as_deref().unwrap_or_default();
        let row = listed.entry((bundle, package, channel)).or_insert_with(|| Listed {
            bundle,
            package,
            channel,
            replaces: None,
            skips: Vec::new(),
        });
        let Some(other) = entry.replaces.and_then(|id| by_id.get(&id)).and_then(|other| other.bundle.as_deref()) else { continue };
        if chain.contains(&entry.id) {
            row.replaces = row.replaces.max(Some(other));
        } else {
            row.skips.push(other);
        }
    }
    listed.into_values().collect()
}

/// The entries on the chains of `replaces`.
fn chain(entries: &[EntryRow], by_id: &HashMap<i64, &EntryRow>) -> BTreeSet<i64> {
    let tip = entries.iter().filter_map(|entry| entry.depth).min();
    let mut chain = BTreeSet::new();
    for head in entries.iter().filter(|entry| entry.depth.is_some() && entry.depth == tip) {
        let mut next = Some(head.id);
        while let Some(entry) = next.and_then(|id| by_id.get(&id)) {
            if !chain.insert(entry.id) {
                break;
            }
            next = entry.replaces;
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(id: i64, bundle: &str, replaces: Option<i64>, depth: i64) -> EntryRow {
        let text = |text: &str| Some(text.to_owned());
        EntryRow { id, channel: text("c"), package: text("p"), bundle: text(bundle), replaces, depth: Some(depth) }
    }

    /// CATLG-63: the chain from the head is `replaces`, every other edge a skip.
    #[test]
    fn chain_and_skips() {
        let entries = vec![entry(1, "v3", Some(4), 0), entry(2, "v1", None, 1), entry(3, "v3", Some(2), 1), entry(4, "v2", None, 2)];
        let tables = Tables { entries, ..Tables::default() };
        let edges: Vec<_> = list(&tables).into_iter().map(|row| (row.bundle, row.replaces, row.skips)).collect();
        assert_eq!(edges, [("v1", None, vec![]), ("v2", None, vec![]), ("v3", Some("v2"), vec!["v1"])]);
    }

    #[test]
    fn a_cycle_ends() {
        let tables = Tables { entries: vec![entry(1, "a", Some(2), 0), entry(2, "b", Some(1), 1)], ..Tables::default() };
        assert_eq!(list(&tables).len(), 2);
    }
}
