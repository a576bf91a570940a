//! The sources of a resolution, and the search for entries in them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::source::SourceKey;

use super::entry::{Content, Entry};
use super::error::{CatalogFailure, Problem};
use super::existing::{self, Existing};
use super::predicate::{Index, Predicate, Work};
use super::snapshot::Snapshot;

/// An entry: its source and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryRef {
    source: usize,
    at: usize,
}

struct Source<'a> {
    key: SourceKey,
    priority: i64,
    content: Result<Arc<Content>, &'a CatalogFailure>,
    failure: Option<CatalogFailure>,
}

/// The sources that a namespace sees.
pub(super) struct Finder<'a> {
    sources: Vec<Source<'a>>,
    /// The cost of the search for entries so far.
    pub(super) work: Work,
    /// The answers to tests that no index helps with, by their keys.
    asked: RefCell<HashMap<String, Vec<EntryRef>>>,
}

/// The sources among which entries are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    Source(usize),
    Nothing,
}

impl<'a> Finder<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let namespaces = snapshot.namespaces();
        let mut sources = Vec::new();
        let Existing { content, failure } = existing::read(snapshot);
        let failure = failure.map(|failure| CatalogFailure::Existing(Box::new(failure)));
        sources.push(Source { key: SourceKey::existing(&snapshot.namespace), priority: 0, content: Ok(Arc::new(content)), failure });
        let mut catalogs: Vec<_> =
            snapshot.catalogs.iter().filter(|catalog| namespaces.contains(&catalog.key.namespace.as_str())).collect();
        catalogs.sort_by(|a, b| (&a.key.namespace, &a.key.name).cmp(&(&b.key.namespace, &b.key.name)));
        for catalog in catalogs {
            let content = catalog.content.as_ref().map(Arc::clone);
            sources.push(Source { key: catalog.key.clone(), priority: catalog.priority, content, failure: None });
        }
        Self { sources, work: Work::default(), asked: RefCell::default() }
    }

    /// The sources as a resolution sees them: one installed CSV that cannot be read hides all of them.
    pub(super) fn without_unreadable(mut self) -> Self {
        for source in self.sources.iter_mut().filter(|source| source.failure.is_some()) {
            source.content = Ok(Arc::default());
        }
        self
    }

    /// The entry.
    pub(super) fn entry(&self, at: EntryRef) -> &Entry {
        match &self.sources[at.source].content {
            Ok(content) => &content.entries[at.at],
            Err(_) => unreachable!("an entry is found in the content of its source"),
        }
    }

    /// The source of an entry.
    pub(super) fn key(&self, at: EntryRef) -> &SourceKey {
        &self.sources[at.source].key
    }

    /// The catalogs, in their order.
    pub(super) fn catalogs(&self) -> Vec<SourceKey> {
        let order = self.preferred(None, "");
        order.into_iter().map(|source| self.sources[source].key.clone()).filter(|key| !key.is_existing()).collect()
    }

    /// The scope that a key names; the empty key names every source.
    pub(super) fn scope(&self, key: &SourceKey) -> Scope {
        if key.is_empty() {
            return Scope::All;
        }
        self.sources.iter().position(|source| source.key == *key).map_or(Scope::Nothing, Scope::Source)
    }

    /// The problems with the sources.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let failed = self.sources.iter().filter_map(|source| {
            let failure = source.content.as_ref().err().copied().or(source.failure.as_ref())?;
            Some(Problem::Catalog(source.key.clone(), failure.clone()))
        });
        failed.collect()
    }

    /// All entries of a scope.
    pub(super) fn all(&self, scope: Scope) -> Vec<EntryRef> {
        let order = self.scoped(scope);
        order.into_iter().flat_map(|source| (0..self.entries(source).len()).map(move |at| EntryRef { source, at })).collect()
    }

    /// The entries of a scope with a name.
    pub(super) fn named(&self, scope: Scope, name: &str) -> Vec<EntryRef> {
        self.look(self.scoped(scope), |content| content.named(name).to_vec())
    }

    /// The entries of a scope that are of a package.
    pub(super) fn of_package(&self, scope: Scope, package: &str) -> Vec<EntryRef> {
        self.look(self.scoped(scope), |content| content.of_package(package).to_vec())
    }

    /// Every entry that passes.
    pub(super) fn passing(&self, predicate: &Predicate) -> Vec<EntryRef> {
        let index = predicate.index();
        if index.is_some() {
            return self.tested(predicate, index.as_deref());
        }
        // What every entry must be asked for is often required by every version of a package.
        let key = predicate.key();
        if let Some(found) = self.asked.borrow().get(&key) {
            return found.clone();
        }
        let found = self.tested(predicate, None);
        if !self.work.is_over() {
            self.asked.borrow_mut().insert(key, found.clone());
        }
        found
    }

    fn tested(&self, predicate: &Predicate, index: Option<&[Index<'_>]>) -> Vec<EntryRef> {
        self.look(self.preferred(None, ""), |content| {
            let candidates: Vec<usize> = match index {
                None => (0..content.entries.len()).collect(),
                Some(places) => {
                    let found = places.iter().flat_map(|place| match place {
                        Index::Package(name) => content.of_package(name),
                        Index::Api(api) => content.providing(api),
                    });
                    let found: BTreeSet<usize> = found.copied().collect();
                    found.into_iter().collect()
                }
            };
            candidates.into_iter().filter(|at| predicate.holds(&content.entries[*at], &self.work)).collect()
        })
    }

    /// The entries of the channels in which some entries stand, in the order of preference of a bundle's catalog; of installed CSVs just
    /// those of the same name.
    pub(super) fn channels_of(&self, entries: &[EntryRef], preferred: &SourceKey, namespace: &str) -> Vec<EntryRef> {
        let mut found: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.sources.len()];
        let mut done = BTreeSet::new();
        for at in entries {
            let entry = self.entry(*at);
            let content = self.content(at.source);
            if self.key(*at).is_existing() {
                // Of CSVs of one package that no Subscription owns, upstream sees the first.
                if !entry.subscribed && !done.insert((at.source, &entry.package, &entry.channel)) {
                    continue;
                }
                found[at.source].extend(content.into_iter().flat_map(|content| content.named(&entry.name)).copied());
            } else if done.insert((at.source, &entry.package, &entry.channel)) {
                let of_package = content.into_iter().flat_map(|content| content.of_package(&entry.package)).copied();
                let in_channel = |at_other: &usize| {
                    let other = EntryRef { source: at.source, at: *at_other };
                    entry.channel.is_empty() || self.entry(other).channel == entry.channel
                };
                found[at.source].extend(of_package.filter(in_channel));
            }
        }
        let preferred = (!preferred.is_empty()).then_some(preferred);
        let order = self.preferred(preferred, namespace);
        order.into_iter().flat_map(|source| found[source].iter().map(move |at| EntryRef { source, at: *at })).collect()
    }

    fn content(&self, source: usize) -> Option<&Content> {
        self.sources[source].content.as_ref().ok().map(Arc::as_ref)
    }

    fn entries(&self, source: usize) -> &[Entry] {
        self.content(source).map_or(&[], |content| &content.entries)
    }

    fn look(&self, order: Vec<usize>, found: impl Fn(&Content) -> Vec<usize>) -> Vec<EntryRef> {
        let refs = |source: usize| {
            let found = self.content(source).map_or_else(Vec::new, &found);
            found.into_iter().map(move |at| EntryRef { source, at })
        };
        order.into_iter().flat_map(refs).collect()
    }

    fn scoped(&self, scope: Scope) -> Vec<usize> {
        match scope {
            Scope::All => self.preferred(None, ""),
            Scope::Source(source) => vec![source],
            Scope::Nothing => Vec::new(),
        }
    }

    /// The sources in their order (OLM0-RES-15): installed CSVs, the preferred catalog, priority, the preferred namespace, name.
    fn preferred(&self, preferred: Option<&SourceKey>, namespace: &str) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|source| {
            let Source { key, priority, .. } = &self.sources[*source];
            let existing = key.is_existing() && key.namespace == namespace;
            (!existing, preferred != Some(key), -i128::from(*priority), key.namespace != namespace, key.name.as_str())
        });
        order
    }
}
