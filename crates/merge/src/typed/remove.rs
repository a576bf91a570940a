//! A value without the fields of a set.

use serde_json::{Map, Value};

use super::{Node, Shape};
use crate::fieldset::{FieldSet, PathElement};

impl Node<'_> {
    /// The value without what is in the set. Atomic lists and maps go whole when anything below them does.
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
                let mut descended = false;
                for item in items {
                    let Ok(element) = list.element(item) else {
                        kept.push(item.clone());
                        continue;
                    };
                    if set.has(&element) {
                        continue;
                    }
                    kept.push(match set.below(&element) {
                        None => item.clone(),
                        Some(subset) => {
                            descended = true;
                            list.items.without(item, subset).unwrap_or_else(|| emptied(item))
                        }
                    });
                }
                (descended || !kept.is_empty()).then_some(Value::Array(kept))
            }
            (Shape::Map(map), Value::Object(members)) => {
                if members.is_empty() || map.atomic {
                    return None;
                }
                let mut kept = Map::new();
                let mut descended = false;
                for (name, member) in members {
                    let element = PathElement::field(name.as_str());
                    if set.has(&element) {
                        continue;
                    }
                    let value = match (set.below(&element), map.member(name)) {
                        (Some(subset), Some((node, _))) => {
                            descended = true;
                            node.without(member, subset).unwrap_or_else(|| emptied(member))
                        }
                        _ => member.clone(),
                    };
                    kept.insert(name.clone(), value);
                }
                (descended || !kept.is_empty()).then_some(Value::Object(kept))
            }
            _ => None,
        }
    }
}

/// What is left of a value all of whose parts went.
fn emptied(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}
