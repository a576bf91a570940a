//! Rules about requirements between bundles.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mainstay_versions::{CatalogRange, Version};

use super::{Report, Rule, Subject};
use crate::model::Bundle;
use crate::parts::{Parts, version};
use crate::properties::{Api, Need, needs, provided};
use crate::reach::Updates;

pub(super) fn check(packages: &BTreeMap<&str, Parts<'_>>, offers: &Offers<'_>, report: &mut Report<'_>) {
    for (api, providers) in offers.heads.iter().filter(|(_, providers)| providers.len() > 1) {
        let names: Vec<&str> = providers.iter().copied().collect();
        report.add(Rule::ApiProviders, Subject::package(names[0]), format!("API {api} is provided by {}", names.join(", ")));
    }
    let mut needed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, parts) in packages {
        let mut missing: BTreeMap<Need, Vec<&Bundle>> = BTreeMap::new();
        let heads = heads(parts);
        for bundle in &parts.bundles {
            for need in needs(bundle) {
                if !offers.satisfy(&need) {
                    missing.entry(need).or_default().push(bundle);
                } else if heads.contains(bundle.name.as_str()) {
                    needed.entry(name).or_default().extend(offers.named(&need).filter(|other| other != name));
                }
            }
        }
        for (need, bundles) in missing {
            let Some(newest) = bundles.iter().max_by_key(|bundle| version(bundle)) else { continue };
            let mut message = format!("needs {need}, which nothing here provides");
            if bundles.len() > 1 {
                message = format!("{message} (so do {} of {} bundles; this is the newest)", bundles.len(), parts.bundles.len());
            }
            report.add(Rule::DependencyMissing, Subject::bundle(name, newest.name.as_str()), message);
        }
    }
    for circle in circles(&needed) {
        let message = format!("needs itself by way of others: {} -> {}", circle.join(" -> "), circle[0]);
        report.add(Rule::DependencyCycle, Subject::package(circle[0]), message);
    }
}

fn heads<'a>(parts: &Parts<'a>) -> HashSet<&'a str> {
    let versions = parts.versions();
    let head = |channel: &&'a crate::Channel| {
        let updates = Updates::of(channel, &versions);
        updates.head().map(|head| updates.entry(head).name.as_str())
    };
    parts.channels.iter().filter_map(head).collect()
}

/// The versions and APIs that the catalog offers.
pub(super) struct Offers<'a> {
    versions: HashMap<&'a str, Vec<Version>>,
    apis: HashMap<Api, BTreeSet<&'a str>>,
    /// Providers of an API in the head of a channel.
    heads: BTreeMap<Api, BTreeSet<&'a str>>,
}

impl<'a> Offers<'a> {
    pub(super) fn of(packages: &BTreeMap<&'a str, Parts<'a>>) -> Self {
        let mut offers = Self { versions: HashMap::new(), apis: HashMap::new(), heads: BTreeMap::new() };
        for (name, parts) in packages {
            let heads = heads(parts);
            for bundle in &parts.bundles {
                offers.versions.entry(name).or_default().extend(version(bundle));
                for api in provided(bundle) {
                    if heads.contains(bundle.name.as_str()) {
                        offers.heads.entry(api.clone()).or_default().insert(name);
                    }
                    offers.apis.entry(api).or_default().insert(name);
                }
            }
        }
        offers
    }

    /// The packages that provide an API, in order.
    pub(super) fn providers(&self, api: &Api) -> impl Iterator<Item = &'a str> + '_ {
        self.apis.get(api).into_iter().flatten().copied()
    }

    fn satisfy(&self, need: &Need) -> bool {
        match need {
            Need::Package { package, range } => match CatalogRange::parse(range) {
                Ok(range) => {
                    self.versions.get(package.as_str()).is_some_and(|versions| versions.iter().any(|version| range.matches(version)))
                }
                // A rule of its own reports it.
                Err(_) => true,
            },
            Need::Api(api) => self.apis.contains_key(api),
            Need::All(needs) => needs.iter().all(|need| self.satisfy(need)),
            Need::Any(needs) => needs.iter().any(|need| self.satisfy(need)),
            // Absence, and facts of a cluster, can always be satisfied.
            Need::Not(_) | Need::Expression(_) => true,
        }
    }

    /// Packages that a requirement cannot be satisfied without.
    fn named(&self, need: &Need) -> Box<dyn Iterator<Item = &'a str> + '_> {
        match need {
            Need::Package { package, .. } => Box::new(self.versions.get_key_value(package.as_str()).map(|(name, _)| *name).into_iter()),
            Need::Api(api) => Box::new(self.apis.get(api).filter(|providers| providers.len() == 1).into_iter().flatten().copied()),
            Need::All(needs) => Box::new(needs.iter().flat_map(|need| self.named(need)).collect::<Vec<_>>().into_iter()),
            Need::Any(_) | Need::Not(_) | Need::Expression(_) => Box::new(std::iter::empty()),
        }
    }
}

/// Cycles of packages, each once, beginning with its first name.
fn circles<'a>(needed: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut told: HashSet<&str> = HashSet::new();
    for start in needed.keys().copied() {
        if told.contains(start) {
            continue;
        }
        // The shortest path from a package back to itself.
        let mut came: HashMap<&str, &str> = HashMap::new();
        let mut todo = std::collections::VecDeque::from([start]);
        while let Some(at) = todo.pop_front() {
            for next in needed.get(at).into_iter().flatten().copied() {
                if !came.contains_key(next) {
                    came.insert(next, at);
                    todo.push_back(next);
                }
            }
        }
        if !came.contains_key(start) {
            continue;
        }
        let mut circle = Vec::new();
        let mut at = start;
        while let Some(before) = came.get(at).copied() {
            circle.push(before);
            at = before;
            if at == start {
                break;
            }
        }
        circle.reverse();
        told.extend(&circle);
        found.push(circle);
    }
    found
}
