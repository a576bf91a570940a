//! The differences between two values of a type, as field sets.

use serde_json::Value;

use super::{List, MapShape, Node, Shape, as_list, as_map};
use crate::fieldset::{Entry, FieldSet, Step, equal};

/// The fields that one value has more, other or less than another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only in the old value.
    pub removed: FieldSet,
    /// In both, and different.
    pub modified: FieldSet,
    /// Only in the new value.
    pub added: FieldSet,
}

impl Comparison {
    /// Returns true if the two values are the same.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Without the fields of a set and all below them.
    #[must_use]
    pub fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }

    fn union(self, other: &Self) -> Self {
        Self {
            removed: self.removed.union(&other.removed),
            modified: self.modified.union(&other.modified),
            added: self.added.union(&other.added),
        }
    }
}

/// The places below one place, as they are found.
#[derive(Default)]
struct Found {
    removed: Vec<Entry>,
    modified: Vec<Entry>,
    added: Vec<Entry>,
}

impl Found {
    fn put(&mut self, step: &Step<'_>, below: Comparison, own: Own) {
        let put = |all: &mut Vec<Entry>, member: bool, below: FieldSet| {
            // Nearly all places are the same in both values.
            if member || !below.is_empty() {
                all.push(Entry { element: step.owned(), member, below });
            }
        };
        put(&mut self.removed, own.removed, below.removed);
        put(&mut self.modified, own.modified, below.modified);
        put(&mut self.added, own.added, below.added);
    }

    fn done(self) -> Comparison {
        Comparison {
            removed: FieldSet::collect(self.removed),
            modified: FieldSet::collect(self.modified),
            added: FieldSet::collect(self.added),
        }
    }
}

/// In which of the three sets the place itself is.
#[derive(Clone, Copy, Default)]
struct Own {
    removed: bool,
    modified: bool,
    added: bool,
}

impl Own {
    fn or(self, other: Self) -> Self {
        Self { removed: self.removed || other.removed, modified: self.modified || other.modified, added: self.added || other.added }
    }
}

impl Node<'_> {
    /// Compares two values.
    pub fn compare(self, old: &Value, new: &Value) -> Comparison {
        self.compared(Some(old), Some(new)).0
    }

    /// Returns the differences below the place, and the sets that the place itself is in.
    fn compared(self, old: Option<&Value>, new: Option<&Value>) -> (Comparison, Own) {
        match (old, new) {
            (Some(a), Some(b)) if self.is_deduced() && !alike(a, b) => {
                // The type changed: the parts of the old one go, those of the new one come.
                let (first, mine) = compare_as(self.shape(old), old, new);
                let (second, theirs) = compare_as(self.shape(new), old, new);
                (first.union(&second), mine.unwrap_or_default().or(theirs.unwrap_or_default()))
            }
            _ => {
                let (below, own) = compare_as(self.shape(new.or(old)), old, new);
                let parts = Own { added: old.is_none(), removed: new.is_none(), modified: false };
                (below, own.unwrap_or(parts))
            }
        }
    }
}

/// Returns `Some` if the place is compared as one unit.
fn compare_as(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> (Comparison, Option<Own>) {
    let whole = || (Comparison::default(), Some(unit(old, new)));
    match shape {
        Shape::Scalar(_) => whole(),
        Shape::List(list) => {
            let (before, after) = (as_list(old), as_list(new));
            if list.is_atomic() || (before.is_none_or(<[Value]>::is_empty) && after.is_none_or(<[Value]>::is_empty)) {
                return whole();
            }
            (compare_lists(&list, before.unwrap_or_default(), after.unwrap_or_default()), None)
        }
        Shape::Map(map) => {
            let (before, after) = (as_map(old), as_map(new));
            if map.atomic || (before.is_none_or(serde_json::Map::is_empty) && after.is_none_or(serde_json::Map::is_empty)) {
                return whole();
            }
            (compare_maps(&map, before, after), None)
        }
    }
}

fn unit(old: Option<&Value>, new: Option<&Value>) -> Own {
    match (old, new) {
        (None, _) => Own { added: true, ..Own::default() },
        (_, None) => Own { removed: true, ..Own::default() },
        (Some(old), Some(new)) => Own { modified: !equal(old, new), ..Own::default() },
    }
}

/// Returns true if two values of a deduced type have the same type.
fn alike(left: &Value, right: &Value) -> bool {
    fn class(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
            Value::Array(_) => 2,
            Value::Object(_) => 3,
        }
    }
    class(left) == class(right)
}

fn compare_maps(
    map: &MapShape<'_>,
    old: Option<&serde_json::Map<String, Value>>,
    new: Option<&serde_json::Map<String, Value>>,
) -> Comparison {
    let mut found = Found::default();
    let mut visit = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        let Some((node, _)) = map.member(name) else { return };
        let (below, own) = node.compared(before, after);
        found.put(&Step::Field(name), below, own);
    };
    for (name, before) in old.into_iter().flatten() {
        visit(name, Some(before), new.and_then(|new| new.get(name)));
    }
    for (name, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            visit(name, None, Some(after));
        }
    }
    found.done()
}

fn compare_lists(list: &List<'_>, old: &[Value], new: &[Value]) -> Comparison {
    let before = list.elements(old).into_iter().map(|(step, item)| (step, Side::Old, item));
    let after = list.elements(new).into_iter().map(|(step, item)| (step, Side::New, item));
    let mut items: Vec<(Step<'_>, Side, &Value)> = before.chain(after).collect();
    // A stable sort: of one element first the old items, then the new ones, each in their order.
    items.sort_by(|(left, ..), (right, ..)| left.cmp(right));
    let mut found = Found::default();
    for same in items.chunk_by(|(left, ..), (right, ..)| left == right) {
        let Some((step, ..)) = same.first() else { continue };
        let (before, after) = same.split_at(same.partition_point(|(_, side, _)| *side == Side::Old));
        let none = Comparison::default();
        let (below, own) = match (before, after) {
            ([] | [_], [] | [_]) => list.items.compared(only(before), only(after)),
            // Duplicates are compared as one unit.
            ([_, _, ..], [_, _, ..]) => {
                let equal = before.len() == after.len() && before.iter().zip(after).all(|((.., left), (.., right))| equal(left, right));
                (none, Own { modified: !equal, ..Own::default() })
            }
            ([_, _, ..], []) => (none, Own { removed: true, ..Own::default() }),
            ([], [_, _, ..]) => (none, Own { added: true, ..Own::default() }),
            ([_, _, ..], _) => {
                let (below, own) = list.items.compared(None, only(after));
                (below, own.or(Own { removed: true, ..Own::default() }))
            }
            (_, [_, _, ..]) => {
                let (below, own) = list.items.compared(only(before), None);
                (below, own.or(Own { added: true, ..Own::default() }))
            }
        };
        found.put(step, below, own);
    }
    found.done()
}

/// Of which of the two lists an item is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

fn only<'v>(items: &[(Step<'v>, Side, &'v Value)]) -> Option<&'v Value> {
    items.first().map(|(.., item)| *item)
}
