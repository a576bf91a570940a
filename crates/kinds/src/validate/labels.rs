//! Labels and label selectors.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, all_invalid, list, map, names, text, texts};

/// Keys and values of labels.
pub(super) fn labels(labels: Option<&Map<String, Value>>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        errors.extend(all_invalid(path, key, names::qualified(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(all_invalid(path, value, names::label_value(value)));
    }
    errors
}

/// A selector of labels.
pub(super) fn selector(selector: Option<&Value>, path: &Path) -> Errors {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return Vec::new() };
    let mut errors = labels(map(selector, "matchLabels"), &path.child("matchLabels"));
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        errors.extend(requirement(expression, &path.child("matchExpressions").index(index)));
    }
    errors
}

fn requirement(expression: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let values = list(expression, "values");
    match text(expression, "operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.push(Error::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                errors.push(Error::forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
        }
        other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    let key = text(expression, "key");
    errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
    for (index, value) in texts(expression, "values").iter().enumerate() {
        errors.extend(all_invalid(&path.child("values").index(index), value, names::label_value(value)));
    }
    errors
}

/// Returns true if a selector selects by nothing at all.
pub(super) fn is_empty(selector: &Value) -> bool {
    map(selector, "matchLabels").is_none_or(Map::is_empty) && list(selector, "matchExpressions").is_empty()
}

/// Returns true if a selector can be evaluated at all.
pub(super) fn is_valid(selector: &Value) -> bool {
    self::selector(Some(selector), &Path::root()).is_empty()
}

/// Returns true if a selector (none: selects nothing) selects an object with these labels.
pub(super) fn matches(selector: Option<&Value>, labels: Option<&Map<String, Value>>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return false };
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let equal = map(selector, "matchLabels").into_iter().flatten().all(|(key, wanted)| value(key) == wanted.as_str());
    equal
        && list(selector, "matchExpressions").iter().all(|expression| {
            let found = value(text(expression, "key"));
            let among = found.is_some_and(|found| texts(expression, "values").contains(&found));
            match text(expression, "operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// The labels of a pod template, as findings show them: `null` if there are none.
pub(super) fn shown(template: &Value) -> Value {
    template.pointer("/metadata/labels").filter(|labels| !labels.is_null()).cloned().unwrap_or(json!(null))
}
