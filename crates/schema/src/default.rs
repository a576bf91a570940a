//! Filling absent fields with the schema's defaults (KAPI-CRD-02).

use serde_json::Value;

use crate::model::{Additional, Schema};

/// Removes nulls that are not allowed and have no default, then fills in defaults: for absent fields, and for nulls that are not allowed.
///
/// A default applies only if the object around it exists (or came into being by its own default).
pub fn default(schema: &Schema, value: &mut Value) {
    prune_nulls(schema, value);
    fill(schema, value);
}

/// Removes the members that are null, must not be, and have no default.
pub fn prune_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, member| match schema.property(key) {
            Some(property) => {
                if member.is_null() && !property.nullable && property.default.is_none() && !is_anything(property) {
                    return false;
                }
                prune_nulls(property, member);
                true
            }
            None => true,
        }),
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for item in items {
                    prune_nulls(item_schema, item);
                }
            }
        }
        _ => {}
    }
}

/// A built-in kind's free JSON, where null is a value like any other.
fn is_anything(schema: &Schema) -> bool {
    schema.kind.is_none() && schema.definition.is_some()
}

fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match map.get(name) {
                    Some(Value::Null) if property.nullable => {}
                    Some(given) if !given.is_null() => {}
                    _ => {
                        map.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, member) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    fill(property, member);
                } else if let Additional::Schema(additional) = &schema.additional {
                    fill_null(additional, member);
                    fill(additional, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for item in items {
                    fill_null(item_schema, item);
                    fill(item_schema, item);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}
