//! Variables and constraints of a namespace, and the bundles that the search chooses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mainstay_resolver::ordered::{self, Answer, Constraint, Rule, Variable};
use mainstay_versions::Version;

use crate::api::Api;
use crate::properties::Property;
use crate::source::SourceKey;

use super::channel;
use super::entry::{Deprecations, Entry, Inline};
use super::error::{Problem, ResolveError};
use super::finder::{EntryRef, Finder, Scope};
use super::snapshot::{Snapshot, Subscription};

/// A bundle to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The name of its CSV.
    pub name: String,
    /// Its version, if it can be read.
    pub version: Option<Version>,
    /// Its package.
    pub package: String,
    /// Its channel.
    pub channel: String,
    /// True if the channel is the package's default.
    pub default_channel: bool,
    /// Its catalog.
    pub catalog: SourceKey,
    /// The installed CSV that it replaces; else the one that its catalog says it replaces.
    pub replaces: String,
    /// Its name, if a Subscription asked to start with it; else empty.
    pub starting_csv: String,
    /// Its properties.
    pub properties: Vec<Property>,
    /// Its image; empty if the content is inline.
    pub bundle_path: String,
    /// Its content, if it is inline.
    pub inline: Option<Arc<Inline>>,
    /// What its catalog deprecates of it.
    pub deprecations: Deprecations,
}

impl Resolved {
    /// The bundle of an entry, which replaces what its catalog says.
    pub(super) fn of(entry: &Entry, catalog: &SourceKey) -> Self {
        Self {
            name: entry.name.clone(),
            version: entry.version.clone(),
            package: entry.package.clone(),
            channel: entry.channel.clone(),
            default_channel: entry.default_channel,
            catalog: catalog.clone(),
            replaces: entry.replaces.clone(),
            starting_csv: String::new(),
            properties: entry.properties().to_vec(),
            bundle_path: entry.bundle_path.clone(),
            inline: entry.inline.clone(),
            deprecations: entry.deprecations.clone(),
        }
    }
}

/// Finds the bundles to install in a namespace, in the order of their identifiers; installed ones are not among them.
pub fn resolve(snapshot: &Snapshot) -> Result<Vec<Resolved>, ResolveError> {
    let finder = Finder::new(snapshot).without_unreadable();
    let mut gathering = Gathering::new(&finder, snapshot);
    gathering.existing().map_err(ResolveError::Several)?;
    let (mut starting, mut problems) = (BTreeSet::new(), Vec::new());
    let mut subscriptions: Vec<&Subscription> = snapshot.subscriptions.iter().collect();
    subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
    for subscription in subscriptions {
        let current = gathering.current(subscription)?;
        if current.is_none() && !subscription.starting_csv.is_empty() {
            starting.insert(subscription.starting_csv.as_str());
        }
        problems.extend(gathering.subscription(subscription, current).err());
    }
    gathering.invariants();
    if finder.work.is_over() {
        return Err(ResolveError::Undecided(snapshot.namespace.clone()));
    }
    let sources = finder.problems();
    if !sources.is_empty() {
        return Err(ResolveError::Several(sources));
    }
    if !problems.is_empty() {
        return Err(ResolveError::Several(problems));
    }
    let (variables, bundles) = gathering.finish();
    let chosen = match ordered::solve(&variables) {
        Answer::Chosen(chosen) => chosen,
        Answer::Unsatisfiable(conflict) => return Err(ResolveError::Unsatisfiable(conflict)),
        Answer::Undecided => return Err(ResolveError::Undecided(snapshot.namespace.clone())),
    };
    let (mut resolved, mut problems) = (Vec::new(), Vec::new());
    for bundle in chosen.into_iter().filter_map(|at| bundles[at].as_ref()).filter(|bundle| !bundle.catalog.is_existing()) {
        if bundle.id.matches('/').count() != 3 {
            return Err(Problem::Identifier(bundle.id.clone()).into());
        }
        match only(&finder, bundle) {
            Ok(at) => resolved.push(resolution(&finder, at, bundle, &starting)),
            Err(found) => problems.push(Problem::NotOneOperator(found)),
        }
    }
    if problems.is_empty() { Ok(resolved) } else { Err(ResolveError::Several(problems)) }
}

/// The only entry that the identifier of a bundle names, or how many there are.
fn only(finder: &Finder<'_>, bundle: &Bundle) -> Result<EntryRef, usize> {
    let mut named = finder.named(finder.scope(&bundle.catalog), &bundle.name);
    named.retain(|at| bundle.channel.is_empty() || finder.entry(*at).channel == bundle.channel);
    match named.as_slice() {
        [one] => Ok(*one),
        several => Err(several.len()),
    }
}

fn resolution(finder: &Finder<'_>, at: EntryRef, bundle: &Bundle, starting: &BTreeSet<&str>) -> Resolved {
    let entry = finder.entry(at);
    let mut resolved = Resolved::of(entry, finder.key(at));
    if !bundle.replaces.is_empty() {
        resolved.replaces.clone_from(&bundle.replaces);
    }
    resolved.starting_csv = starting.get(entry.name.as_str()).map_or_else(String::new, |name| (*name).to_owned());
    resolved
}

/// The criterion of a Subscription after which no bundle was left.
#[derive(Debug, Clone, Copy)]
enum Criterion {
    Catalog,
    Package,
    Channel,
    Name,
}

impl Criterion {
    /// The sentence about it (OLM0-RES-25).
    fn said(self, of: &Subscription) -> String {
        let Subscription { name, package, channel, catalog, starting_csv, .. } = of;
        let place = match self {
            Self::Catalog => {
                let SourceKey { name: source, namespace } = catalog;
                return format!("no operators found from catalog {source} in namespace {namespace} referenced by subscription {name}");
            }
            Self::Package => format!("in package {package}"),
            Self::Channel => format!("in channel {channel} of package {package}"),
            Self::Name => format!("with name {starting_csv} in channel {channel} of package {package}"),
        };
        format!("no operators found {place} in the catalog referenced by subscription {name}")
    }
}

/// A bundle as a variable.
#[derive(Debug, Clone)]
struct Bundle {
    id: String,
    name: String,
    channel: String,
    catalog: SourceKey,
    constraints: Vec<Wanted>,
    /// The installed CSV that it would replace.
    replaces: String,
}

/// A constraint whose variables are still named.
#[derive(Debug, Clone)]
struct Wanted {
    rule: NamedRule,
    text: String,
}

#[derive(Debug, Clone)]
enum NamedRule {
    Mandatory,
    Prohibited,
    Dependency(Vec<String>),
    Conflict(String),
    AtMostOne(Vec<String>),
}

fn wanted(rule: NamedRule, text: String) -> Wanted {
    Wanted { rule, text }
}

fn id(name: &str, channel: &str, catalog: &SourceKey) -> String {
    format!("{catalog}/{channel}/{name}")
}

/// The variable behind an identifier.
#[derive(Debug, Clone)]
enum Named {
    /// A bundle, by its place among the bundles.
    Bundle(usize),
    Rule(Vec<Wanted>),
}

struct Gathering<'a> {
    finder: &'a Finder<'a>,
    snapshot: &'a Snapshot,
    bundles: Vec<Bundle>,
    /// The variable of each entry whose requirements were gone through.
    visited: HashMap<EntryRef, usize>,
    variables: BTreeMap<String, Named>,
}

impl<'a> Gathering<'a> {
    fn new(finder: &'a Finder<'a>, snapshot: &'a Snapshot) -> Self {
        Self { finder, snapshot, bundles: Vec::new(), visited: HashMap::new(), variables: BTreeMap::new() }
    }

    /// Adds the installed CSVs and all that they may need.
    fn existing(&mut self) -> Result<(), Vec<Problem>> {
        let all = self.finder.all(self.finder.scope(&SourceKey::existing(&self.snapshot.namespace)));
        self.bundles_with_needs(&all).map(|_| ())
    }

    /// The entry of the CSV that a Subscription has installed.
    fn current(&self, subscription: &Subscription) -> Result<Option<EntryRef>, Problem> {
        let scope = self.finder.scope(&SourceKey::existing(&self.snapshot.namespace));
        match self.finder.named(scope, &subscription.installed_csv).as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            several => Err(Problem::SeveralInstalled {
                subscription: format!("{}/{}", self.snapshot.namespace, subscription.name),
                csvs: several.iter().map(|at| self.finder.entry(*at).name.clone()).collect(),
            }),
        }
    }

    /// Adds a Subscription and its candidates (OLM0-RES-18, OLM0-UPG-08, OLM0-UPG-09).
    fn subscription(&mut self, subscription: &Subscription, current: Option<EntryRef>) -> Result<(), Problem> {
        let finder = self.finder;
        let scope = finder.scope(&subscription.catalog);
        let entries = match self.entries(subscription, current, scope) {
            Ok(entries) => entries,
            Err(criterion) => {
                let exists = wanted(NamedRule::Mandatory, format!("subscription {} exists", subscription.name));
                let rules = vec![exists, wanted(NamedRule::Prohibited, criterion.said(subscription))];
                self.variables.insert(format!("subscription:{}", subscription.name), Named::Rule(rules));
                return Ok(());
            }
        };
        let mut sorted = entries;
        sorted.sort_by(|a, b| {
            let (a, b) = (finder.entry(*a), finder.entry(*b));
            b.default_channel.cmp(&a.default_channel).then_with(|| a.channel.cmp(&b.channel))
        });
        let mut ordered = Vec::new();
        for channel in sorted.chunk_by(|a, b| finder.entry(*a).channel == finder.entry(*b).channel) {
            ordered.extend(channel::sort(finder, channel).map_err(Problem::Channel)?);
        }
        // Of an installed operator only what can follow it counts.
        if let Some(current) = current {
            let current = finder.entry(current);
            ordered.retain(|at| {
                let entry = finder.entry(*at);
                let in_range =
                    entry.skip_range.as_ref().zip(current.version.as_ref()).is_some_and(|(range, version)| range.matches(version));
                in_range || entry.replaces == current.name || entry.skips.contains(&current.name)
            });
        }
        let mut candidates = Vec::new();
        for at in ordered {
            let name = &finder.entry(at).name;
            // A bundle of several channels is offered by the first of them first (OLM0-RES-16); upstream leaves that to chance.
            let stack: Vec<EntryRef> = sorted.iter().copied().filter(|other| finder.entry(*other).name == *name).collect();
            let found = self.bundles_with_needs(&stack).map_err(Problem::Several)?;
            if found.is_empty() {
                return Err(Problem::NoBundles(subscription.package.clone()));
            }
            candidates.extend(found);
        }
        let mut ids: Vec<String> = candidates.iter().map(|at| self.bundles[*at].id.clone()).collect();
        if let Some(current) = current {
            let current = finder.entry(current);
            let installed = id(&current.name, &current.channel, &SourceKey::existing(&self.snapshot.namespace));
            for at in candidates {
                let bundle = &mut self.bundles[at];
                bundle.replaces.clone_from(&current.name);
                // The package of a CSV may be unknown, so that the rule of one bundle for a package is not enough.
                let text = format!("{} conflicts with {installed}", bundle.id);
                bundle.constraints.push(wanted(NamedRule::Conflict(installed.clone()), text));
            }
            ids.push(installed);
        }
        self.variables.insert(format!("subscription:{}", subscription.name), Named::Rule(subscription_rules(&subscription.name, ids)));
        Ok(())
    }

    /// The entries of the catalog that a Subscription names.
    fn entries(&self, subscription: &Subscription, current: Option<EntryRef>, scope: Scope) -> Result<Vec<EntryRef>, Criterion> {
        let Subscription { package, channel, starting_csv, .. } = subscription;
        if self.finder.all(scope).is_empty() {
            return Err(Criterion::Catalog);
        }
        let mut entries = self.finder.of_package(scope, package);
        if entries.is_empty() {
            return Err(Criterion::Package);
        }
        entries.retain(|at| channel.is_empty() || self.finder.entry(*at).channel == *channel);
        if entries.is_empty() {
            return Err(Criterion::Channel);
        }
        if current.is_none() && !starting_csv.is_empty() {
            entries.retain(|at| self.finder.entry(*at).name == *starting_csv);
            if entries.is_empty() {
                return Err(Criterion::Name);
            }
        }
        Ok(entries)
    }

    /// Adds entries, and what they require, and what that requires. Gives the bundles of the entries, each identifier once.
    fn bundles_with_needs(&mut self, entries: &[EntryRef]) -> Result<Vec<usize>, Vec<Problem>> {
        let finder = self.finder;
        let (mut stack, mut problems) = (entries.to_vec(), Vec::new());
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(at) = stack.pop() {
            if let Some(bundle) = self.visited.get(&at) {
                found.insert(self.bundles[*bundle].id.clone(), *bundle);
                continue;
            }
            let bundle = self.add(at);
            self.visited.insert(at, bundle);
            let requirements = match finder.entry(at).requirements() {
                Ok(requirements) => requirements,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            for requirement in requirements.iter() {
                let channels = finder.channels_of(&finder.passing(requirement), finder.key(at), &self.snapshot.namespace);
                let sorted = match channel::sort_all(finder, &channels) {
                    Ok(sorted) => sorted,
                    Err(error) => {
                        problems.push(Problem::Channel(error));
                        continue;
                    }
                };
                let candidates: Vec<EntryRef> =
                    sorted.into_iter().filter(|at| requirement.holds(finder.entry(*at), &finder.work)).collect();
                let ids = candidates.iter().map(|at| self.id(*at)).collect();
                stack.extend(candidates);
                let text = format!("bundle {} requires an operator {requirement}", finder.entry(at).name);
                self.bundles[bundle].constraints.push(wanted(NamedRule::Dependency(ids), text));
            }
            found.insert(self.bundles[bundle].id.clone(), bundle);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut initial = Vec::new();
        for at in entries {
            let bundle = found[&self.id(*at)];
            if !initial.contains(&bundle) {
                initial.push(bundle);
            }
        }
        self.variables.extend(found.into_iter().map(|(id, bundle)| (id, Named::Bundle(bundle))));
        Ok(initial)
    }

    fn id(&self, at: EntryRef) -> String {
        let entry = self.finder.entry(at);
        id(&entry.name, &entry.channel, self.finder.key(at))
    }

    /// Adds the bundle of an entry, without what it requires.
    fn add(&mut self, at: EntryRef) -> usize {
        let (entry, catalog) = (self.finder.entry(at), self.finder.key(at).clone());
        let id = self.id(at);
        let mut constraints = Vec::new();
        // What a Subscription owns may be replaced, anything else stays (OLM0-RES-20).
        if catalog.is_existing() && !entry.subscribed {
            let text = format!("clusterserviceversion {} exists and is not referenced by a subscription", entry.name);
            constraints.push(wanted(NamedRule::Mandatory, text));
        }
        if entry.is_deprecated() {
            constraints.push(wanted(NamedRule::Prohibited, format!("bundle {id} is deprecated")));
        }
        let (name, channel) = (entry.name.clone(), entry.channel.clone());
        self.bundles.push(Bundle { id, name, channel, catalog, constraints, replaces: String::new() });
        self.bundles.len() - 1
    }

    /// Adds the rules that there is one provider of each API and one bundle of each package (OLM0-RES-19).
    fn invariants(&mut self) {
        let (mut apis, mut packages): (BTreeMap<Api, Vec<String>>, BTreeMap<String, Vec<String>>) = Default::default();
        for named in self.variables.values() {
            let Named::Bundle(at) = named else { continue };
            let bundle = &self.bundles[*at];
            if bundle.id.matches('/').count() != 3 {
                continue;
            }
            let Ok(only) = only(self.finder, bundle) else { continue };
            let entry = self.finder.entry(only);
            for api in entry.apis() {
                apis.entry(api.clone()).or_default().push(bundle.id.clone());
            }
            for (package, _) in entry.packages() {
                packages.entry(package.clone()).or_default().push(bundle.id.clone());
            }
        }
        for (api, ids) in apis {
            let rules = one_of(ids, &format!("there can be only one provider of {api}"), &format!("provide {api}"));
            self.variables.insert(api.to_string(), Named::Rule(rules));
        }
        for (package, ids) in packages {
            let only = format!("there can be only one operator from package {package}");
            let rules = one_of(ids, &only, &format!("originate from package {package}"));
            self.variables.insert(package, Named::Rule(rules));
        }
    }

    /// The variables for the search, in the order of their names, and the bundle of each.
    fn finish(self) -> (Vec<Variable>, Vec<Option<Bundle>>) {
        let places: HashMap<&str, usize> = self.variables.keys().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        let place = |id: &String| places.get(id.as_str()).copied();
        let list = |ids: &[String]| ids.iter().filter_map(place).collect();
        let rule = |rule: &NamedRule| {
            Some(match rule {
                NamedRule::Mandatory => Rule::Mandatory,
                NamedRule::Prohibited => Rule::Prohibited,
                NamedRule::Dependency(ids) => Rule::Dependency(list(ids)),
                NamedRule::Conflict(id) => Rule::Conflict(place(id)?),
                NamedRule::AtMostOne(ids) => Rule::AtMostOne(list(ids)),
            })
        };
        let (mut variables, mut bundles) = (Vec::new(), Vec::new());
        for named in self.variables.values() {
            let (wanted, bundle) = match named {
                Named::Bundle(at) => (&self.bundles[*at].constraints, Some(self.bundles[*at].clone())),
                Named::Rule(wanted) => (wanted, None),
            };
            let constraints = wanted.iter().filter_map(|one| Some(Constraint { rule: rule(&one.rule)?, text: one.text.clone() }));
            variables.push(Variable { constraints: constraints.collect() });
            bundles.push(bundle);
        }
        (variables, bundles)
    }
}

/// `a, b or c`, with the last word as given.
fn joined(ids: &[String], last: &str) -> String {
    match ids.split_last() {
        Some((one, [])) => one.clone(),
        Some((end, others)) => format!("{} {last} {end}", others.join(", ")),
        None => String::new(),
    }
}

fn subscription_rules(name: &str, ids: Vec<String>) -> Vec<Wanted> {
    let exists = wanted(NamedRule::Mandatory, format!("subscription {name} exists"));
    let text = match ids.len() {
        0 => format!("no operators found matching the criteria of subscription {name}"),
        1 => format!("subscription {name} requires {}", ids[0]),
        _ => format!("subscription {name} requires at least one of {}", joined(&ids, "or")),
    };
    vec![exists, wanted(NamedRule::Dependency(ids), text)]
}

fn one_of(mut ids: Vec<String>, only: &str, verb: &str) -> Vec<Wanted> {
    if ids.len() < 2 {
        return Vec::new();
    }
    ids.sort();
    let text = format!("{} {verb}", joined(&ids, "and"));
    vec![wanted(NamedRule::Mandatory, only.to_owned()), wanted(NamedRule::AtMostOne(ids), text)]
}
