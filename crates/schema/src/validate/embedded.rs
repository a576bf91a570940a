//! `x-kubernetes-embedded-resource`: an object inside an object has apiVersion, kind and proper metadata.

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::metadata;
use crate::model::{Additional, Schema};
use crate::names;

/// Findings about embedded objects anywhere in the value.
pub(super) fn validate(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<Error>) {
    match value {
        Value::Object(map) => {
            if schema.embedded_resource {
                object(map, path, errors);
            }
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
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                    validate(item_schema, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// Returns the first embedded object whose metadata cannot be read as such: a body that holds one is refused before it is validated.
pub fn malformed(schema: &Schema, value: &Value, path: &Path) -> Option<Error> {
    match value {
        Value::Object(map) => {
            if schema.embedded_resource
                && let Some(member) = map.get("metadata")
                && let Some(problem) = metadata::malformed(member)
            {
                return Some(Error::invalid(&path.child("metadata"), member, problem));
            }
            map.iter().find_map(|(key, member)| match (schema.properties.get(key), &schema.additional) {
                (Some(property), _) => malformed(property, member, &path.child(key)),
                (None, Additional::Schema(additional)) => malformed(additional, member, &path.key(key)),
                _ => None,
            })
        }
        Value::Array(items) => {
            let schema = schema.items.as_deref()?;
            items.iter().enumerate().find_map(|(index, item)| malformed(schema, item, &path.index(index)))
        }
        _ => None,
    }
}

fn object(map: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
    for (key, member) in ["apiVersion", "kind"].map(|key| (key, map.get(key))) {
        let field = path.child(key);
        match member {
            None => errors.push(Error::required(&field, "")),
            Some(Value::String(text)) if text.is_empty() => errors.push(Error::invalid(&field, "", "must not be empty")),
            Some(Value::String(text)) if key == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    errors.push(Error::invalid(&field, text, format!("unexpected GroupVersion string: {text}")));
                }
            }
            Some(Value::String(text)) => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    errors.push(Error::invalid(&field, text, detail));
                }
            }
            Some(other) => errors.push(Error::invalid(&field, other, "must be a string")),
        }
    }
    if let Some(member) = map.get("metadata") {
        match metadata::malformed(member) {
            Some(problem) => errors.push(Error::invalid(&path.child("metadata"), member, problem)),
            None => metadata::validate_embedded(member, &path.child("metadata"), errors),
        }
    }
}
