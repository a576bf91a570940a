//! What the tests of round trips share.

use serde_json::{Map, Value, json};

/// Where two values differ first.
pub fn difference(path: &str, left: &Value, right: &Value) -> Option<String> {
    first(path, left, right, |_| false)
}

/// Where something did not come back. What is null in JSON (a time, raw JSON or a list without a value, as Go writes them) is no field on the
/// wire, or an empty one.
pub fn lost(path: &str, before: &Value, after: &Value) -> Option<String> {
    first(path, before, after, |after| match after {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    })
}

/// `null_as` says what else null may be; nothing at all is `None`.
fn first(path: &str, left: &Value, right: &Value, null_as: fn(Option<&Value>) -> bool) -> Option<String> {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => keys(one, other).find_map(|key| {
            let path = format!("{path}.{key}");
            match (one.get(key), other.get(key)) {
                (Some(left), Some(right)) => first(&path, left, right, null_as),
                (Some(Value::Null), None) if null_as(None) => None,
                (left, right) => Some(format!("{path}: {} became {}", shown(left), shown(right))),
            }
        }),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).enumerate().find_map(|(at, (left, right))| first(&format!("{path}[{at}]"), left, right, null_as))
        }
        (Value::Null, right) if null_as(Some(right)) => None,
        (left, right) => (left != right).then(|| format!("{path}: {left} became {right}")),
    }
}

fn keys<'a>(one: &'a Map<String, Value>, other: &'a Map<String, Value>) -> impl Iterator<Item = &'a String> {
    one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)))
}

fn shown(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or(json!("ABSENT"))
}
