//! The field set of a value: the fields owned by a manager that applies exactly this.

use serde_json::Value;

use super::{Node, Parts, Shape};
use crate::fieldset::{Entry, FieldSet, PathElement, Step};

impl Node<'_> {
    /// The fields of a value.
    pub fn field_set(self, value: &Value) -> FieldSet {
        self.fields(value).0
    }

    /// Returns the fields below the value, and whether the place itself belongs to the set.
    fn fields(self, value: &Value) -> (FieldSet, bool) {
        let entries = match (self.shape(Some(value)), value) {
            (Shape::Scalar(_), _) => return (FieldSet::new(), true),
            (Shape::List(list), _) if list.is_atomic() => return (FieldSet::new(), true),
            (Shape::Map(map), _) if map.atomic => return (FieldSet::new(), true),
            (Shape::List(list), Value::Array(items)) => {
                let mut elements = list.elements(items);
                elements.sort_by(|(left, _), (right, _)| left.cmp(right));
                let same = |(left, _): &(Step<'_>, &Value), (right, _): &(Step<'_>, &Value)| left == right;
                let each = elements.chunk_by(same).filter_map(|items| match items {
                    [(step, item)] => Some((step, list.items.fields(item).0)),
                    // Duplicates are owned whole.
                    items => items.first().map(|(step, _)| (step, FieldSet::new())),
                });
                each.map(|(step, below)| Entry { element: step.owned(), member: true, below }).collect()
            }
            (Shape::Map(map), Value::Object(members)) => {
                let mut entries = Vec::with_capacity(members.len());
                for (name, member) in members {
                    let Some((node, declared)) = map.member(name) else { continue };
                    let (below, own) = node.fields(member);
                    let empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                    entries.push(Entry { element: PathElement::field(name.as_str()), member: own || empty || !declared, below });
                }
                entries
            }
            _ => return (FieldSet::new(), false),
        };
        (FieldSet::collect(entries), false)
    }

    /// The set together with the declared fields on the way to its members, which a set of fields does not list.
    pub(crate) fn with_named_parents(self, set: &FieldSet) -> FieldSet {
        let shape = self.shape(None);
        set.rebuilt(|Entry { element, member, below }| {
            if below.is_empty() {
                return (*member, FieldSet::new());
            }
            match (element, &shape) {
                (PathElement::Field(name), Shape::Map(map)) => match map.member(name) {
                    Some((node, declared)) => (*member || declared, node.with_named_parents(below)),
                    None => (*member, below.clone()),
                },
                (PathElement::Key(_), Shape::List(list)) if matches!(list.parts, Parts::Keyed(_)) => {
                    (*member, list.items.with_named_parents(below))
                }
                _ => (*member, below.clone()),
            }
        })
    }

    /// The set with what lies below atomic places taken as those places: for fields that were recorded before the schema
    /// made them atomic.
    pub(crate) fn collapse(self, set: &FieldSet) -> FieldSet {
        let shape = self.shape(None);
        set.rebuilt(|Entry { element, member, below }| {
            if below.is_empty() {
                return (*member, FieldSet::new());
            }
            let node = match (element, &shape) {
                (PathElement::Field(name), Shape::Map(map)) => map.member(name).map(|(node, _)| node),
                (PathElement::Key(_), Shape::List(list)) if matches!(list.parts, Parts::Keyed(_)) => Some(list.items),
                _ => None,
            };
            let Some(node) = node else { return (*member, below.clone()) };
            let atomic = match node.shape(None) {
                Shape::Scalar(_) => false,
                Shape::List(list) => list.is_atomic(),
                Shape::Map(map) => map.atomic,
            };
            if atomic { (true, FieldSet::new()) } else { (*member, node.collapse(below)) }
        })
    }
}
