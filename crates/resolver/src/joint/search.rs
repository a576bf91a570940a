//! The search for the roots that can be met together, and for the best way to meet them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::conflict::Conflict;
use super::encode::{Asked, Encoding};
use super::explain::{Explainer, held_back_together};
use super::pool::ItemId;
use super::universe::{Group, Input, Role, Universe};
use super::{Added, Component, Problem, Solution, hints};
use crate::resolve::{Pick, Resolution, resolution};

/// The most roots for which it is explained what holds back their best bundle; people do not read more.
const MOST_EXPLAINED: usize = 10;

/// The most questions to the solver that make the explanations of one problem least; each fact of an explanation costs one. People read
/// the first few facts; the rest of hundreds need only be true.
const MOST_QUESTIONS: usize = 600;

/// The result of a search: the roots that cannot be met and why, and the entities that are there when the others are met.
pub(super) struct Answer<'p> {
    pub(super) universe: Universe<'p>,
    pub(super) there: Vec<usize>,
    /// By root; the facts to blame, if they were requested.
    pub(super) blamed: BTreeMap<usize, Option<Conflict>>,
}

pub(super) fn solve(problem: &Problem<'_>) -> Vec<Component> {
    let input = Input::read(problem);
    let mut questions = MOST_QUESTIONS;
    let told = |root: usize| problem.about.is_none_or(|about| problem.roots[root].subject == about);
    let mut answer = answer(&input, Some(Explaining { told: &told, questions: &mut questions }));
    let subject = |root: &usize| problem.roots[*root].subject.clone();
    let mut components: Vec<(usize, Component)> = Vec::new();
    let refused = (0..input.asked.len()).filter(|root| input.asked[*root].is_err());
    let unmet: BTreeSet<usize> = refused.chain(answer.blamed.keys().copied()).collect();
    let mut effort = hints::Effort::default();
    for (root, asked) in input.asked.iter().enumerate() {
        if let Err(refusal) = asked {
            let mut conflict = Conflict::of_refusal(&problem.roots[root].subject, refusal);
            if told(root) {
                conflict.hints = hints::of_refused(&input, root, &unmet, &conflict, &mut effort);
            }
            components.push((root, Component { subjects: vec![subject(&root)], outcome: Err(Box::new(conflict)) }));
        }
    }
    for (root, conflict) in std::mem::take(&mut answer.blamed) {
        let Some(mut conflict) = conflict else { continue };
        // Work that was too much once is not repeated for each hint.
        if told(root) && !conflict.is_undecided() {
            conflict.hints = hints::find(&input, root, &unmet, &conflict, &mut effort);
        }
        components.push((root, Component { subjects: vec![subject(&root)], outcome: Err(Box::new(conflict)) }));
    }
    let mut reasons = Reasons { told: &told, explainer: None, left: MOST_EXPLAINED, questions };
    for group in answer.universe.components(&input) {
        let subjects = group.roots.iter().map(subject).collect();
        let solution = solution(&input, &answer, &group, &mut reasons);
        components.push((group.roots[0], Component { subjects, outcome: Ok(solution) }));
    }
    components.sort_by_key(|(first, _)| *first);
    components.into_iter().map(|(_, component)| component).collect()
}

impl Answer<'_> {
    /// Returns whether an addition is needed by one of some roots, directly or through others.
    pub(super) fn needed_by(&self, addition: usize, roots: &[usize]) -> bool {
        let begins = |at: &&usize| matches!(self.universe.entities[**at].role, Role::Candidate { root, .. } if roots.contains(&root));
        let mut stack: Vec<usize> = self.there.iter().filter(begins).copied().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = stack.pop() {
            if at == addition {
                return true;
            }
            if seen.insert(at) {
                stack.extend(self.needs_of(at));
            }
        }
        false
    }

    /// The entities that are there and meet a need of an entity.
    fn needs_of(&self, at: usize) -> Vec<usize> {
        let needs = self.universe.entities[at].needs.iter().filter(|need| !self.universe.pool.need(**need).forbids);
        let meeting: BTreeSet<usize> = needs.filter_map(|need| self.universe.meeting.get(need)?.as_ref()).flatten().copied().collect();
        self.there.iter().copied().filter(|other| meeting.contains(other)).collect()
    }
}

/// Returns whether roots can all be met, regardless of the others, and the number of bundles that were gone through.
pub(super) fn together(input: &Input<'_>, wanted: &BTreeSet<usize>) -> (bool, usize) {
    let refused = (0..input.asked.len()).filter(|root| input.asked[*root].is_err());
    let mut universe = Universe::build(input, &refused.collect(), false);
    (Encoding::of(&mut universe).possible(wanted) == Asked::Possible, universe.entities.len())
}

/// The roots for which it is explained why they cannot be met, and the questions left for that.
pub(super) struct Explaining<'e> {
    told: &'e dyn Fn(usize) -> bool,
    questions: &'e mut usize,
}

/// Finds the roots that can be met together, and meets them in the best way.
pub(super) fn answer<'p>(input: &Input<'p>, mut explain: Option<Explaining<'_>>) -> Answer<'p> {
    let refused = (0..input.asked.len()).filter(|root| input.asked[*root].is_err());
    let mut fixed: BTreeSet<usize> = refused.collect();
    let mut blamed = BTreeMap::new();
    loop {
        let mut universe = Universe::build(input, &fixed, false);
        let mut encoding = Encoding::of(&mut universe);
        let open: BTreeSet<usize> = universe.candidates.keys().copied().collect();
        let mut accepted = BTreeSet::new();
        if encoding.possible(&open) == Asked::Possible {
            accepted.clone_from(&open);
        }
        // Roots with an installed bundle go before those without, then the order of the roots counts.
        let mut order: Vec<usize> = open.difference(&accepted).copied().collect();
        order.sort_by_key(|root| (input.problem.roots[*root].request.installed.is_none(), *root));
        let mut explainer = None;
        for root in order {
            accepted.insert(root);
            let possible = encoding.possible(&accepted);
            if possible == Asked::Possible {
                continue;
            }
            let conflict = explain.as_mut().map(|Explaining { told, questions }| {
                let (subject, package) = (&input.problem.roots[root].subject, input.package(root));
                if !told(root) {
                    return Conflict::untold(subject, package);
                }
                if possible == Asked::Undecided {
                    return Conflict::undecided(subject, package);
                }
                let explainer = explainer.get_or_insert_with(|| Explainer::new(input, &fixed));
                explainer.conflict(input, root, &accepted, questions)
            });
            accepted.remove(&root);
            blamed.insert(root, conflict);
        }
        // One by one they can be met even if the question about all of them was given up.
        if accepted == open {
            encoding.demand(&open);
            best(&universe, &mut encoding);
            return Answer { there: encoding.there(), universe, blamed };
        }
        fixed.extend(blamed.keys());
    }
}

/// Chooses in the strict order that `solve` documents.
fn best(universe: &Universe<'_>, encoding: &mut Encoding) {
    for candidates in universe.candidates.values() {
        for candidate in candidates {
            if encoding.take(*candidate) {
                break;
            }
        }
    }
    let addable = |at: &usize| universe.entities[*at].role == Role::Addable;
    let all: Vec<usize> = (0..universe.entities.len()).filter(addable).collect();
    encoding.take_few_of(&all);
    let standing = |at: &usize| {
        let item = universe.pool.item(universe.entities[*at].item);
        (item.facts.deprecation.is_some(), Reverse(universe.pool.priority(universe.entities[*at].item)))
    };
    let mut packages: Vec<Vec<usize>> = Vec::new();
    for entities in universe.by_package.values() {
        let mut additions: Vec<usize> = entities.iter().copied().filter(|at| addable(at)).collect();
        additions.sort_by(|a, b| {
            let item = |at: &usize| universe.pool.item(universe.entities[*at].item);
            let catalog = |at: &usize| universe.pool.catalog_name(universe.entities[*at].item);
            let standing = standing(a).cmp(&standing(b)).then(item(a).place.cmp(&item(b).place));
            let newest = standing.then_with(|| item(b).version.cmp(&item(a).version));
            newest.then_with(|| item(a).facts.name.cmp(item(b).facts.name)).then_with(|| catalog(a).cmp(catalog(b)))
        });
        packages.extend((!additions.is_empty()).then_some(additions));
    }
    // The sort is stable: packages of one standing stay in the order of their names.
    packages.sort_by_key(|additions| standing(&additions[0]));
    for additions in packages {
        if encoding.take_one_of(&additions) {
            for addition in additions {
                if encoding.take(addition) {
                    break;
                }
            }
        }
    }
}

fn solution<'p>(input: &Input<'p>, answer: &Answer<'p>, group: &Group, reasons: &mut Reasons<'_, 'p>) -> Solution {
    let universe = &answer.universe;
    let mut chosen = BTreeMap::new();
    for at in &answer.there {
        if let Role::Candidate { root, .. } = universe.entities[*at].role
            && group.roots.contains(&root)
        {
            chosen.insert(input.problem.roots[root].subject.clone(), chosen_resolution(input, answer, *at, reasons));
        }
    }
    let added = order(answer).into_iter().filter(|at| {
        let entity = &universe.entities[*at];
        entity.role == Role::Addable && group.packages.contains(&universe.pool.item(entity.item).package)
    });
    let added = added.map(|at| Added { choice: universe.pool.choice(universe.entities[at].item), because: because(answer, at) }).collect();
    Solution { chosen, added }
}

fn chosen_resolution<'p>(input: &Input<'p>, answer: &Answer<'p>, at: usize, why: &mut Reasons<'_, 'p>) -> Resolution {
    let universe = &answer.universe;
    let Role::Candidate { root, offer, bundle } = universe.entities[at].role else { unreachable!("only candidates are chosen") };
    let Ok(asked) = &input.asked[root] else { unreachable!("a refused root has no candidates") };
    let (query, first) = (asked.query(), universe.candidates[&root][0]);
    // Nothing is in the way: the answer is that of `resolve`.
    if first == at
        && let Ok(pick) = asked.pick()
    {
        return resolution(asked.request, &query, &pick, asked.reports());
    }
    let offer = &asked.offers[offer];
    let pick = Pick { offer, bundle: &offer.bundles[bundle], beaten: Vec::new() };
    let mut resolution = resolution(asked.request, &query, &pick, asked.reports());
    let better = universe.candidates[&root].iter().take_while(|other| **other != at).count();
    let name = &resolution.choice.bundle;
    let first_reason = match universe.candidates[&root].len() {
        1 => format!("{name} is the only bundle that fits"),
        fit => format!("{name} is the best of {fit} bundles that fit and go together with the others"),
    };
    let held = why.held_back(input, answer, root, universe.entities[first].item);
    let mut reasons = vec![first_reason, held];
    match better {
        0 | 1 => {}
        2 => reasons.push("1 other that would be better is held back, too".to_owned()),
        more => reasons.push(format!("{} others that would be better are held back, too", more - 1)),
    }
    resolution.reasons.splice(0..1, reasons);
    resolution
}

/// Explanations of what keeps roots from their best bundles. The wide universe is built only when a root is kept from its best.
struct Reasons<'r, 'p> {
    told: &'r dyn Fn(usize) -> bool,
    explainer: Option<Explainer<'p>>,
    left: usize,
    questions: usize,
}

impl<'p> Reasons<'_, 'p> {
    fn held_back(&mut self, input: &Input<'p>, answer: &Answer<'p>, root: usize, best: ItemId) -> String {
        if self.left == 0 || !(self.told)(root) {
            return held_back_together(&answer.universe.pool.item(best).label);
        }
        self.left -= 1;
        let fixed = (0..input.asked.len()).filter(|root| !answer.universe.candidates.contains_key(root)).collect();
        let explainer = self.explainer.get_or_insert_with(|| Explainer::new(input, &fixed));
        explainer.held_back(input, answer, root, best, &mut self.questions)
    }
}

/// All entities that are there, the needed ones before those that need them; by package if they need each other.
fn order(answer: &Answer<'_>) -> Vec<usize> {
    let universe = &answer.universe;
    let mut there = answer.there.clone();
    let package = |at: usize| universe.pool.item(universe.entities[at].item).package.as_str();
    there.sort_by_key(|at| package(*at));
    let (mut done, mut ordered) = (BTreeSet::new(), Vec::new());
    for start in &there {
        // The search is depth first, without recursion: an entity is put down after all that it needs.
        let mut stack = vec![(*start, false)];
        while let Some((at, needs_done)) = stack.pop() {
            if needs_done {
                ordered.push(at);
                continue;
            }
            if !done.insert(at) {
                continue;
            }
            stack.push((at, true));
            let mut needs = answer.needs_of(at);
            needs.sort_by_key(|at| std::cmp::Reverse(package(*at)));
            stack.extend(needs.into_iter().map(|other| (other, false)));
        }
    }
    ordered
}

/// The bundles that need an addition, with their needs.
fn because(answer: &Answer<'_>, addition: usize) -> Vec<String> {
    let universe = &answer.universe;
    let mut because = Vec::new();
    for at in answer.there.iter().filter(|at| **at != addition) {
        let entity = &universe.entities[*at];
        for need in &entity.needs {
            let need_text = universe.pool.need(*need);
            let meets = universe.meeting.get(need).and_then(Option::as_ref).is_some_and(|meeting| meeting.contains(&addition));
            if meets && !need_text.forbids {
                let item = universe.pool.item(entity.item);
                let name = if item.facts.name.is_empty() { &item.label } else { item.facts.name };
                because.push(format!("{name} {need_text}"));
            }
        }
    }
    because.sort();
    because.dedup();
    because
}
