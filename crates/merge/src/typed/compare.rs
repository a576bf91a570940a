//! What differs between two values of a type, as field sets.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{List, MapShape, Node, Shape, as_list, as_map};
use crate::fieldset::{FieldSet, PathElement, equal};

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
    /// Whether the two are the same.
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

    fn attach(&mut self, element: &PathElement, below: Self, own: Own) {
        self.removed.attach(element.clone(), below.removed, own.removed);
        self.modified.attach(element.clone(), below.modified, own.modified);
        self.added.attach(element.clone(), below.added, own.added);
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
        let mut out = Comparison::default();
        self.compare_into(Some(old), Some(new), &mut out);
        out
    }

    fn compare_into(self, old: Option<&Value>, new: Option<&Value>, out: &mut Comparison) -> Own {
        let mut own = Own::default();
        let leaf = match (old, new) {
            (Some(a), Some(b)) if self.is_deduced() && !alike(a, b) => {
                // The type changed: the parts of the old one go, those of the new one come.
                let first = compare_as(self.shape(old), old, new, out);
                let second = compare_as(self.shape(new), old, new, out);
                own = own.or(first.unwrap_or_default()).or(second.unwrap_or_default());
                true
            }
            _ => match compare_as(self.shape(new.or(old)), old, new, out) {
                Some(found) => {
                    own = found;
                    true
                }
                None => false,
            },
        };
        if !leaf {
            own.added |= old.is_none();
            own.removed |= new.is_none();
        }
        own
    }
}

/// `Some` where the place is compared as one unit.
fn compare_as(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Comparison) -> Option<Own> {
    match shape {
        Shape::Scalar(_) => Some(unit(old, new)),
        Shape::List(list) => {
            let (before, after) = (as_list(old), as_list(new));
            if list.is_atomic() || (before.is_none_or(<[Value]>::is_empty) && after.is_none_or(<[Value]>::is_empty)) {
                return Some(unit(old, new));
            }
            compare_lists(&list, before.unwrap_or_default(), after.unwrap_or_default(), out);
            None
        }
        Shape::Map(map) => {
            let (before, after) = (as_map(old), as_map(new));
            if map.atomic || (before.is_none_or(serde_json::Map::is_empty) && after.is_none_or(serde_json::Map::is_empty)) {
                return Some(unit(old, new));
            }
            compare_maps(&map, before, after, out);
            None
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

/// Whether two values of a deduced type have the same type.
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
    out: &mut Comparison,
) {
    let mut visit = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        let Some((node, _)) = map.member(name) else { return };
        let mut below = Comparison::default();
        let own = node.compare_into(before, after, &mut below);
        out.attach(&PathElement::field(name), below, own);
    };
    for (name, before) in old.into_iter().flatten() {
        visit(name, Some(before), new.and_then(|new| new.get(name)));
    }
    for (name, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            visit(name, None, Some(after));
        }
    }
}

fn compare_lists(list: &List<'_>, old: &[Value], new: &[Value], out: &mut Comparison) {
    let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (element, item) in list.elements(old) {
        pairs.entry(element).or_default().0.push(item);
    }
    for (element, item) in list.elements(new) {
        pairs.entry(element).or_default().1.push(item);
    }
    for (element, (before, after)) in pairs {
        let mut below = Comparison::default();
        let own = match (before.as_slice(), after.as_slice()) {
            (before @ ([] | [_]), after @ ([] | [_])) => {
                list.items.compare_into(before.first().copied(), after.first().copied(), &mut below)
            }
            // Duplicates are compared as one unit.
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len() && before.iter().zip(&after).all(|(left, right)| equal(left, right));
                Own { modified: !same, ..Own::default() }
            }
            ([_, _, ..], after) => {
                let own = after.first().map(|item| list.items.compare_into(None, Some(item), &mut below)).unwrap_or_default();
                own.or(Own { removed: true, ..Own::default() })
            }
            (before, _) => {
                let own = before.first().map(|item| list.items.compare_into(Some(item), None, &mut below)).unwrap_or_default();
                own.or(Own { added: true, ..Own::default() })
            }
        };
        out.attach(&element, below, own);
    }
}
