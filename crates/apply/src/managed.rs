//! Owners of an object's fields: fields that a manager wrote by a plain create become fields that it applies.

use serde_json::{Map, Value};

/// Returns the `managedFields` in which everything that `manager` wrote by creating the object counts as applied by it; `None` if that
/// would change nothing. A field that is only known as created stays when it is no longer applied.
pub(crate) fn adopted(object: &Value, manager: &str) -> Option<Vec<Value>> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    let own = |entry: &Value, operation: &str| {
        let says = |key: &str, text: &str| entry.get(key).is_some_and(|value| value == text);
        let whole = entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty();
        whole && says("manager", manager) && says("operation", operation)
    };
    let (created, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(|entry| own(entry, "Update"));
    let mut others: Vec<Value> = others.into_iter().cloned().collect();
    let applied = others.iter_mut().find(|entry| own(entry, "Apply"))?.get_mut("fieldsV1")?.as_object_mut()?;
    let before = applied.clone();
    for entry in created {
        merge(applied, entry.get("fieldsV1").and_then(Value::as_object)?);
    }
    (*applied != before).then_some(others)
}

/// Returns the `managedFields` in which everything that `manager` wrote by creating the object counts as applied by it, of an object that
/// it has never applied; `None` if it has, or wrote nothing.
pub(crate) fn created_as_applied(object: &Value, manager: &str) -> Option<Vec<Value>> {
    let mut entries = object.pointer("/metadata/managedFields")?.as_array()?.clone();
    let own = |entry: &Value| entry["manager"] == manager && entry["subresource"].as_str().unwrap_or_default().is_empty();
    if entries.iter().any(|entry| own(entry) && entry["operation"] == "Apply") {
        return None;
    }
    let created = entries.iter_mut().find(|entry| own(entry) && entry["operation"] == "Update")?;
    created["operation"] = "Apply".into();
    Some(entries)
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_created_counts_as_applied() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let with = |entries: &[Value]| json!({"metadata": {"managedFields": entries}});
        let applied = entry("m", "Apply", json!({"f:data": {"f:a": {}}}));
        let created = entry("m", "Update", json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
        let other = entry("other", "Update", json!({"f:data": {"f:c": {}}}));
        let found = adopted(&with(&[applied.clone(), created.clone(), other.clone()]), "m");
        let both = entry("m", "Apply", json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
        assert_eq!(found, Some(vec![both.clone(), other.clone()]));
        assert_eq!(adopted(&with(&[applied, other.clone()]), "m"), None, "nothing was created");
        assert_eq!(adopted(&with(&[both, created.clone()]), "m"), None, "all of it is applied");
        assert_eq!(adopted(&with(&[created, other]), "m"), None, "nothing was applied yet");
    }
}
