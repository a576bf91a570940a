//! JSON text as Go's `encoding/json` writes it.

use mainstay_golang::json::{self, Html};
use serde_json::Value;

use super::types::{TYPES, Type};

/// Returns the value with sorted keys and no blanks, with `<`, `>` and `&` escaped as `json.Marshal` does.
pub fn to_string(value: &Value) -> String {
    json::to_string(value, Html::Escaped)
}

/// Does the same for a value that went through [`super::conform`], with the fields in the order of the Go struct.
pub fn to_string_as(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &TYPES.named(kind), value, Html::Escaped);
    out
}

/// Does the same as [`to_string_as`] without the escapes of `<`, `>` and `&`, as a Go encoder does with those escapes turned off.
pub fn to_plain_string_as(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &TYPES.named(kind), value, Html::Plain);
    out
}

/// Returns JSON text without the blanks between its tokens and with its keys in their order, as Go writes a raw message.
pub fn compact_raw(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if !quoted && c.is_ascii_whitespace() {
            continue;
        }
        compact.push(c);
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    let mut out = String::with_capacity(compact.len());
    json::write_html_escaped(&mut out, &compact);
    out
}

fn write(out: &mut String, kind: &Type, value: &Value, html: Html) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(set) => out.push_str(if *set { "true" } else { "false" }),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(float)) => out.push_str(&json::float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => json::write_string(out, text, html),
        Value::Array(items) => {
            let inner = element(kind);
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, &inner, item, html);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            let fields = match strip(kind) {
                Type::Struct(index) => Some(&TYPES.structs[*index]),
                _ => None,
            };
            out.push('{');
            let mut first = true;
            let mut entry = |out: &mut String, name: &str, kind: &Type, item: &Value| {
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                json::write_string(out, name, html);
                out.push(':');
                write(out, kind, item, html);
            };
            if let Some(fields) = fields {
                for field in fields {
                    if let Some(item) = entries.get(&field.name) {
                        entry(out, &field.name, &field.kind, item);
                    }
                }
            } else {
                let inner = element(kind);
                for (key, item) in entries {
                    entry(out, key, &inner, item);
                }
            }
            out.push('}');
        }
    }
}

fn strip(kind: &Type) -> &Type {
    match kind {
        Type::Pointer(inner) => strip(inner),
        other => other,
    }
}

fn element(kind: &Type) -> Type {
    match strip(kind) {
        Type::Slice(inner) | Type::Map(inner) => (**inner).clone(),
        _ => Type::Raw,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_escaped_as_go_does() {
        assert_eq!(
            to_string(&json!({"b": "<a & b>\u{2028}\u{1}\n", "a": [1.5, 1e21, 1e-7, -0.5, 100.0]})),
            r#"{"a":[1.5,1e+21,1e-7,-0.5,100],"b":"\u003ca \u0026 b\u003e\u2028\u0001\n"}"#
        );
        assert_eq!(compact_raw("{ \"b\" : \"a \\\" <\" ,\n \"a\": [ 1 ] }"), r#"{"b":"a \" \u003c","a":[1]}"#);
    }

    #[test]
    fn text_without_escapes_for_html() {
        let plain = |text: &str| to_plain_string_as("none", &json!(text));
        assert_eq!(plain("<a & b>\\u003c\u{2028}\"\n"), r#""<a & b>\\u003c\u2028\"\n""#);
    }

    #[test]
    fn struct_fields_keep_their_order() {
        let entry = json!({"rules": [{"apiGroups": [""], "verbs": ["get"], "resources": ["pods"]}], "serviceAccountName": "a"});
        assert_eq!(
            to_string_as("operators.StrategyDeploymentPermissions", &entry),
            r#"{"serviceAccountName":"a","rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}"#
        );
    }
}
