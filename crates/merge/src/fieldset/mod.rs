//! Sets of field paths, and their form in `metadata.managedFields` (FieldsV1).
//!
//! A set is a tree: at each level the elements that belong to it and those below which something does.
//! `{"f:spec": {".": {}, "f:a": {}}}` holds `.spec` and `.spec.a`.
//!
//! Sets share their parts. Most of what managed fields go through changes little or nothing of them, so every operation
//! hands back the very levels that it leaves as they are, and copies only those on the way to a difference.

mod element;
mod v1;

use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use element::{Keys, Step, equal};
pub use element::{Path, PathElement, Scalar};
pub use v1::DecodeError;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In strict order; absent if there are none, so that equal sets look the same.
    level: Option<Arc<Vec<Entry>>>,
}

/// A place with something at it or below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    /// True if the place itself belongs to the set.
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of entries in any order; those of the same element are joined, empty ones left out.
    pub(crate) fn collect(mut entries: Vec<Entry>) -> Self {
        entries.retain(|entry| !entry.is_empty());
        if !entries.is_sorted_by(|left, right| left.element < right.element) {
            entries.sort_by(|left, right| left.element.cmp(&right.element));
            entries.dedup_by(|later, earlier| {
                let same = later.element == earlier.element;
                if same {
                    earlier.member |= later.member;
                    earlier.below = earlier.below.union(&later.below);
                }
                same
            });
        }
        Self::of(entries)
    }

    /// The set of entries in strict order, none of them empty.
    fn of(entries: Vec<Entry>) -> Self {
        Self { level: (!entries.is_empty()).then(|| Arc::new(entries)) }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.level.as_ref().map(|level| level.as_slice()).unwrap_or_default()
    }

    /// Returns true if both are the very same tree: a quick and sufficient sign that they are equal.
    fn is(&self, other: &Self) -> bool {
        match (&self.level, &other.level) {
            (None, None) => true,
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }

    fn find(&self, element: &PathElement) -> Option<&Entry> {
        let entries = self.entries();
        entries.binary_search_by(|entry| entry.element.cmp(element)).ok().map(|place| &entries[place])
    }

    /// Returns the set's entry for a place of the value that is walked: the place itself and what lies below it.
    pub(crate) fn at(&self, step: &Step<'_>) -> Option<&Entry> {
        let entries = self.entries();
        entries.binary_search_by(|entry| step.order(&entry.element).reverse()).ok().map(|place| &entries[place])
    }

    /// Adds a path; the empty path adds nothing.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entries = Arc::make_mut(self.level.get_or_insert_default());
        let place = entries.binary_search_by(|entry| entry.element.cmp(first)).unwrap_or_else(|place| {
            entries.insert(place, Entry { element: first.clone(), member: false, below: Self::new() });
            place
        });
        match rest {
            [] => entries[place].member = true,
            rest => entries[place].below.insert(rest),
        }
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.level.is_none()
    }

    /// Returns true if the path itself is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.find(last).is_some_and(|entry| entry.member),
            [first, rest @ ..] => self.find(first).is_some_and(|entry| entry.below.contains(rest)),
        }
    }

    /// Returns the set below an element; `None` if nothing is there.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.find(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.entries().iter().filter(|entry| !entry.below.is_empty()).map(|entry| (&entry.element, &entry.below))
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.entries().iter().filter(|entry| entry.member).map(|entry| &entry.element)
    }

    /// The set with every entry as `each` has it: whether the place itself is in it, and what is below.
    pub(crate) fn rebuilt(&self, mut each: impl FnMut(&Entry) -> (bool, Self)) -> Self {
        let mut out = Copied { of: self, entries: None };
        for (place, entry) in self.entries().iter().enumerate() {
            let (member, below) = each(entry);
            out.put(place, member, below);
        }
        out.done()
    }

    /// Like [`Self::rebuilt`], beside the other set's entry of the same element.
    fn beside(&self, other: &Self, each: impl Fn(&Entry, Option<&Entry>) -> (bool, Self)) -> Self {
        let mut theirs = other.entries().iter().peekable();
        self.rebuilt(|entry| {
            while theirs.next_if(|other| other.element < entry.element).is_some() {}
            each(entry, theirs.peek().copied().filter(|other| other.element == entry.element))
        })
    }

    /// Returns the members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() || self.is(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut out = Copied { of: self, entries: None };
        let mut theirs = other.entries().iter().peekable();
        for (place, entry) in self.entries().iter().enumerate() {
            loop {
                let order = theirs.peek().map_or(Ordering::Greater, |other| other.element.cmp(&entry.element));
                match (order, theirs.peek()) {
                    (Ordering::Less, Some(other)) => out.add(place, (*other).clone()),
                    (Ordering::Equal, Some(other)) => out.put(place, entry.member || other.member, entry.below.union(&other.below)),
                    _ => out.put(place, entry.member, entry.below.clone()),
                }
                if order.is_le() {
                    theirs.next();
                }
                if order.is_ge() {
                    break;
                }
            }
        }
        for other in theirs {
            out.add(self.entries().len(), other.clone());
        }
        out.done()
    }

    /// Returns the members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if other.is_empty() || self.is(other) {
            return other.clone();
        }
        self.beside(other, |entry, other| match other {
            Some(other) => (entry.member && other.member, entry.below.intersection(&other.below)),
            None => (false, Self::new()),
        })
    }

    /// Returns the members of this set only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.beside(other, |entry, other| match other {
            Some(other) => (entry.member && !other.member, entry.below.difference(&other.below)),
            None => (entry.member, entry.below.clone()),
        })
    }

    /// Returns the members of this set only, without all that lies below a member of `other`.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.beside(other, |entry, other| match other {
            Some(other) if other.member => (false, Self::new()),
            Some(other) => (entry.member, entry.below.recursive_difference(&other.below)),
            None => (entry.member, entry.below.clone()),
        })
    }

    /// All paths: those of a level before those below it, in the order in which Kubernetes lists conflicts.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.list(&mut Vec::new(), &mut out);
        out
    }

    fn list(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for member in self.members() {
            let mut path = prefix.clone();
            path.push(member.clone());
            out.push(Path(path));
        }
        for (element, below) in self.children() {
            prefix.push(element.clone());
            below.list(prefix, out);
            prefix.pop();
        }
    }
}

/// A level in the making: nothing is copied until the first entry that differs.
struct Copied<'a> {
    of: &'a FieldSet,
    entries: Option<Vec<Entry>>,
}

impl Copied<'_> {
    /// The entry at `place`, as it is to be; entries come in their order.
    fn put(&mut self, place: usize, member: bool, below: FieldSet) {
        let entry = &self.of.entries()[place];
        if member == entry.member && below.is(&entry.below) {
            if let Some(entries) = &mut self.entries {
                entries.push(entry.clone());
            }
        } else if member || !below.is_empty() {
            self.add(place, Entry { element: entry.element.clone(), member, below });
        } else {
            self.copied(place);
        }
    }

    /// An entry of another set, which comes before that at `place`.
    fn add(&mut self, place: usize, entry: Entry) {
        self.copied(place).push(entry);
    }

    fn copied(&mut self, place: usize) -> &mut Vec<Entry> {
        let all = self.of.entries();
        self.entries.get_or_insert_with(|| all[..place].to_vec())
    }

    fn done(self) -> FieldSet {
        self.entries.map_or_else(|| self.of.clone(), FieldSet::of)
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<T: IntoIterator<Item = Path>>(paths: T) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    /// KAPI-SSA-01: FieldsV1 survives decoding and encoding; paths read as conflicts show them.
    #[test]
    fn fields_v1() {
        let fields = json!({"f:spec": {
            "f:ports": {"k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
            "f:set": {"v:\"x\"": {}, "v:3": {}},
            "f:list": {"i:0": {}},
            "f:a": {}
        }});
        let set = FieldSet::decode(&fields).unwrap();
        assert_eq!(set.encode(), fields);
        let paths: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            paths,
            [
                ".spec.a",
                ".spec.list[0]",
                ".spec.ports[port=53,protocol=\"TCP\"]",
                ".spec.ports[port=53,protocol=\"TCP\"].name",
                ".spec.set[=3]",
                ".spec.set[=\"x\"]"
            ]
        );
        assert_eq!(FieldSet::decode(&json!({"nonsense": {}})), Err(DecodeError("nonsense".into())));
        assert!(FieldSet::decode(&json!({"z:later": {}})).unwrap().is_empty());
    }
}
