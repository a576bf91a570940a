//! Links between what is named and what names it, so that a change finds what it concerns.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Links from `A` to every `B` that names it.
#[derive(Debug)]
pub(super) struct Links<A, B> {
    by_named: HashMap<A, BTreeSet<B>>,
    by_naming: HashMap<B, BTreeSet<A>>,
}

impl<A, B> Default for Links<A, B> {
    fn default() -> Self {
        Self { by_named: HashMap::new(), by_naming: HashMap::new() }
    }
}

impl<A: Clone + Eq + Hash + Ord, B: Clone + Eq + Hash + Ord> Links<A, B> {
    /// Sets everything that `naming` names; an empty set forgets it. Returns what it named before.
    pub fn set(&mut self, naming: &B, named: BTreeSet<A>) -> BTreeSet<A> {
        let before = self.by_naming.remove(naming).unwrap_or_default();
        for gone in before.difference(&named) {
            if let Some(all) = self.by_named.get_mut(gone) {
                all.remove(naming);
                if all.is_empty() {
                    self.by_named.remove(gone);
                }
            }
        }
        for new in named.difference(&before) {
            self.by_named.entry(new.clone()).or_default().insert(naming.clone());
        }
        if !named.is_empty() {
            self.by_naming.insert(naming.clone(), named);
        }
        before
    }

    /// Returns everything that names `named`.
    pub fn of<'a>(&'a self, named: &A) -> impl Iterator<Item = &'a B> + use<'a, A, B> {
        self.by_named.get(named).into_iter().flatten()
    }

    /// Returns everything that `naming` names.
    pub fn named_by<'a>(&'a self, naming: &B) -> impl Iterator<Item = &'a A> + use<'a, A, B> {
        self.by_naming.get(naming).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_both_ends() {
        let mut links: Links<&str, u8> = Links::default();
        links.set(&1, BTreeSet::from(["a", "b"]));
        links.set(&2, BTreeSet::from(["b"]));
        assert_eq!(links.of(&"b").copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(links.set(&1, BTreeSet::from(["c"])), BTreeSet::from(["a", "b"]));
        assert_eq!(links.of(&"b").copied().collect::<Vec<_>>(), [2]);
        links.set(&2, BTreeSet::new());
        assert_eq!((links.of(&"b").count(), links.named_by(&1).count()), (0, 1));
    }
}
