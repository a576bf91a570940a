//! Changes that would work: each hint was solved before it is given.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use mainstay_objects::LabelSelector;
use mainstay_versions::Version;

use super::conflict::{Conflict, Fact, FactKind, JointHint};
use super::explain::Explainer;
use super::search::{answer, together};
use super::universe::{Input, Key, Role};
use super::{Problem, Root};
use crate::hints::Change;
use crate::request::{CatalogState, Request, UpgradeConstraintPolicy};
use crate::resolve::Choice;

/// The most hints that are given.
const MOST_HINTS: usize = 8;
/// The most changes that are tried for one root.
const MOST_OF_ONE: usize = 24;
/// The most changes that are tried for all roots.
const MOST_TRIED: usize = 64;
/// The most bundles that are gone through for all roots: a change among thousands of bundles costs as much as many among a few.
const MOST_BUNDLES: usize = 8000;
/// Label of a catalog with its own name.
const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

/// The remaining work for the hints of one problem.
pub(super) struct Effort<'p> {
    changes: usize,
    bundles: usize,
    /// The problem with its facts switched, in which nothing has been blamed.
    wide: Option<Explainer<'p>>,
}

impl Default for Effort<'_> {
    fn default() -> Self {
        Self { changes: MOST_TRIED, bundles: MOST_BUNDLES, wide: None }
    }
}

/// Finds changes to the root, or to those that its conflict names, that let it be met without harm to any other.
pub(super) fn find<'p>(
    input: &Input<'p>,
    blamed: usize,
    unmet: &BTreeSet<usize>,
    conflict: &Conflict,
    effort: &mut Effort<'p>,
) -> Vec<JointHint> {
    let problem = input.problem;
    let named = |root: &usize| conflict.facts.iter().any(|fact| fact.subject.as_deref() == Some(&problem.roots[*root].subject));
    let others = (0..problem.roots.len()).filter(|root| *root != blamed && named(root));
    let alternatives: Vec<(usize, Vec<Change>)> = std::iter::once(blamed)
        .chain(others)
        .map(|root| {
            let Root { subject, request } = &problem.roots[root];
            let mut changes = singles(problem, request);
            let ahead = |fact: &Fact| matches!(fact.kind, FactKind::NoWayBack | FactKind::Edges) && fact.subject.as_ref() == Some(subject);
            if conflict.facts.iter().any(ahead) {
                changes.extend(older(problem, request));
            }
            (root, changes)
        })
        .collect();
    let mut search = Search { input, blamed, unmet, effort, left: MOST_OF_ONE, hints: Vec::new() };
    let alternatives: Vec<(usize, Vec<Change>)> =
        alternatives.into_iter().filter(|(root, changes)| search.could_help(conflict, *root, changes)).collect();
    for (root, changes) in &alternatives {
        // Whether bundles may be added is asked once, and not for every root.
        for change in changes.iter().filter(|change| *root == blamed || **change != Change::AddMissing) {
            search.attempt(*root, vec![change.clone()]);
        }
    }
    if search.hints.is_empty() {
        for (root, changes) in &alternatives {
            for (i, first) in changes.iter().enumerate() {
                for second in &changes[i + 1..] {
                    search.attempt(*root, vec![first.clone(), second.clone()]);
                }
            }
        }
    }
    search.hints
}

/// Finds hints for a root that is refused by itself: its own hints if they also help among the others; otherwise the changes that would.
pub(super) fn of_refused<'p>(
    input: &Input<'p>,
    blamed: usize,
    unmet: &BTreeSet<usize>,
    conflict: &Conflict,
    effort: &mut Effort<'p>,
) -> Vec<JointHint> {
    let mut search = Search { input, blamed, unmet, effort, left: MOST_OF_ONE, hints: Vec::new() };
    let mut tried = false;
    for hint in &conflict.hints {
        if hint.leads_to.is_empty() {
            // A similar package name is a guess, and is given as one.
            search.hints.push(hint.clone());
        } else {
            tried = true;
            search.attempt(blamed, hint.changes.clone());
        }
    }
    let found = search.hints;
    if found.is_empty() && tried { find(input, blamed, unmet, conflict, effort) } else { found }
}

struct Search<'s, 'p> {
    input: &'s Input<'p>,
    blamed: usize,
    /// Roots that could not be met before.
    unmet: &'s BTreeSet<usize>,
    effort: &'s mut Effort<'p>,
    /// Changes that may still be tried for this root.
    left: usize,
    hints: Vec<JointHint>,
}

impl Search<'_, '_> {
    /// Returns whether these changes could help: a change of a root lifts at most what the root demands. A conflict from which nothing is lifted
    /// remains; otherwise one question to the existing solver tells whether another conflict is left.
    fn could_help(&mut self, conflict: &Conflict, root: usize, changes: &[Change]) -> bool {
        let input = self.input;
        if input.asked[self.blamed].is_err() || input.asked[root].is_err() {
            return true;
        }
        let roots = input.problem.roots;
        let adds = changes.contains(&Change::AddMissing);
        let position = |fact: &Fact| roots.iter().position(|root| Some(&root.subject) == fact.subject.as_ref());
        let lifted = |fact: &Fact| match fact.kind {
            FactKind::NotAsked => adds,
            kind => kind.is_filter() && position(fact) == Some(root),
        };
        // A change is tried without the outcome of roots that could not be met.
        let stands = |fact: &Fact| match (fact.kind, position(fact)) {
            (FactKind::Wanted, Some(of)) => of == self.blamed || !self.unmet.contains(&of),
            (FactKind::Stays | FactKind::Refused, Some(of)) => input.asked[of].is_err(),
            _ => true,
        };
        if conflict.facts.iter().all(stands) && !conflict.facts.iter().any(lifted) {
            return false;
        }
        if self.is_exhausted() {
            return false;
        }
        let refused = || (0..input.asked.len()).filter(|root| input.asked[*root].is_err()).collect();
        let wide = self.effort.wide.get_or_insert_with(|| Explainer::new(input, &refused()));
        let wanted: BTreeSet<usize> = (0..input.asked.len()).filter(|root| *root == self.blamed || !self.unmet.contains(root)).collect();
        let could = wide.encoding.possible_without(&wanted, |key| match key {
            Key::Filter(other, _) => *other == root,
            Key::NotAsked(_) => adds,
            _ => false,
        });
        if !could {
            self.left -= 1;
            self.effort.changes -= 1;
        }
        could
    }

    fn is_exhausted(&self) -> bool {
        self.left == 0 || self.effort.changes == 0 || self.effort.bundles == 0 || self.hints.len() == MOST_HINTS
    }

    fn attempt(&mut self, root: usize, changes: Vec<Change>) {
        if self.is_exhausted() {
            return;
        }
        self.left -= 1;
        self.effort.changes -= 1;
        let problem = self.input.problem;
        let mut roots: Vec<Root> = problem.roots.to_vec();
        for change in &changes {
            apply(change, &mut roots[root].request);
        }
        let add_missing = problem.add_missing || changes.contains(&Change::AddMissing);
        let changed = Problem { roots: &roots, add_missing, ..*problem };
        if let Some(leads_to) = self.outcome(&self.input.changed(&changed, root), root) {
            self.hints.push(JointHint { subject: problem.roots[root].subject.clone(), changes, leads_to });
        }
    }

    /// Returns the bundles of the blamed and the changed root and the additions, if no root is worse off than before.
    fn outcome(&mut self, input: &Input<'_>, changed: usize) -> Option<Vec<Choice>> {
        let (unmet, blamed) = (self.unmet, self.blamed);
        let wanted: BTreeSet<usize> = (0..input.asked.len()).filter(|root| *root == blamed || !unmet.contains(root)).collect();
        // Most changes lead nowhere, which one question shows.
        if wanted.iter().any(|root| input.asked[*root].is_err()) {
            return None;
        }
        let (possible, bundles) = together(input, &wanted);
        self.effort.bundles = self.effort.bundles.saturating_sub(bundles);
        if !possible {
            return None;
        }
        let answer = answer(input, None);
        if wanted.iter().any(|root| answer.blamed.contains_key(root)) {
            return None;
        }
        let (mut of_blamed, mut of_changed, mut added) = (Vec::new(), Vec::new(), Vec::new());
        for at in &answer.there {
            let entity = &answer.universe.entities[*at];
            match entity.role {
                Role::Candidate { root, .. } if root == blamed => of_blamed.push(entity.item),
                Role::Candidate { root, .. } if root == changed => of_changed.push(entity.item),
                Role::Addable if answer.needed_by(*at, &[blamed, changed]) => added.push(entity.item),
                _ => {}
            }
        }
        Some(of_blamed.into_iter().chain(of_changed).chain(added).map(|item| answer.universe.pool.choice(item)).collect())
    }
}

/// Changes of one part of a request, for each part that it has.
fn singles(problem: &Problem<'_>, request: &Request) -> Vec<Change> {
    let mut changes = Vec::new();
    if !problem.add_missing {
        changes.push(Change::AddMissing);
    }
    if request.version.as_ref().is_some_and(|version| !version.is_empty()) {
        changes.push(Change::AnyVersion);
    }
    if !request.channels.is_empty() {
        changes.push(Change::AnyChannel);
    }
    if request.installed.is_some() && request.policy == UpgradeConstraintPolicy::CatalogProvided {
        changes.push(Change::SelfCertified);
    }
    if request.selector.as_ref().is_some_and(|selector| !selector.is_empty()) {
        changes.push(Change::AnyCatalog);
    }
    let (mut channels, mut catalogs) = (BTreeSet::new(), Vec::new());
    for catalog in problem.catalogs {
        let CatalogState::Content(source) = catalog.state else { continue };
        let Some(package) = source.package(&request.package) else { continue };
        channels.extend(package.channels.iter().map(|channel| channel.name));
        catalogs.push(catalog.name);
    }
    if catalogs.len() > 1 {
        changes.extend(catalogs.into_iter().map(|name| Change::Catalog(name.to_owned())));
    }
    if !request.channels.is_empty() {
        let others = channels.into_iter().filter(|name| !request.channels.iter().any(|wanted| wanted == name));
        changes.extend(others.map(|name| Change::Channels(vec![name.to_owned()])));
    }
    changes
}

/// Asking for an older version than the installed one, the newest of them first.
fn older(problem: &Problem<'_>, request: &Request) -> Vec<Change> {
    let Some(installed) = request.installed.as_ref().and_then(|bundle| Version::parse(&bundle.version).ok()) else { return Vec::new() };
    let mut found: Vec<(Version, String)> = Vec::new();
    for catalog in problem.catalogs {
        let CatalogState::Content(source) = catalog.state else { continue };
        let bundles = source.package(&request.package).map(|package| package.bundles).unwrap_or_default();
        let read = |text: &str| Version::parse(text).ok().map(|version| (version, text.to_owned()));
        found.extend(bundles.iter().filter_map(|bundle| bundle.version).filter_map(read));
    }
    found.retain(|(version, _)| version.cmp_precedence(&installed) == Ordering::Less);
    found.sort_by(|a, b| b.cmp(a));
    found.dedup();
    found.into_iter().map(|(_, text)| Change::Version(text)).collect()
}

fn apply(change: &Change, request: &mut Request) {
    match change {
        Change::AnyVersion => request.version = None,
        Change::Version(version) => request.version = Some(version.clone()),
        Change::Channels(channels) => request.channels.clone_from(channels),
        Change::AnyChannel => request.channels.clear(),
        Change::SelfCertified => request.policy = UpgradeConstraintPolicy::SelfCertified,
        Change::AnyCatalog => request.selector = None,
        Change::Catalog(name) => request.selector = Some(LabelSelector::label(NAME_LABEL, name)),
        Change::Package(name) => request.package.clone_from(name),
        // This is a property of the whole problem, not of a request.
        Change::AddMissing => {}
    }
}
