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
                ListType::Set => duplicates(items.iter().map(Some), items.len(), path, errors, Value::clone),
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
    let keyed: Vec<Option<Value>> = items.iter().map(|item| item.as_object().map(|item| Value::Object(keys(schema, item)))).collect();
    duplicates(keyed.iter().map(Option::as_ref), items.len(), path, errors, Value::clone);
}

fn keys(schema: &Schema, item: &Map<String, Value>) -> Map<String, Value> {
    schema.list_map_keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

fn duplicates<'a>(
    items: impl Iterator<Item = Option<&'a Value>>,
    count: usize,
    path: &Path,
    errors: &mut Vec<Error>,
    shown: impl Fn(&Value) -> Value,
) {
    if count < 2 {
        return;
    }
    let mut seen: HashSet<String> = HashSet::with_capacity(count);
    let mut told: HashSet<String> = HashSet::new();
    for (index, item) in items.enumerate() {
        let Some(item) = item else {
            continue;
        };
        let text = go_json(item);
        if !seen.insert(text.clone()) && told.insert(text) {
            errors.push(Error::duplicate(&path.index(index), shown(item)));
        }
    }
}
