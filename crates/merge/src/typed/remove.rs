//! A value without the fields of a set.

use serde_json::{Map, Value};

use super::{Node, Shape};
use crate::fieldset::{FieldSet, Step};

impl Node<'_> {
    /// The value without what is in the set. Atomic lists and maps go whole when anything below them
    /// does; a list or map all of whose parts go becomes null.
    pub fn remove(self, value: &Value, set: &FieldSet) -> Value {
        self.without(value, set).unwrap_or(Value::Null)
    }

    fn without(self, value: &Value, set: &FieldSet) -> Option<Value> {
        match (self.shape(Some(value)), value) {
            (Shape::Scalar(_), value) => Some(value.clone()),
            (Shape::List(list), Value::Array(items)) => {
                if items.is_empty() || list.is_atomic() {
                    return None;
                }
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    match list.element(item).ok().and_then(|step| set.at(&step)) {
                        None => kept.push(item.clone()),
                        Some(entry) if entry.member => {}
                        Some(entry) => kept.push(list.items.remove(item, &entry.below)),
                    }
                }
                (!kept.is_empty()).then_some(Value::Array(kept))
            }
            (Shape::Map(map), Value::Object(members)) => {
                if members.is_empty() || map.atomic {
                    return None;
                }
                let mut kept = Map::new();
                for (name, member) in members {
                    let value = match (set.at(&Step::Field(name)), map.member(name)) {
                        (Some(entry), _) if entry.member => continue,
                        (Some(entry), Some((node, _))) => node.remove(member, &entry.below),
                        _ => member.clone(),
                    };
                    kept.insert(name.clone(), value);
                }
                (!kept.is_empty()).then_some(Value::Object(kept))
            }
            _ => None,
        }
    }
}
