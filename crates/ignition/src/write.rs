//! Configs as text: fields in the order of their type, empty ones left out, as upstream's writer has it.

use std::fmt::Write as _;

use crate::data::{Data, Struct};
use crate::model::Kind;

impl Struct {
    /// The text, on one line.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_struct(&mut out, self);
        out
    }
}

fn write_struct(out: &mut String, value: &Struct) {
    out.push('{');
    let mut first = true;
    for (field, value) in value.entries() {
        if field.omit_empty && value.is_empty(&field.kind) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        write_text(out, &field.name);
        out.push(':');
        write_value(out, value, &field.kind);
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Data, kind: &Kind) {
    match value {
        Data::Absent => out.push_str("null"),
        Data::Bool(set) => out.push_str(if *set { "true" } else { "false" }),
        Data::Int(number) => {
            // Writing to a text cannot fail.
            let _written = write!(out, "{number}");
        }
        Data::Text(text) => write_text(out, text),
        Data::Struct(inner) => write_struct(out, inner),
        Data::Texts(texts) => {
            out.push('{');
            for (index, (name, text)) in texts.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(out, name);
                out.push(':');
                write_text(out, text);
            }
            out.push('}');
        }
        Data::List(items) => {
            let item_kind = match kind {
                Kind::List(_, item) => item,
                other => other,
            };
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item, item_kind);
            }
            out.push(']');
        }
    }
}

/// Writes a text in quotes. Upstream's writer is an older copy of Go's, which knows no `\b` and no `\f`.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _written = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}
