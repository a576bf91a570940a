//! A value read into a Go type and written out again.

use serde_json::{Map, Number, Value};

use super::types::{Field, TYPES, Type};

/// A value that the Go type does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct Mismatch {
    /// The field as Kubernetes writes it: `spec.containers[0].image`.
    pub path: String,
    /// What the field takes.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
}

/// `value` as Go would write it after reading it into the struct named `kind` in the table of types.
pub fn conform(kind: &str, value: &Value) -> Result<Value, Mismatch> {
    convert(&TYPES.named(kind), value, &Path::Root)
}

/// Where we are, as a list on the stack, so that nothing is built unless something is wrong.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => out.write_str(name),
            Self::Field(parent, name) if name.contains(['.', '/']) => write!(out, "{parent}[{name}]"),
            Self::Field(parent, name) => write!(out, "{parent}.{name}"),
            Self::Index(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

fn convert(kind: &Type, value: &Value, path: &Path<'_>) -> Result<Value, Mismatch> {
    if value.is_null() {
        return zero(kind, path);
    }
    let refuse = |expected| Err(Mismatch { path: path.to_string(), expected, found: describe(value) });
    match kind {
        Type::Raw => Ok(value.clone()),
        Type::String | Type::Bytes | Type::Time | Type::IntOrString if value.is_string() => Ok(value.clone()),
        Type::String => refuse("text"),
        Type::Bytes => refuse("base64 text"),
        Type::Time => refuse("a time as text"),
        Type::Bool | Type::SchemaOrBool if value.is_boolean() => Ok(value.clone()),
        Type::Bool => refuse("true or false"),
        Type::Int => whole(value).map_or_else(|| refuse("a whole number"), Ok),
        Type::Float if value.is_number() => Ok(whole(value).unwrap_or_else(|| value.clone())),
        Type::Float => refuse("a number"),
        Type::IntOrString => whole(value).map_or_else(|| refuse("a whole number or text"), Ok),
        Type::Quantity => {
            let text = match value {
                Value::String(text) => text.trim().to_owned(),
                Value::Number(number) => number.to_string(),
                _ => return refuse("a quantity"),
            };
            mainstay_schema::quantity::written(&text)
                .map_or_else(|_| refuse("a quantity such as 500m or 1Gi"), |text| Ok(Value::String(text)))
        }
        Type::Pointer(inner) => convert(inner, value, path),
        Type::Slice(inner) => match value {
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| convert(inner, item, &Path::Index(path, index)));
                items.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            _ => refuse("a list"),
        },
        Type::Map(inner) => match value {
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.clone(), convert(inner, item, &Path::Field(path, key))?)));
                entries.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            _ => refuse("a mapping"),
        },
        Type::Struct(index) => match value {
            Value::Object(entries) => structure(&TYPES.structs[*index], entries, path),
            _ => refuse("a mapping"),
        },
        Type::SchemaOrArray if value.is_array() => convert(&Type::Slice(Box::new(TYPES.schema())), value, path),
        Type::SchemaOrStrings if value.is_array() => convert(&Type::Slice(Box::new(Type::String)), value, path),
        Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => convert(&TYPES.schema(), value, path),
    }
}

fn structure(fields: &[Field], entries: &Map<String, Value>, path: &Path<'_>) -> Result<Value, Mismatch> {
    let mut written = Map::new();
    for field in fields {
        let value = entries.get(&field.name).unwrap_or(&Value::Null);
        if value.is_null() && field.omit_empty && !matches!(field.kind, Type::Struct(_)) {
            // The zero of everything but a struct is empty to Go.
            continue;
        }
        let value = convert(&field.kind, value, &Path::Field(path, &field.name))?;
        let omitted = field.omit_empty && empty(&field.kind, &value) || field.omit_zero && value.is_null();
        if !omitted {
            written.insert(field.name.clone(), value);
        }
    }
    Ok(Value::Object(written))
}

/// What Go writes for a field that nobody set.
fn zero(kind: &Type, path: &Path<'_>) -> Result<Value, Mismatch> {
    Ok(match kind {
        Type::String => Value::String(String::new()),
        Type::Bool | Type::SchemaOrBool => Value::Bool(false),
        Type::Int | Type::Float | Type::IntOrString => Value::from(0),
        Type::Quantity => Value::String("0".to_owned()),
        Type::Struct(index) => structure(&TYPES.structs[*index], &Map::new(), path)?,
        Type::Raw
        | Type::Bytes
        | Type::Time
        | Type::SchemaOrArray
        | Type::SchemaOrStrings
        | Type::Pointer(_)
        | Type::Slice(_)
        | Type::Map(_) => Value::Null,
    })
}

/// Whether `omitempty` leaves the field out: false, 0, nil, or a slice, map or text of length 0. A struct is never empty.
fn empty(kind: &Type, value: &Value) -> bool {
    match kind {
        Type::Pointer(_) | Type::Raw => value.is_null(),
        Type::Struct(_)
        | Type::Quantity
        | Type::IntOrString
        | Type::Time
        | Type::SchemaOrBool
        | Type::SchemaOrArray
        | Type::SchemaOrStrings => false,
        Type::String | Type::Bool | Type::Int | Type::Float | Type::Bytes | Type::Slice(_) | Type::Map(_) => match value {
            Value::Null => true,
            Value::Bool(set) => !set,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
        },
    }
}

/// A number without a fraction, as an integer.
fn whole(value: &Value) -> Option<Value> {
    let number = value.as_number()?;
    if number.is_i64() || number.is_u64() {
        return Some(value.clone());
    }
    let float = number.as_f64()?;
    // Beyond 2^53 a float may stand for any of several integers, but this one is what Go converts it to.
    #[allow(clippy::cast_possible_truncation)]
    (float.fract() == 0.0 && float.abs() < 9.0e18).then(|| Value::Number(Number::from(float as i64)))
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let short: String = text.chars().take(60).collect();
            format!("{short:?}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn check(kind: &str, value: &Value, expected: &Value) {
        assert_eq!(conform(kind, value).unwrap(), *expected, "{kind}");
    }

    #[test]
    fn fields_follow_the_rules_of_gos_encoder() {
        // Structs appear unasked, nil pointers without omitempty are null, empty optional fields and unknown ones vanish.
        check(
            "DeploymentSpec",
            &json!({"replicas": 0, "paused": false, "unknown": 1, "template": {"spec": {"containers": [
                {"name": "a", "args": [], "resources": {"limits": {"cpu": "1000m", "memory": 128}}, "securityContext": {"privileged": false}}]}}}),
            &json!({"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "128"}}, "securityContext": {"privileged": false}}]}}}),
        );
        check("rbac.PolicyRule", &json!({}), &json!({"verbs": null}));
        check("ObjectMeta", &json!({"creationTimestamp": null, "annotations": {"a": null}}), &json!({"annotations": {"a": ""}}));
    }

    #[test]
    fn schemas_take_booleans_lists_and_text_where_go_does() {
        check(
            "apiextensions.JSONSchemaProps",
            &json!({"additionalProperties": true, "items": [{"type": "string"}], "minimum": 1.0, "default": {"a": null}, "enum": ["", null]}),
            &json!({"additionalProperties": true, "items": [{"type": "string"}], "minimum": 1, "default": {"a": null}, "enum": ["", null]}),
        );
    }

    #[test]
    fn a_mismatch_names_the_field() {
        let error = conform("DeploymentSpec", &json!({"template": {"spec": {"containers": [{"name": 5}]}}})).unwrap_err();
        assert_eq!(error.to_string(), "template.spec.containers[0].name: expected text, found 5");
        let error = conform("ObjectMeta", &json!({"annotations": {"com.example/a": true}})).unwrap_err();
        assert_eq!(error.to_string(), "annotations[com.example/a]: expected text, found true");
    }
}
