//! `x-kubernetes-list-type`: sets hold each item once, maps hold each key once.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::field::{Error, Path, go_json};
use crate::model::{Additional, ListType, Schema};

/// Findings about lists anywhere in the value.
pub(super) fn validate(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<Error>) {
    match value {
        Value::Array(items) => {
            match schema.list_type() {
                ListType::Atomic => {}
                ListType::Set => duplicates(items.iter(), path, errors),
                ListType::Map => map(schema, items, path, errors),
            }
            if let Some(item_schema) = schema.items.as_deref().filter(|_| items.iter().any(|item| item.is_object() || item.is_array())) {
                for (index, item) in items.iter().enumerate() {
                    validate(item_schema, item, &path.index(index), errors);
                }
            }
        }
        Value::Object(map) => {
            for (key, member) in map {
                if !member.is_object() && !member.is_array() {
                    continue;
                }
                if let Some(property) = schema.properties.get(key) {
                    validate(property, member, &path.child(key), errors);
                } else if let Additional::Schema(additional) = &schema.additional {
                    validate(additional, member, &path.key(key), errors);
                }
            }
        }
        _ => {}
    }
}

/// The old items of a list map by their keys, so that each new item finds the one it continues. Other lists say nothing about that.
pub(super) struct Counterparts<'a>(HashMap<String, &'a Value>);

impl<'a> Counterparts<'a> {
    pub(super) fn new(schema: &Schema, old: Option<&'a Value>) -> Self {
        let olds = old.and_then(Value::as_array).filter(|_| schema.list_type() == ListType::Map);
        let mut known = HashMap::new();
        for old in olds.into_iter().flatten() {
            if let Some(key) = old.as_object().map(|map| key(schema, map)) {
                known.entry(key).or_insert(old);
            }
        }
        Self(known)
    }

    pub(super) fn of(&self, schema: &Schema, item: &Value) -> Option<&'a Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&key(schema, item.as_object()?)).copied()
    }
}

/// An item's keys as one text; JSON texts tell values apart as well as the values do, since members are sorted.
fn key(schema: &Schema, item: &Map<String, Value>) -> String {
    go_json(&Value::Object(keys(schema, item)))
}

fn map(schema: &Schema, items: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let before = errors.len();
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            errors.push(Error::invalid(&path.index(index), item, "must be an object for an array of list-type map"));
        }
    }
    if errors.len() > before {
        return;
    }
    // A key that is not there is another one than null, and null instead of an item has no keys.
    let keyed: Vec<Value> = items.iter().map(|item| item.as_object().map(|item| keys(schema, item)).unwrap_or_default().into()).collect();
    duplicates(keyed.iter(), path, errors);
}

fn keys(schema: &Schema, item: &Map<String, Value>) -> Map<String, Value> {
    schema.list_map_keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

fn duplicates<'a>(items: impl ExactSizeIterator<Item = &'a Value>, path: &Path, errors: &mut Vec<Error>) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
    let mut told: HashSet<String> = HashSet::new();
    for (index, item) in items.enumerate() {
        let text = go_json(item);
        if !seen.insert(text.clone()) && told.insert(text) {
            errors.push(Error::duplicate(&path.index(index), item.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// KAPI-CRD-02: an absent key equals an absent key, also of an item that is null, and differs from a key that is null.
    #[test]
    fn absent_keys_of_list_maps() {
        let schema = Schema::from_json(&json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "nullable": true, "properties": {"k": {"type": "string", "nullable": true}}}}))
        .unwrap();
        let mut errors = Vec::new();
        validate(&schema, &json!([{}, {"k": null}, null, {"k": "a"}, {"k": null}, {}]), &Path::root().child("m"), &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["m[2]: Duplicate value: {}", "m[4]: Duplicate value: {\"k\":null}"]);
    }
}
