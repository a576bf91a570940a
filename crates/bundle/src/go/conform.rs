//! Values read into a Go type and written out again.

use mainstay_versions::Version;
use serde_json::{Map, Value};

use super::scalars;
use super::types::{Field, TYPES, Type};

/// A value that does not fit the Go type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct Mismatch {
    /// The field as Kubernetes writes it: `spec.containers[0].image`.
    pub path: String,
    /// The type that the field takes.
    pub expected: &'static str,
    /// The value found there.
    pub found: String,
}

/// Returns `value` as Go would write it after reading it into the struct named `kind` in the table of types.
pub fn conform(kind: &str, value: &Value) -> Result<Value, Mismatch> {
    convert(&TYPES.named(kind), value, &Path::Root, Reader::Unstructured)
}

/// The place in the value, as a list on the stack, so that nothing is built unless there is an error.
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

/// The two readers of Go. They differ in details, and upstream changes from one to the other inside an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// apimachinery's converter: numbers are cut to the size of the field.
    Unstructured,
    /// The JSON reader. It reads types with a JSON form of their own and everything inside them, and refuses a number that does not fit.
    Json,
}

#[allow(clippy::match_same_arms, reason = "each kind stands for itself")]
fn convert(kind: &Type, value: &Value, path: &Path<'_>, reader: Reader) -> Result<Value, Mismatch> {
    if value.is_null() {
        return zero(kind, path, reader);
    }
    let refuse = |expected| Err(Mismatch { path: path.to_string(), expected, found: describe(value) });
    let taken = |text: Option<String>, expected| text.map_or_else(|| refuse(expected), |text| Ok(Value::String(text)));
    match kind {
        Type::Raw => Ok(scalars::raw(value)),
        Type::String if value.is_string() => Ok(value.clone()),
        Type::String => refuse("text"),
        Type::Bytes => taken(value.as_str().and_then(scalars::base64), "base64 text"),
        Type::Time => match value.as_str().and_then(scalars::time) {
            Some(scalars::Time::Zero) => Ok(Value::Null),
            Some(scalars::Time::At(text)) => Ok(Value::String(text)),
            None => refuse("a time such as 2006-01-02T15:04:05Z"),
        },
        Type::Version if value.as_str().is_some_and(|text| Version::parse_tolerant(text).is_ok()) => Ok(value.clone()),
        Type::Version => refuse("a semantic version such as 1.2.3"),
        Type::Release if value.as_str().is_some_and(scalars::is_release) => Ok(value.clone()),
        Type::Release => refuse("identifiers separated by dots, numbers without leading zeros"),
        Type::Bool | Type::SchemaOrBool if value.is_boolean() => Ok(value.clone()),
        Type::Bool => refuse("true or false"),
        Type::Int32 | Type::Int64 => scalars::whole(value)
            .and_then(|whole| scalars::fitted(whole, *kind == Type::Int32, reader == Reader::Json))
            .map_or_else(|| refuse("a whole number"), |whole| Ok(whole.into())),
        Type::Float if value.is_number() => Ok(scalars::raw(value)),
        Type::Float => refuse("a number"),
        Type::IntOrString if value.is_string() => Ok(value.clone()),
        Type::IntOrString => scalars::whole(value)
            .and_then(|whole| scalars::fitted(whole, true, true))
            .map_or_else(|| refuse("a whole number or text"), |whole| Ok(whole.into())),
        Type::Quantity => {
            let text = match value {
                Value::String(text) => text.trim().to_owned(),
                Value::Number(number) => number.to_string(),
                _ => return refuse("a quantity"),
            };
            taken(mainstay_schema::quantity::written(&text).ok(), "a quantity such as 500m or 1Gi")
        }
        Type::Pointer(inner) => convert(inner, value, path, reader),
        Type::Slice(inner) => match value {
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| convert(inner, item, &Path::Index(path, index), reader));
                items.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            _ => refuse("a list"),
        },
        Type::Map(inner) => match value {
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.clone(), convert(inner, item, &Path::Field(path, key), reader)?)));
                entries.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            _ => refuse("a mapping"),
        },
        Type::Struct(index) => match value {
            Value::Object(entries) => structure(&TYPES.structs[*index], entries, path, reader),
            _ => refuse("a mapping"),
        },
        Type::SchemaOrArray | Type::SchemaOrStrings | Type::SchemaOrBool if value.is_object() => {
            convert(&TYPES.schema(), value, path, Reader::Json)
        }
        Type::SchemaOrBool => refuse("true, false or a schema"),
        // An empty list is kept as no value at all; anything that is neither a list nor a mapping is dropped silently.
        Type::SchemaOrArray | Type::SchemaOrStrings => {
            let inner = if *kind == Type::SchemaOrArray { TYPES.schema() } else { Type::String };
            match value {
                Value::Array(items) if !items.is_empty() => convert(&Type::Slice(Box::new(inner)), value, path, Reader::Json),
                _ => Ok(Value::Null),
            }
        }
    }
}

fn structure(fields: &[Field], entries: &Map<String, Value>, path: &Path<'_>, reader: Reader) -> Result<Value, Mismatch> {
    let mut written = Map::new();
    for field in fields {
        let given = entries.get(&field.name).unwrap_or(&Value::Null);
        if given.is_null() && (field.omit_zero || field.omit_empty && !field.kind.is_struct()) {
            continue;
        }
        let value = convert(&field.kind, given, &Path::Field(path, &field.name), reader)?;
        let omitted = field.omit_empty && empty(&field.kind, &value) || field.omit_zero && value.is_null();
        if !omitted {
            written.insert(field.name.clone(), value);
        }
    }
    Ok(Value::Object(written))
}

/// The value that Go writes for an unset field.
fn zero(kind: &Type, path: &Path<'_>, reader: Reader) -> Result<Value, Mismatch> {
    Ok(match kind {
        Type::String | Type::Release => Value::String(String::new()),
        Type::Version => Value::String("0.0.0".to_owned()),
        Type::Bool | Type::SchemaOrBool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::Float | Type::IntOrString => Value::from(0),
        Type::Quantity => Value::String("0".to_owned()),
        Type::Struct(index) => structure(&TYPES.structs[*index], &Map::new(), path, reader)?,
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

/// Returns whether `omitempty` leaves out a field that is set: false, 0, or a slice, map or text of length 0. A struct is never empty, nor is a
/// pointer that points to something, even if that is written as null.
fn empty(kind: &Type, value: &Value) -> bool {
    if kind.is_struct() || matches!(kind, Type::Pointer(_) | Type::Raw) {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
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
        check(
            "apiextensions.CustomResourceDefinitionCondition",
            &json!({"type": "a", "status": "b"}),
            &json!({"type": "a", "status": "b", "lastTransitionTime": null}),
        );
        check("ResourceFieldSelector", &json!({"resource": "limits.cpu"}), &json!({"resource": "limits.cpu", "divisor": "0"}));
        check("ResourceFieldSelector", &json!({"resource": "a", "divisor": "1000m"}), &json!({"resource": "a", "divisor": "1"}));
        check("ServicePort", &json!({"port": 80.0, "nodePort": 4_294_967_296_i64}), &json!({"port": 80, "targetPort": 0}));
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

    /// OLM1-INST-08: an empty list is no schema, and numbers inside of a schema's schema must fit.
    #[test]
    fn schemas_inside_of_schemas() {
        check(
            "apiextensions.JSONSchemaProps",
            &json!({"Type": "object", "items": {"Type": "x", "maxLength": 3.0, "enum": [1.0]}, "dependencies": {"a": [], "b": ["c"]}}),
            &json!({"items": {"maxLength": 3, "enum": [1]}, "dependencies": {"a": null, "b": ["c"]}}),
        );
        check("apiextensions.JSONSchemaProps", &json!({"items": []}), &json!({"items": null}));
        assert!(conform("apiextensions.JSONSchemaProps", &json!({"additionalProperties": []})).is_err());
        assert!(conform("apiextensions.JSONSchemaProps", &json!({"additionalProperties": {"maxLength": 1.5}})).is_err());
    }

    #[test]
    fn a_mismatch_names_the_field() {
        let error = conform("DeploymentSpec", &json!({"template": {"spec": {"containers": [{"name": 5}]}}})).unwrap_err();
        assert_eq!(error.to_string(), "template.spec.containers[0].name: expected text, found 5");
        let error = conform("ObjectMeta", &json!({"annotations": {"com.example/a": true}})).unwrap_err();
        assert_eq!(error.to_string(), "annotations[com.example/a]: expected text, found true");
    }
}
