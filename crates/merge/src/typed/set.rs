//! The field set of a value: what somebody who applies exactly this owns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Node, Parts, Shape};
use crate::fieldset::{FieldSet, PathElement};

impl Node<'_> {
    /// The fields of a value.
    pub fn field_set(self, value: &Value) -> FieldSet {
        self.fields(value).0
    }

    /// What lies below the value, and whether the place itself belongs to the set.
    fn fields(self, value: &Value) -> (FieldSet, bool) {
        let mut set = FieldSet::new();
        match self.shape(Some(value)) {
            Shape::Scalar(_) => return (set, true),
            Shape::List(list) => {
                if list.is_atomic() {
                    return (set, true);
                }
                let Value::Array(items) = value else {
                    return (set, false);
                };
                let elements = list.elements(items);
                let mut count: BTreeMap<&PathElement, usize> = BTreeMap::new();
                for (element, _) in &elements {
                    *count.entry(element).or_default() += 1;
                }
                for (element, item) in &elements {
                    let (below, _) = match count.get(element) {
                        // Duplicates are owned whole.
                        Some(2..) => (FieldSet::new(), true),
                        _ => list.items.fields(item),
                    };
                    set.attach(element.clone(), below, true);
                }
            }
            Shape::Map(map) => {
                if map.atomic {
                    return (set, true);
                }
                let Value::Object(members) = value else {
                    return (set, false);
                };
                for (name, member) in members {
                    let Some((node, declared)) = map.member(name) else { continue };
                    let (below, own) = node.fields(member);
                    let empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                    set.attach(PathElement::field(name.as_str()), below, own || empty || !declared);
                }
            }
        }
        (set, false)
    }

    /// The set together with the declared fields on the way to its members, which a set of fields does not list.
    pub(crate) fn with_named_parents(self, set: &FieldSet) -> FieldSet {
        let shape = self.shape(None);
        let mut out = FieldSet::new();
        for member in set.members() {
            out.attach(member.clone(), FieldSet::new(), true);
        }
        for (element, child) in set.children() {
            let (node, declared) = match (element, &shape) {
                (PathElement::Field(name), Shape::Map(map)) => match map.member(name) {
                    Some((node, declared)) => (Some(node), declared),
                    None => (None, false),
                },
                (PathElement::Key(_), Shape::List(list)) if matches!(list.parts, Parts::Keyed(_)) => (Some(list.items), false),
                _ => (None, false),
            };
            let below = node.map_or_else(|| child.clone(), |node| node.with_named_parents(child));
            out.attach(element.clone(), below, declared);
        }
        out
    }
}

impl Node<'_> {
    /// The set with what lies below atomic places taken as those places: for fields that were recorded before the schema
    /// made them atomic.
    pub(crate) fn collapse(self, set: &FieldSet) -> FieldSet {
        let shape = self.shape(None);
        let mut out = FieldSet::new();
        for member in set.members() {
            out.attach(member.clone(), FieldSet::new(), true);
        }
        for (element, child) in set.children() {
            let node = match (element, &shape) {
                (PathElement::Field(name), Shape::Map(map)) => map.member(name).map(|(node, _)| node),
                (PathElement::Key(_), Shape::List(list)) if matches!(list.parts, Parts::Keyed(_)) => Some(list.items),
                _ => None,
            };
            let Some(node) = node else {
                out.attach(element.clone(), child.clone(), false);
                continue;
            };
            let atomic = match node.shape(None) {
                Shape::Scalar(_) => false,
                Shape::List(list) => list.is_atomic(),
                Shape::Map(map) => map.atomic,
            };
            if atomic {
                out.attach(element.clone(), FieldSet::new(), true);
            } else {
                out.attach(element.clone(), node.collapse(child), false);
            }
        }
        out
    }
}
