//! JSON as Go's encoder writes it: fields in the order of their declaration, characters with a meaning in HTML escaped.
//!
//! Clients compare and hash what a registry sends, so `csvJson` has the text that upstream's types give. The types are described by
//! tables; a value is checked and written in one go.

use mainstay_catalog::Shape as Mismatch;
use mainstay_golang::json::{self, Html};
use serde_json::Value;

/// Type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// An integer of 32 bits.
    Integer,
    /// Strings by name.
    Texts,
    /// Any JSON, unchanged.
    Any,
    /// A list.
    List(&'static Shape),
    /// A mapping with known fields; others are dropped.
    Record(&'static [Field]),
}

/// A field of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) empty: Empty,
}

/// Treatment of a field that has the zero value of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    /// It is written.
    Kept,
    /// It is left out; a record never is.
    Omitted,
}

/// A field that is always written.
pub(super) const fn kept(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, empty: Empty::Kept }
}

/// A field that is left out when empty.
pub(super) const fn omitted(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, empty: Empty::Omitted }
}

/// Returns a member of a mapping; the exact spelling takes precedence over others, as in Go.
pub(super) fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    members.get(name).or_else(|| members.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// Writer of a mapping's members, one after another.
pub(super) struct Members<'o> {
    out: &'o mut String,
    empty: bool,
}

impl<'o> Members<'o> {
    /// Begins a mapping.
    pub(super) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    /// Ends it.
    pub(super) fn end(self) {
        self.out.push('}');
    }

    /// Begins a member: its value is written to the returned text.
    pub(super) fn key(&mut self, name: &str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        text(self.out, name);
        self.out.push(':');
        self.out
    }

    /// Writes a member of a shape; `value` is the value that was read, if any; `at` is its path, for messages.
    pub(super) fn field(&mut self, field: Field, value: Option<&Value>, at: &str) -> Result<(), Mismatch> {
        if field.empty == Empty::Omitted && is_zero(field.shape, value) {
            // A field that is left out is checked all the same.
            return write(&mut String::new(), field.shape, value, at);
        }
        write(self.key(field.name), field.shape, value, at)
    }
}

fn is_zero(shape: Shape, value: Option<&Value>) -> bool {
    match (shape, value) {
        (Shape::Record(_), _) | (Shape::Any, Some(_)) | (_, Some(Value::Bool(true))) => false,
        (_, None | Some(Value::Null | Value::Bool(false))) => true,
        (_, Some(Value::String(text))) => text.is_empty(),
        (_, Some(Value::Number(number))) => number.as_i64() == Some(0),
        (_, Some(Value::Array(items))) => items.is_empty(),
        (_, Some(Value::Object(members))) => members.is_empty(),
    }
}

/// Writes a value of a shape; an absent value and null are the zero value.
fn write(out: &mut String, shape: Shape, value: Option<&Value>, at: &str) -> Result<(), Mismatch> {
    let mismatch = |expected| Mismatch { field: at.to_owned(), expected, found: kind_of(value) };
    let value_or_null = value.filter(|value| !value.is_null());
    match shape {
        Shape::Any => any(out, value.unwrap_or(&Value::Null)),
        Shape::Text => match value_or_null {
            None => out.push_str("\"\""),
            Some(Value::String(value)) => text(out, value),
            Some(_) => return Err(mismatch("a string")),
        },
        Shape::Flag => match value_or_null {
            None => out.push_str("false"),
            Some(Value::Bool(value)) => out.push_str(if *value { "true" } else { "false" }),
            Some(_) => return Err(mismatch("a boolean")),
        },
        Shape::Integer => match value_or_null.map(|value| value.as_i64().and_then(|value| i32::try_from(value).ok())) {
            None => out.push('0'),
            Some(Some(value)) => out.push_str(&value.to_string()),
            Some(None) => return Err(mismatch("an integer of 32 bits")),
        },
        Shape::Texts => match value_or_null {
            None => out.push_str("null"),
            Some(Value::Object(members)) => {
                let mut keys: Vec<&String> = members.keys().collect();
                keys.sort_unstable();
                let mut written = Members::begin(out);
                for key in keys {
                    write(written.key(key), Shape::Text, members.get(key), &format!("{at}.{key}"))?;
                }
                written.end();
            }
            Some(_) => return Err(mismatch("a mapping of strings")),
        },
        Shape::List(item) => match value_or_null {
            None => out.push_str("null"),
            Some(Value::Array(items)) => {
                out.push('[');
                for (i, value) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write(out, *item, Some(value), &format!("{at}[{i}]"))?;
                }
                out.push(']');
            }
            Some(_) => return Err(mismatch("a list")),
        },
        Shape::Record(fields) => {
            if value_or_null.is_some_and(|value| !value.is_object()) {
                return Err(mismatch("a mapping"));
            }
            let mut written = Members::begin(out);
            for field in fields {
                let value = value_or_null.and_then(|value| member(value, field.name));
                written.field(*field, value, &format!("{at}.{}", field.name))?;
            }
            written.end();
        }
    }
    Ok(())
}

fn kind_of(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "a mapping",
    }
}

/// Writes any JSON, unchanged.
pub(super) fn any(out: &mut String, value: &Value) {
    json::write_html_escaped(out, &value.to_string());
}

/// Writes a string.
pub(super) fn text(out: &mut String, value: &str) {
    json::write_string(out, value, Html::Escaped);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const RECORD: Shape = Shape::Record(&[
        kept("name", Shape::Text),
        omitted("url", Shape::Text),
        omitted("on", Shape::Flag),
        omitted("port", Shape::Integer),
        omitted("labels", Shape::Texts),
        omitted("items", Shape::List(&Shape::Text)),
        omitted("inner", Shape::Record(&[omitted("x", Shape::Text)])),
        omitted("any", Shape::Any),
    ]);

    fn written(value: &Value) -> Result<String, String> {
        let mut out = String::new();
        write(&mut out, RECORD, Some(value), "r").map(|()| out).map_err(|mismatch| mismatch.to_string())
    }

    /// CATLG-41: the text is what Go's encoder writes for the same value.
    #[test]
    fn writes_as_go_does() {
        let cases = [
            (json!({}), r#"{"name":"","inner":{}}"#),
            (json!(null), r#"{"name":"","inner":{}}"#),
            (
                json!({"NAME": "a<b>&\u{2028}\u{1}\u{7f}\"\\\n\u{8}"}),
                "{\"name\":\"a\\u003cb\\u003e\\u0026\\u2028\\u0001\u{7f}\\\"\\\\\\n\\b\",\"inner\":{}}",
            ),
            (json!({"url": "", "on": false, "port": 0, "labels": {}, "items": []}), r#"{"name":"","inner":{}}"#),
            (
                json!({"items": ["x", null], "labels": {"b": "2", "a": null}}),
                r#"{"name":"","labels":{"a":"","b":"2"},"items":["x",""],"inner":{}}"#,
            ),
            (
                json!({"any": {"k": "<"}, "inner": {"x": "y", "unknown": 1}}),
                "{\"name\":\"\",\"inner\":{\"x\":\"y\"},\"any\":{\"k\":\"\\u003c\"}}",
            ),
            (json!({"any": null, "port": 8443}), r#"{"name":"","port":8443,"inner":{},"any":null}"#),
        ];
        for (value, expected) in cases {
            assert_eq!(written(&value).unwrap(), expected);
        }
    }

    /// CATLG-41: a value of another shape is told with its place, also where it would be left out.
    #[test]
    fn refuses_other_shapes() {
        let cases = [
            (json!([]), "field r must be a mapping, found a list"),
            (json!({"name": 1}), "field r.name must be a string, found a number"),
            (json!({"items": ["a", {}]}), "field r.items[1] must be a string, found a mapping"),
            (json!({"port": 4_294_967_296_u64}), "field r.port must be an integer of 32 bits, found a number"),
            (json!({"labels": []}), "field r.labels must be a mapping of strings, found a list"),
        ];
        for (value, expected) in cases {
            assert_eq!(written(&value).unwrap_err(), expected);
        }
    }
}
