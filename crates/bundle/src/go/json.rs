//! JSON text as Go's `encoding/json` writes it.

use std::fmt::Write as _;

use serde_json::Value;

use super::types::{TYPES, Type};

/// The value with sorted keys and no blanks, with `<`, `>` and `&` escaped as `json.Marshal` does.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &Type::Raw, value);
    out
}

/// The same for a value that went through [`super::conform`], with the fields in the order of the Go struct.
pub fn to_string_as(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &TYPES.named(kind), value);
    out
}

/// [`to_string_as`] without the escapes of `<`, `>` and `&`, as an encoder writes that was told to leave them.
pub fn to_plain_string_as(kind: &str, value: &Value) -> String {
    let text = to_string_as(kind, value);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        // An escape has one character after the backslash, or five.
        let (escape, plain) = match rest.get(at..at + 6) {
            Some("\\u003c") => (6, "<"),
            Some("\\u003e") => (6, ">"),
            Some("\\u0026") => (6, "&"),
            _ => (2, &rest[at..at + 2]),
        };
        out.push_str(plain);
        rest = &rest[at + escape..];
    }
    out.push_str(rest);
    out
}

/// JSON text without the blanks between its tokens, its keys in the order they have, as a raw message is written.
pub fn compact_raw(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if !quoted && c.is_ascii_whitespace() {
            continue;
        }
        if quoted && html(&mut out, c) {
            continue;
        }
        out.push(c);
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    out
}

fn write(out: &mut String, kind: &Type, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(set) => out.push_str(if *set { "true" } else { "false" }),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(float)) => write_float(out, float),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            let inner = element(kind);
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, &inner, item);
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
                write_string(out, name);
                out.push(':');
                write(out, kind, item);
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

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => escape(out, c),
            c => {
                if !html(out, c) {
                    out.push(c);
                }
            }
        }
    }
    out.push('"');
}

/// Writes the characters that Go escapes so that the text is safe inside HTML and JavaScript.
fn html(out: &mut String, c: char) -> bool {
    let special = matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if special {
        escape(out, c);
    }
    special
}

fn escape(out: &mut String, c: char) {
    // Writing to a String does not fail.
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

/// The shortest digits that read back the same; with an exponent below 1e-6 and from 1e21.
fn write_float(out: &mut String, float: f64) {
    let size = float.abs();
    let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        }
    } else {
        format!("{float}")
    };
    out.push_str(&text);
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
