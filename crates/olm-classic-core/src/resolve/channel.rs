//! The order of a channel (OLM0-RES-17, OLM0-UPG-15).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mainstay_golang::quote;

use crate::source::SourceKey;

use super::finder::{EntryRef, Finder};

/// Why the entries of a channel have no order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChannel {
    /// Every entry is replaced by another.
    #[error(
        "no channel heads (entries not replaced by another entry) found in channel {} of package {}",
        quote(.channel),
        quote(.package)
    )]
    NoHead {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
    },
    /// Entries replace each other in a circle.
    #[error(
        "a cycle exists in the chain of replacement beginning with {} in channel {} of package {}",
        quote(.head),
        quote(.channel),
        quote(.package)
    )]
    Cycle {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The head at which the chain begins.
        head: String,
    },
    /// There is more than one chain.
    #[error(
        "a unique replacement chain within a channel is required to determine the relative order between channel entries, but {} replacement \
         chains were found in channel {} of package {}: {}",
        .chains.len(),
        quote(.channel),
        quote(.package),
        .chains.join(", ")
    )]
    SeveralChains {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// Each chain: its only entry, or the first and the last.
        chains: Vec<String>,
    },
}

/// The entries of one channel of one package, from the head down the replacements; skipped entries are left out.
pub(super) fn sort(finder: &Finder<'_>, entries: &[EntryRef]) -> Result<Vec<EntryRef>, InvalidChannel> {
    let Some(first) = entries.first() else { return Ok(Vec::new()) };
    let place = || (finder.entry(*first).package.clone(), finder.entry(*first).channel.clone());
    let by_name: HashMap<&str, EntryRef> = entries.iter().map(|at| (finder.entry(*at).name.as_str(), *at)).collect();
    let (mut replaced, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut replaces: HashMap<EntryRef, EntryRef> = HashMap::new();
    for at in entries {
        let entry = finder.entry(*at);
        if !entry.replaces.is_empty()
            && let Some(other) = by_name.get(entry.replaces.as_str())
        {
            replaced.insert(*other);
            replaces.insert(*at, *other);
        }
        for skip in &entry.skips {
            if let Some(other) = by_name.get(skip.as_str()) {
                replaced.insert(*other);
                skipped.insert(skip.as_str());
            }
        }
    }
    let mut chains = Vec::new();
    for head in entries.iter().filter(|at| !replaced.contains(*at)) {
        let (mut chain, mut seen) = (Vec::new(), BTreeSet::new());
        let mut at = *head;
        loop {
            seen.insert(at);
            if !skipped.contains(finder.entry(at).name.as_str()) {
                chain.push(at);
            }
            let Some(next) = replaces.get(&at) else { break };
            if seen.contains(next) {
                let (package, channel) = place();
                return Err(InvalidChannel::Cycle { package, channel, head: finder.entry(*head).name.clone() });
            }
            at = *next;
        }
        chains.push(chain);
    }
    if chains.len() > 1 {
        let (package, channel) = place();
        let name = |at: &EntryRef| finder.entry(*at).name.clone();
        let chains = chains.iter().map(|chain| match chain.as_slice() {
            [] => "[]".to_owned(),
            [one] => name(one),
            [first, .., last] => format!("{}...{}", name(first), name(last)),
        });
        return Err(InvalidChannel::SeveralChains { package, channel, chains: chains.collect() });
    }
    chains.pop().ok_or_else(|| {
        let (package, channel) = place();
        InvalidChannel::NoHead { package, channel }
    })
}

/// The entries of a catalog by channel: the defaults come first, then the packages and channels by name.
type Channels<'a> = BTreeMap<(bool, &'a str, &'a str), Vec<EntryRef>>;

/// Entries in the order of their catalogs, of a catalog's channels (defaults first, then by package and name), and of each channel
/// (OLM0-RES-16).
pub(super) fn sort_all(finder: &Finder<'_>, entries: &[EntryRef]) -> Result<Vec<EntryRef>, InvalidChannel> {
    let mut catalogs: Vec<&SourceKey> = Vec::new();
    let mut channels: HashMap<&SourceKey, Channels<'_>> = HashMap::new();
    for at in entries {
        let (entry, catalog) = (finder.entry(*at), finder.key(*at));
        let of_catalog = channels.entry(catalog).or_insert_with(|| {
            catalogs.push(catalog);
            BTreeMap::new()
        });
        of_catalog.entry((!entry.default_channel, &entry.package, &entry.channel)).or_default().push(*at);
    }
    let mut sorted = Vec::new();
    for catalog in catalogs {
        for entries in channels[catalog].values() {
            sorted.extend(sort(finder, entries)?);
        }
    }
    Ok(sorted)
}
