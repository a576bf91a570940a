//! The updates that a channel offers: single steps from a bundle, and all bundles that can be reached by steps.
//!
//! An entry updates a bundle if it replaces it, skips it, or has its version in the skip range. The resolvers of OLM classic and v1 follow
//! these edges. `opm validate` accepts a graph by `replaces` and `skips` alone. [`Edges`] selects one of the two.

use std::collections::{HashMap, HashSet, VecDeque};

use mainstay_versions::{CatalogRange, Version};
use serde::Serialize;

use crate::graph::{self, EdgeKind};
use crate::model::{BundleName, Channel, Entry};
use crate::parts::Versions;

/// Reason why an entry updates a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Edge {
    /// It names the bundle in `replaces`.
    Replaces,
    /// It names the bundle in `skips`.
    Skips,
    /// Its range contains the bundle's version.
    SkipRange {
        /// The range as written.
        range: String,
    },
}

/// Selection of the edges that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// All that a resolver follows.
    Resolver,
    /// `replaces` and `skips`, as in validation.
    Named,
}

/// A bundle that is, or may be, installed.
#[derive(Debug, Clone, Copy)]
pub struct Installed<'v> {
    /// Its name; empty if only the version is known.
    pub name: &'v str,
    /// Its version, if known.
    pub version: Option<&'v Version>,
}

/// The entries of one channel as steps.
#[derive(Debug)]
pub struct Updates<'a> {
    /// The channel.
    pub channel: &'a Channel,
    steps: Vec<Step<'a>>,
    positions: HashMap<&'a str, usize>,
    /// The entries that name a bundle in `replaces` or `skips`, in their order.
    naming: HashMap<&'a str, Vec<usize>>,
    /// The entries with a valid skip range.
    ranged: Vec<usize>,
}

#[derive(Debug)]
struct Step<'a> {
    entry: &'a Entry,
    version: Option<Version>,
    range: Option<CatalogRange>,
    exists: bool,
}

impl<'a> Updates<'a> {
    /// Builds the updates of a channel whose package has these bundles.
    pub fn of(channel: &'a Channel, versions: &Versions<'_>) -> Self {
        let step = |entry: &'a Entry| Step {
            entry,
            version: versions.get(entry.name.as_str()).cloned().flatten(),
            // An invalid range contains nothing (OLM1-UPG-07); validation reports it.
            range: entry.skip_range.as_deref().and_then(|range| CatalogRange::parse(range).ok()),
            exists: versions.contains_key(entry.name.as_str()),
        };
        let steps: Vec<Step<'a>> = channel.entries.iter().map(step).collect();
        let positions = steps.iter().enumerate().map(|(at, step)| (step.entry.name.as_str(), at)).collect();
        let mut naming: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            for name in step.entry.replaces.iter().chain(&step.entry.skips) {
                naming.entry(name.as_str()).or_default().push(at);
            }
        }
        let ranged = (0..steps.len()).filter(|at| steps[*at].range.is_some()).collect();
        Self { channel, steps, positions, naming, ranged }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The place of a bundle among the entries.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The entry at a place.
    pub fn entry(&self, at: usize) -> &'a Entry {
        self.steps[at].entry
    }

    /// The version of the entry at a place.
    pub fn version(&self, at: usize) -> Option<&Version> {
        self.steps[at].version.as_ref()
    }

    /// The skip range of the entry at a place, if it has a valid one.
    pub fn range(&self, at: usize) -> Option<&CatalogRange> {
        self.steps[at].range.as_ref()
    }

    /// The bundle of the entry at a place.
    pub fn installed(&self, at: usize) -> Installed<'_> {
        Installed { name: self.steps[at].entry.name.as_str(), version: self.version(at) }
    }

    /// Returns true if the catalog has the bundle of the entry at a place.
    pub fn exists(&self, at: usize) -> bool {
        self.steps[at].exists
    }

    /// The entries that no entry replaces or skips, in their order (CATLG-26). A valid channel has one.
    pub fn heads(&self) -> Vec<usize> {
        let named: HashSet<&str> =
            self.steps.iter().flat_map(|step| step.entry.replaces.iter().chain(&step.entry.skips)).map(BundleName::as_str).collect();
        (0..self.steps.len()).filter(|at| !named.contains(self.steps[*at].entry.name.as_str())).collect()
    }

    /// The head, if there is exactly one.
    pub fn head(&self) -> Option<usize> {
        match self.heads().as_slice() {
            [head] => Some(*head),
            _ => None,
        }
    }

    /// Returns the reason why the entry at `to` updates a bundle; `None` if it does not.
    pub fn edge(&self, from: Installed<'_>, to: usize, edges: Edges) -> Option<Edge> {
        let step = &self.steps[to];
        let entry = step.entry;
        let named = !from.name.is_empty();
        if named && entry.name.as_str() == from.name {
            return None;
        }
        let range = step.range.as_ref().filter(|_| edges == Edges::Resolver);
        let replaces = entry.replaces.as_ref().map(BundleName::as_str).filter(|_| named);
        let skips = entry.skips.iter().map(BundleName::as_str).filter(|_| named);
        let kind = graph::edges(replaces, skips, range, (from.name, from.version)).next()?;
        Some(match kind {
            EdgeKind::Replaces => Edge::Replaces,
            EdgeKind::Skips => Edge::Skips,
            EdgeKind::SkipRange(range) => Edge::SkipRange { range },
        })
    }

    /// The entries that update a bundle, with the reason of each.
    pub fn next(&self, from: Installed<'_>, edges: Edges) -> Vec<(usize, Edge)> {
        let named = self.naming.get(from.name).map(Vec::as_slice).unwrap_or_default();
        let ranged = if edges == Edges::Resolver { self.ranged.as_slice() } else { &[] };
        // Only these can update it: channels may have thousands of entries, and paths are searched step by step.
        let mut candidates = [named, ranged].concat();
        candidates.sort_unstable();
        candidates.dedup();
        let next = |to: usize| self.edge(from, to, edges).map(|edge| (to, edge));
        candidates.into_iter().filter(|to| self.steps[*to].exists).filter_map(next).collect()
    }

    /// One flag for each entry, true if `target` can be reached from it; the target reaches itself. Steps lead through bundles that exist.
    pub fn reaching(&self, target: usize, edges: Edges) -> Vec<bool> {
        let mut reached = vec![false; self.steps.len()];
        reached[target] = true;
        let mut open: Vec<usize> = (0..self.steps.len()).filter(|at| *at != target).collect();
        let mut todo = VecDeque::from([target]);
        while let Some(to) = todo.pop_front() {
            if !self.steps[to].exists {
                continue;
            }
            for from in self.named(to) {
                if !std::mem::replace(&mut reached[from], true) {
                    todo.push_back(from);
                }
            }
            if edges == Edges::Named || self.steps[to].range.is_none() {
                continue;
            }
            open.retain(|&from| {
                if reached[from] {
                    return false;
                }
                let joins = self.edge(self.installed(from), to, edges).is_some();
                if joins {
                    reached[from] = true;
                    todo.push_back(from);
                }
                !joins
            });
        }
        reached
    }

    /// Returns true if a bundle, in this channel or not, updates to one of the entries marked in `reaching` (of [`Updates::reaching`]).
    pub fn joins(&self, from: Installed<'_>, reaching: &[bool]) -> bool {
        match self.position(from.name) {
            Some(at) => reaching[at],
            None => self.next(from, Edges::Resolver).iter().any(|(to, _)| reaching[*to]),
        }
    }

    /// The entries that the entry at a place names in `replaces` and `skips`.
    pub fn named(&self, at: usize) -> impl Iterator<Item = usize> {
        let entry = self.steps[at].entry;
        entry.replaces.iter().chain(&entry.skips).filter_map(|name| self.position(name.as_str()))
    }

    /// Returns true if the entry at one place skips the one at another.
    pub fn skips(&self, at: usize, other: usize) -> bool {
        self.steps[at].entry.skips.contains(&self.steps[other].entry.name)
    }

    /// The entries that validation would call stranded if the channel held only those of `kept`, below the head `head` (CATLG-26).
    pub fn stranded(&self, kept: &[bool], head: usize) -> Vec<usize> {
        let present = |at: &usize| kept[*at];
        let skipped: HashSet<&str> = (0..self.len()).filter(present).flat_map(|at| &self.entry(at).skips).map(BundleName::as_str).collect();
        let mut met = HashSet::from([head]);
        let mut at = head;
        while let Some(name) = self.entry(at).replaces.as_ref() {
            let Some(next) = self.position(name.as_str()).filter(present) else { break };
            if !met.insert(next) || skipped.contains(name.as_str()) {
                break;
            }
            at = next;
        }
        (0..self.len()).filter(present).filter(|at| !met.contains(at) && !skipped.contains(self.entry(*at).name.as_str())).collect()
    }

    /// A shortest path from a bundle, in this channel or not, to the entry at `target`: each step with its reason. The path from the
    /// target itself is empty. Among equally short paths the one through the highest versions is taken.
    pub fn path(&self, from: Installed<'_>, target: usize, edges: Edges) -> Option<Vec<(usize, Edge)>> {
        if self.position(from.name) == Some(target) {
            return Some(Vec::new());
        }
        let mut came: HashMap<usize, (Option<usize>, Edge)> = HashMap::new();
        let mut todo: VecDeque<Option<usize>> = VecDeque::from([None]);
        while let Some(at) = todo.pop_front() {
            let here = at.map_or(from, |at| self.installed(at));
            let mut next = self.next(here, edges);
            next.sort_by(|a, b| self.version(b.0).cmp(&self.version(a.0)));
            for (to, edge) in next {
                if self.steps[to].entry.name.as_str() == from.name || came.contains_key(&to) {
                    continue;
                }
                came.insert(to, (at, edge));
                todo.push_back(Some(to));
            }
            if came.contains_key(&target) {
                break;
            }
        }
        let mut path = Vec::new();
        let mut at = target;
        loop {
            let (before, edge) = came.remove(&at)?;
            path.push((at, edge));
            match before {
                Some(before) => at = before,
                None => break,
            }
        }
        path.reverse();
        Some(path)
    }

    /// Every entry that can be reached from a bundle by one or more steps.
    pub fn reachable(&self, from: Installed<'_>, edges: Edges) -> Vec<usize> {
        let mut seen = HashSet::new();
        let mut todo: VecDeque<Option<usize>> = VecDeque::from([None]);
        while let Some(at) = todo.pop_front() {
            for (to, _) in self.next(at.map_or(from, |at| self.installed(at)), edges) {
                if self.steps[to].entry.name.as_str() != from.name && seen.insert(to) {
                    todo.push_back(Some(to));
                }
            }
        }
        let mut found: Vec<usize> = seen.into_iter().collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn channel(entries: &[(&str, &str, &[&str], &str)]) -> (Channel, Vec<(String, Version)>) {
        let entry = |(version, replaces, skips, range): &(&str, &str, &[&str], &str)| Entry {
            name: format!("p.v{version}").into(),
            replaces: (!replaces.is_empty()).then(|| format!("p.v{replaces}").into()),
            skips: skips.iter().map(|skip| format!("p.v{skip}").into()).collect(),
            skip_range: (!range.is_empty()).then(|| (*range).to_owned()),
        };
        let versions = entries.iter().map(|(version, ..)| (format!("p.v{version}"), Version::parse(version).unwrap())).collect();
        (Channel { package: "p".into(), name: "c".into(), entries: entries.iter().map(entry).collect(), properties: Vec::new() }, versions)
    }

    fn names(updates: &Updates<'_>, path: Option<Vec<(usize, Edge)>>) -> Option<Vec<String>> {
        path.map(|path| path.into_iter().map(|(at, _)| updates.entry(at).name.to_string()).collect())
    }

    /// OLM1-UPG-05, OLM1-QUERY-02: steps by name and by range; the range counts for resolvers alone.
    #[test]
    fn steps_and_ways() {
        let (channel, versions) = channel(&[
            ("1.0.0", "", &[], ""),
            ("1.1.0", "1.0.0", &[], ""),
            ("1.1.1", "1.0.0", &["1.1.0"], ""),
            ("2.0.0", "1.1.1", &[], ">=0.9.0 <1.1.0"),
        ]);
        let versions: Versions<'_> = versions.iter().map(|(name, version)| (name.as_str(), Some(version.clone()))).collect();
        let updates = Updates::of(&channel, &versions);
        assert_eq!(updates.head(), Some(3));
        let from = |at| updates.installed(at);
        assert_eq!(names(&updates, updates.path(from(0), 3, Edges::Resolver)), Some(vec!["p.v2.0.0".to_owned()]));
        assert_eq!(names(&updates, updates.path(from(0), 3, Edges::Named)), Some(vec!["p.v1.1.1".to_owned(), "p.v2.0.0".to_owned()]));
        assert_eq!(names(&updates, updates.path(from(3), 3, Edges::Named)), Some(Vec::new()));
        assert_eq!(updates.path(from(3), 0, Edges::Resolver), None);
        let older = Version::parse("0.9.5").unwrap();
        let unknown = Installed { name: "", version: Some(&older) };
        assert_eq!(updates.next(unknown, Edges::Resolver), [(3, Edge::SkipRange { range: ">=0.9.0 <1.1.0".to_owned() })]);
        assert_eq!(updates.reaching(3, Edges::Named), [true; 4]);
        assert_eq!(updates.reaching(1, Edges::Named), [true, true, false, false]);
        assert_eq!(updates.reachable(from(1), Edges::Resolver), [2, 3]);
    }

    fn slow_next(updates: &Updates<'_>, from: Installed<'_>, edges: Edges) -> Vec<usize> {
        (0..updates.len()).filter(|to| updates.exists(*to) && updates.edge(from, *to, edges).is_some()).collect()
    }

    fn slow_reaching(updates: &Updates<'_>, target: usize, edges: Edges) -> Vec<bool> {
        let mut reached: Vec<bool> = (0..updates.len()).map(|at| at == target).collect();
        for _ in 0..updates.len() {
            for at in 0..updates.len() {
                reached[at] |= slow_next(updates, updates.installed(at), edges).into_iter().any(|to| reached[to]);
            }
        }
        reached
    }

    proptest::proptest! {
        /// OLM1-UPG-05: entries found by what they name are those that looking at each of them finds, in channels sound or not.
        #[test]
        fn steps_are_those_that_looking_at_every_entry_finds(
            drawn in proptest::collection::vec((0..9u8, proptest::collection::vec(0..9u8, 0..3), 0..9u8), 1..8),
            missing in 0..9u8,
        ) {
            let name = |number: u8| format!("p.v1.{number}.0");
            let entries = drawn.iter().enumerate().map(|(at, (replaces, skips, below))| Entry {
                name: name(at as u8).into(),
                replaces: (*replaces < 8).then(|| name(*replaces).into()),
                skips: skips.iter().map(|skip| name(*skip).into()).collect(),
                skip_range: (*below < 5).then(|| format!(">=1.0.0 <1.{below}.0")),
            });
            let channel = Channel { package: "p".into(), name: "c".into(), entries: entries.collect(), properties: Vec::new() };
            let names: Vec<String> = (0..9).filter(|number| *number != missing).map(name).collect();
            let versions: Versions<'_> = names.iter().map(|name| (name.as_str(), Version::parse(&name[3..]).ok())).collect();
            let updates = Updates::of(&channel, &versions);
            for edges in [Edges::Resolver, Edges::Named] {
                for at in 0..updates.len() {
                    let next: Vec<usize> = updates.next(updates.installed(at), edges).into_iter().map(|(to, _)| to).collect();
                    proptest::prop_assert_eq!(next, slow_next(&updates, updates.installed(at), edges));
                    proptest::prop_assert_eq!(updates.reaching(at, edges), slow_reaching(&updates, at, edges), "{} {:?}", at, edges);
                }
            }
        }
    }
}
