//! Rules of one source become one list of mirrors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rules::{MirrorRule, SourcePolicy};

/// The mirrors of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MergedRule {
    /// The source.
    pub source: String,
    /// The mirrors, first to be tried first; the source itself only if something follows it.
    pub mirrors: Vec<String>,
    /// True if the source is never contacted.
    pub never_source: bool,
}

/// Merges rules by source, in the order of the sources. A rule without a mirror but the source itself says nothing.
pub(super) fn merged(rules: &[MirrorRule]) -> Vec<MergedRule> {
    let mut by_source: BTreeMap<&str, Vec<&MirrorRule>> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.mirrors.iter().any(|mirror| *mirror != rule.source)) {
        by_source.entry(&rule.source).or_default().push(rule);
    }
    by_source
        .into_iter()
        .map(|(source, rules)| MergedRule {
            source: source.to_owned(),
            mirrors: in_order(source, &rules),
            never_source: rules.iter().any(|rule| rule.policy == SourcePolicy::NeverContactSource),
        })
        .collect()
}

/// Puts mirrors in an order that respects all rules as far as possible.
fn in_order(source: &str, rules: &[&MirrorRule]) -> Vec<String> {
    let mut order = Order::default();
    for rule in rules {
        for pair in rule.mirrors.windows(2) {
            order.before(&pair[0], &pair[1]);
        }
        if let Some(last) = rule.mirrors.last().filter(|_| !rule.mirrors.iter().any(|mirror| mirror == source)) {
            order.before(last, source);
        }
    }
    let mut sorted = order.sorted();
    // The source is tried last anyway.
    if sorted.last().is_some_and(|last| last == source) {
        sorted.pop();
    }
    sorted
}

/// The mirrors that stand after and before each other.
#[derive(Default)]
struct Order<'a> {
    after: BTreeMap<&'a str, BTreeSet<&'a str>>,
    before: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Order<'a> {
    fn before(&mut self, first: &'a str, second: &'a str) {
        self.after.entry(first).or_default().insert(second);
        self.after.entry(second).or_default();
        self.before.entry(second).or_default().insert(first);
    }

    /// Sorts topologically; what is not ordered goes by name, and a circle is broken at its first name.
    fn sorted(mut self) -> Vec<String> {
        let has_none = |before: &BTreeMap<&str, BTreeSet<&str>>, name: &str| before.get(name).is_none_or(BTreeSet::is_empty);
        let names: Vec<&str> = self.after.keys().copied().collect();
        let mut free: VecDeque<&str> = names.iter().copied().filter(|name| has_none(&self.before, name)).collect();
        let mut rest = names.iter().copied();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut sorted = Vec::new();
        loop {
            let next = match free.pop_front() {
                Some(name) => name,
                None => match rest.find(|name| !used.contains(name)) {
                    Some(name) => name,
                    None => return sorted,
                },
            };
            used.insert(next);
            sorted.push(next.to_owned());
            for follower in self.after.get(next).into_iter().flatten() {
                if let Some(before) = self.before.get_mut(follower) {
                    before.remove(next);
                }
                if has_none(&self.before, follower) && !used.contains(follower) {
                    free.push_back(follower);
                }
            }
        }
    }
}
