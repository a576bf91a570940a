//! Failure stays with who causes it (OLM0-RES-32, MS-EXPL-05): Subscriptions and CSVs that have nothing to do with each other are solved apart.
//!
//! Two belong together if anything that one of them may choose or need concerns the other: the same bundle, a bundle of the same package, or a
//! bundle that provides the same API. Where all can be solved, the answers together are that for the whole namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::api::Api;
use crate::source::SourceKey;

use super::error::ResolveError;
use super::finder::{EntryRef, Finder};
use super::snapshot::{Csv, Snapshot, Subscription};
use super::variables::{Resolved, resolve};

/// Subscriptions and CSVs whose answers depend on each other, and their answer.
#[derive(Debug)]
pub struct Component {
    /// The Subscriptions, by name.
    pub subscriptions: Vec<String>,
    /// The CSVs, by name.
    pub csvs: Vec<String>,
    /// The bundles to install, or why there are none.
    pub outcome: Result<Vec<Resolved>, ResolveError>,
}

/// Resolves a namespace component by component, in the order of their first Subscriptions; components without one come last.
pub fn resolve_components(snapshot: &Snapshot) -> Vec<Component> {
    solve(snapshot, partition(snapshot))
}

/// Resolves some components of a namespace, each by itself.
pub(super) fn solve(snapshot: &Snapshot, apart: Vec<Apart>) -> Vec<Component> {
    let mut components: Vec<Component> = apart
        .into_iter()
        .map(|Apart { subscriptions, csvs, .. }| {
            let of_subscriptions = |one: &&Subscription| subscriptions.contains(&one.name);
            let of_csvs = |one: &&Csv| csvs.contains(&one.name);
            let part = Snapshot {
                subscriptions: snapshot.subscriptions.iter().filter(of_subscriptions).cloned().collect(),
                csvs: snapshot.csvs.iter().filter(of_csvs).cloned().collect(),
                ..snapshot.clone()
            };
            let outcome = resolve(&part);
            Component { subscriptions: subscriptions.into_iter().collect(), csvs: csvs.into_iter().collect(), outcome }
        })
        .collect();
    components.sort_by(|a, b| {
        let key = |one: &Component| (one.subscriptions.is_empty(), one.subscriptions.first().cloned(), one.csvs.first().cloned());
        key(a).cmp(&key(b))
    });
    components
}

/// What connects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Subscription(usize),
    Csv(usize),
    Entry(EntryRef),
    /// The name of a CSV.
    Name(String),
    Package(String),
    Api(Api),
}

/// Sets of keys that are connected.
#[derive(Default)]
struct Sets {
    places: HashMap<Key, usize>,
    parents: Vec<usize>,
}

impl Sets {
    fn place(&mut self, key: Key) -> usize {
        let next = self.parents.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.parents.push(next);
        }
        place
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, one: Key, other: Key) {
        let (a, b) = (self.place(one), self.place(other));
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a] = b;
    }
}

type Names = BTreeSet<String>;

/// The members of a component, not yet resolved.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// The names of the Subscriptions.
    pub(super) subscriptions: Names,
    /// The names of the CSVs.
    csvs: Names,
    /// The catalogs that hold anything that could be chosen or needed.
    pub(super) sources: BTreeSet<SourceKey>,
}

/// The components of a namespace.
pub(super) fn partition(snapshot: &Snapshot) -> Vec<Apart> {
    let finder = Finder::new(snapshot);
    let existing = finder.scope(&SourceKey::existing(&snapshot.namespace));
    let mut sets = Sets::default();
    let mut seen = BTreeSet::new();
    for (at, subscription) in snapshot.subscriptions.iter().enumerate() {
        let mut own = finder.of_package(finder.scope(&subscription.catalog), &subscription.package);
        own.retain(|at| subscription.channel.is_empty() || finder.entry(*at).channel == subscription.channel);
        own.extend(finder.named(existing, &subscription.installed_csv));
        sets.place(Key::Subscription(at));
        if !subscription.installed_csv.is_empty() {
            sets.join(Key::Subscription(at), Key::Name(subscription.installed_csv.clone()));
        }
        for entry in &own {
            sets.join(Key::Subscription(at), Key::Entry(*entry));
        }
        reach(&finder, own, &mut seen, &mut sets);
    }
    for (at, csv) in snapshot.csvs.iter().enumerate().filter(|(_, csv)| csv.namespace == snapshot.namespace) {
        let own = finder.named(existing, &csv.name);
        sets.join(Key::Csv(at), Key::Name(csv.name.clone()));
        if !csv.replaces.is_empty() {
            sets.join(Key::Csv(at), Key::Name(csv.replaces.clone()));
        }
        for entry in &own {
            sets.join(Key::Csv(at), Key::Entry(*entry));
        }
        // One that cannot be read has no entry, but it is known what it owns.
        for (name, version, kind) in &csv.owned_crds {
            let group = name.split_once('.').map_or("", |(_, group)| group);
            let api = Api { group: group.to_owned(), version: version.clone(), kind: kind.clone() };
            sets.join(Key::Csv(at), Key::Api(api));
        }
        for api in &csv.owned_api_services {
            sets.join(Key::Csv(at), Key::Api(api.clone()));
        }
        reach(&finder, own, &mut seen, &mut sets);
    }
    let mut components: BTreeMap<usize, Apart> = BTreeMap::new();
    for (at, subscription) in snapshot.subscriptions.iter().enumerate() {
        let place = sets.place(Key::Subscription(at));
        let component = components.entry(sets.root(place)).or_default();
        component.subscriptions.insert(subscription.name.clone());
        component.sources.insert(subscription.catalog.clone());
    }
    for (at, csv) in snapshot.csvs.iter().enumerate().filter(|(_, csv)| csv.namespace == snapshot.namespace) {
        let place = sets.place(Key::Csv(at));
        components.entry(sets.root(place)).or_default().csvs.insert(csv.name.clone());
    }
    let entries: Vec<(EntryRef, usize)> =
        sets.places.iter().filter_map(|(key, place)| if let Key::Entry(at) = key { Some((*at, *place)) } else { None }).collect();
    for (at, place) in entries {
        if let Some(component) = components.get_mut(&sets.root(place)) {
            let source = finder.key(at);
            if !component.sources.contains(source) {
                component.sources.insert(source.clone());
            }
        }
    }
    components.into_values().collect()
}

/// Connects entries with all that they may need. If that is too much work, the plan of what begins there ends in the same error, and the entry at
/// which this stopped stays open for the next that reaches it.
fn reach(finder: &Finder<'_>, from: Vec<EntryRef>, seen: &mut BTreeSet<EntryRef>, sets: &mut Sets) {
    finder.work.reset();
    let mut open = from;
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        let entry = finder.entry(at);
        for package in entry.packages().iter().map(|(name, _)| name).chain([&entry.package]).filter(|name| !name.is_empty()) {
            sets.join(Key::Entry(at), Key::Package(package.clone()));
        }
        for api in entry.apis() {
            sets.join(Key::Entry(at), Key::Api(api.clone()));
        }
        // A requirement that cannot be read is a problem of those that reach it, and of no others.
        for requirement in entry.requirements().unwrap_or_default().iter() {
            for other in finder.passing(requirement) {
                sets.join(Key::Entry(at), Key::Entry(other));
                open.push(other);
            }
        }
        if finder.work.is_over() {
            seen.remove(&at);
            return;
        }
    }
}
