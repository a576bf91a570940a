//! Names of fields in any case.
//!
//! Kubernetes reads objects by the exact names of fields. Where upstream uses Go's own JSON package instead, `MinKubeVersion` is read as
//! `minKubeVersion`, and real bundles rely on it.

use serde_json::{Map, Value};

use super::types::{TYPES, Type};

/// Returns `value` with the fields of the struct named `kind`, and of the structs inside it, spelled as the struct spells them.
pub fn fold(kind: &str, value: &Value) -> Value {
    folded(&TYPES.named(kind), value, Scalars::Kept)
}

/// Reads `value` as [`fold`] does, by the rules of Go's YAML reader: if a text is expected, a number or boolean counts as written.
pub fn lenient(kind: &str, value: &Value) -> Value {
    folded(&TYPES.named(kind), value, Scalars::AsText)
}

/// The treatment of a number or boolean if a text is expected.
#[derive(Clone, Copy, PartialEq)]
enum Scalars {
    Kept,
    AsText,
}

fn folded(kind: &Type, value: &Value, scalars: Scalars) -> Value {
    match (kind, value) {
        (Type::Pointer(inner), value) => folded(inner, value, scalars),
        (Type::String, Value::Bool(_) | Value::Number(_)) if scalars == Scalars::AsText => Value::String(value.to_string()),
        (Type::Slice(inner), Value::Array(items)) => items.iter().map(|item| folded(inner, item, scalars)).collect(),
        (Type::Map(inner), Value::Object(entries)) => {
            Value::Object(entries.iter().map(|(key, item)| (key.clone(), folded(inner, item, scalars))).collect())
        }
        (Type::Struct(index), Value::Object(entries)) => {
            let fields = &TYPES.structs[*index];
            let mut out = Map::new();
            for (key, item) in entries {
                let exact = fields.iter().find(|field| field.name == *key);
                match exact.or_else(|| fields.iter().find(|field| field.name.eq_ignore_ascii_case(key))) {
                    // The exact name counts if both are there.
                    Some(field) if exact.is_some() || !entries.contains_key(&field.name) => {
                        out.insert(field.name.clone(), folded(&field.kind, item, scalars));
                    }
                    Some(_) => {}
                    None => {
                        out.insert(key.clone(), item.clone());
                    }
                }
            }
            Value::Object(out)
        }
        (_, value) => value.clone(),
    }
}

/// The member of an object by a name in any case; null if there is none.
pub fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    const NULL: &Value = &Value::Null;
    let Some(fields) = value.as_object() else { return NULL };
    fields.get(name).or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)).unwrap_or(NULL)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CATLG-32: what upstream reads with Go's JSON package is read so here.
    #[test]
    fn case_does_not_count() {
        let csv = json!({"Metadata": {"name": "x"}, "spec": {"MinKubeVersion": "1.30.0", "links": [{"Name": "a"}], "other": 1}});
        let expected = json!({"metadata": {"name": "x"}, "spec": {"minKubeVersion": "1.30.0", "links": [{"name": "a"}], "other": 1}});
        assert_eq!(fold("operators.ClusterServiceVersion", &csv), expected);
        let both = json!({"spec": {"maturity": "beta", "Maturity": "alpha"}});
        assert_eq!(fold("operators.ClusterServiceVersion", &both), json!({"spec": {"maturity": "beta"}}));
        let number = json!({"spec": {"displayName": 7, "MinKubeVersion": 1.5, "cleanup": {"enabled": true}}});
        let expected = json!({"spec": {"displayName": "7", "minKubeVersion": "1.5", "cleanup": {"enabled": true}}});
        assert_eq!(lenient("operators.ClusterServiceVersion", &number), expected);
    }
}
