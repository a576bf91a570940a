//! Objects as Go compares them: what is absent, null or an empty list or map is the same, and amounts are equal by their value.

use mainstay_kinds::quantity::Quantity;
use serde_json::{Map, Value};

/// Fields that hold an amount, or a map of amounts.
const AMOUNTS: [&str; 4] = ["limits", "requests", "sizeLimit", "divisor"];

/// A merge under way.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// True if anything was changed.
    pub modified: bool,
}

impl Merge {
    /// The field is as wanted, absent included.
    pub fn set(&mut self, live: &mut Map<String, Value>, wanted: &Map<String, Value>, field: &str) {
        self.put(live, field, get(wanted, field));
    }

    /// The field has this value; null for none.
    pub fn put(&mut self, live: &mut Map<String, Value>, field: &str, wanted: &Value) {
        if !equal_at(field, get(live, field), wanted) {
            self.modified = true;
            assign(live, field, wanted);
        }
    }

    /// The field is as wanted unless nothing is wanted.
    pub fn set_if_given(&mut self, live: &mut Map<String, Value>, wanted: &Map<String, Value>, field: &str) {
        if !is_nothing(get(wanted, field)) {
            self.set(live, wanted, field);
        }
    }

    /// The fields are as wanted, absent included.
    pub fn set_all(&mut self, live: &mut Map<String, Value>, wanted: &Map<String, Value>, fields: &[&str]) {
        for field in fields {
            self.set(live, wanted, field);
        }
    }

    /// The wanted entries of a map are in it; others stay.
    pub fn entries(&mut self, live: &mut Map<String, Value>, wanted: &Map<String, Value>, field: &str) {
        let Some(wanted) = get(wanted, field).as_object().filter(|wanted| !wanted.is_empty()) else { return };
        let entries = part(live, field);
        for (key, value) in wanted {
            if entries.get(key) != Some(value) {
                self.modified = true;
                entries.insert(key.clone(), value.clone());
            }
        }
    }

    /// An optional part: absent when it is not wanted, whole when there is none, and merged otherwise.
    pub fn optional(
        &mut self,
        live: &mut Map<String, Value>,
        wanted: &Map<String, Value>,
        field: &str,
        merge: impl FnOnce(&mut Self, &mut Map<String, Value>, &Map<String, Value>),
    ) {
        match (live.get_mut(field), get(wanted, field)) {
            (Some(Value::Object(live)), Value::Object(wanted)) => merge(self, live, wanted),
            (None | Some(Value::Null), Value::Null) => {}
            (_, wanted) => {
                self.modified = true;
                assign(live, field, wanted);
            }
        }
    }

    /// A list whose items are known by a field: those that are not wanted go, those that are there are merged, others are appended.
    pub fn items(
        &mut self,
        live: &mut Map<String, Value>,
        wanted: &Map<String, Value>,
        field: &str,
        key: &str,
        mut merge: impl FnMut(&mut Self, &mut Value, &Value),
    ) {
        let wanted = list(wanted, field);
        let mut items = taken(live, field);
        // From the end, as items are removed while they are walked.
        for index in (0..items.len()).rev() {
            let found = wanted.iter().find(|wanted| same(&wanted[key], &items[index][key]));
            if let Some(found) = found {
                merge(self, &mut items[index], found);
            } else {
                self.modified = true;
                items.remove(index);
            }
        }
        for wanted in wanted {
            if !items.iter().any(|item| same(&item[key], &wanted[key])) {
                self.modified = true;
                items.push(wanted.clone());
            }
        }
        assign(live, field, &Value::Array(items));
    }

    /// The wanted items are in the list; others stay.
    pub fn members(&mut self, live: &mut Map<String, Value>, wanted: &Map<String, Value>, field: &str) {
        let missing: Vec<Value> =
            list(wanted, field).iter().filter(|item| !list(live, field).iter().any(|own| equal(own, item))).cloned().collect();
        if missing.is_empty() {
            return;
        }
        self.modified = true;
        let mut items = taken(live, field);
        for item in missing {
            if !items.iter().any(|own| equal(own, &item)) {
                items.push(item);
            }
        }
        assign(live, field, &Value::Array(items));
    }
}

fn same(one: &Value, other: &Value) -> bool {
    equal(one, other)
}

/// Writes a field; what is nothing is not written.
pub(super) fn assign(map: &mut Map<String, Value>, field: &str, value: &Value) {
    let nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if nothing {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value.clone());
    }
}

/// A field; null for one that is absent.
pub(super) fn get<'a>(map: &'a Map<String, Value>, field: &str) -> &'a Value {
    const NULL: &Value = &Value::Null;
    map.get(field).unwrap_or(NULL)
}

/// A part that is a struct; empty where there is none.
pub(super) fn get_map<'a>(map: &'a Map<String, Value>, field: &str) -> &'a Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    map.get(field).and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// A part that is a struct, for writing.
pub(super) fn part<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(field.to_owned()).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // It was made an object above.
        _ => unreachable!("a part is an object"),
    }
}

/// A list; empty where there is none.
pub(super) fn list<'a>(map: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    map.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A list, taken out of its place.
pub(super) fn taken(map: &mut Map<String, Value>, field: &str) -> Vec<Value> {
    match map.remove(field) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The value with the fields of `defaults` where it has none.
pub(super) fn with_defaults(mut value: Value, defaults: &[(&str, Value)]) -> Value {
    if let Some(map) = value.as_object_mut() {
        for (field, default) in defaults {
            if is_nothing(get(map, field)) || get(map, field) == 0 {
                map.insert((*field).to_owned(), default.clone());
            }
        }
    }
    value
}

/// Absent, null, or an empty text.
pub(super) fn is_nothing(value: &Value) -> bool {
    value.is_null() || value == ""
}

/// Removes what is null.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Returns whether two values in Go's form are semantically equal. A struct that is there is not equal to none.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    equal_at("", one, other)
}

fn equal_at(field: &str, one: &Value, other: &Value) -> bool {
    let absent = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            keys.into_iter().all(|key| {
                let inner = if AMOUNTS.contains(&field) { field } else { key.as_str() };
                equal_at(inner, get(left, key), get(right, key))
            })
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal_at(field, left, right))
        }
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::String(left), Value::String(right)) if AMOUNTS.contains(&field) => left == right || same_amount(left, right),
        // An empty map of amounts is none.
        (Value::Object(map), Value::Null) | (Value::Null, Value::Object(map)) => map.is_empty() && AMOUNTS.contains(&field),
        (one, other) => one == other || absent(one) && absent(other),
    }
}

fn same_amount(left: &str, right: &str) -> bool {
    match (Quantity::parse(left), Quantity::parse(right)) {
        (Ok(left), Ok(right)) => left.minus(right).sign().is_eq(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn equality_is_that_of_go() {
        let check = |one: Value, other: Value, wanted: bool| assert_eq!(equal(&one, &other), wanted, "{one} {other}");
        check(json!({"a": []}), json!({}), true);
        check(json!({"a": null}), json!({}), true);
        check(json!({"emptyDir": {}}), json!({}), false);
        check(json!({"limits": {"cpu": "1"}}), json!({"limits": {"cpu": "1000m"}}), true);
        check(json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "1073741824"}}), true);
        check(json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "1G"}}), false);
        check(json!({"name": "1"}), json!({"name": "1000m"}), false);
        check(json!([1]), json!([1.0]), true);
        check(json!([1, 2]), json!([2, 1]), false);
    }
}
