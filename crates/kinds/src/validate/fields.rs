//! Accessors and checks of single fields, for all rules: absent and empty are the same to most of them.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value};

pub(crate) type Errors = Vec<Error>;

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    list(value, key).iter().filter_map(Value::as_str).collect()
}

pub(crate) fn int(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(crate) fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}

pub(crate) fn map<'a>(value: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// One finding for each text of a rule.
pub(crate) fn all_invalid(path: &Path, value: &str, messages: Vec<String>) -> Errors {
    messages.into_iter().map(|message| Error::invalid(path, value, message)).collect()
}

/// Refuses a negative whole number.
pub(crate) fn not_negative(object: &Value, key: &str, path: &Path) -> Errors {
    match int(object, key) {
        Some(value) if value < 0 => vec![Error::invalid(&path.child(key), value, "must be greater than or equal to 0")],
        _ => Vec::new(),
    }
}

/// Refuses a text outside a set; absent is required.
pub(crate) fn one_of(object: &Value, key: &str, path: &Path, supported: &[&str]) -> Errors {
    let value = text(object, key);
    if value.is_empty() {
        return vec![Error::required(&path.child(key), "")];
    }
    one_of_if_set(object, key, path, supported)
}

/// Refuses a text outside a set, if there is one.
pub(crate) fn one_of_if_set(object: &Value, key: &str, path: &Path, supported: &[&str]) -> Errors {
    let value = text(object, key);
    if !has(object, key) || supported.contains(&value) {
        Vec::new()
    } else {
        vec![Error::not_supported(&path.child(key), value, supported)]
    }
}
