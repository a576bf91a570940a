//! Writes values as kubectl prints them: block style, two blanks, list items level with their key.
//!
//! A string is written plain only when every YAML 1.1 reader takes it for that string again.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use crate::resolve::{Scalar, is_ambiguous, resolve};

/// Longer keys need the explicit `? ` form, because readers only look so far for the colon.
const SIMPLE_KEY: usize = 120;

/// One document, with a line end after the last line.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    document(&mut out, value);
    out
}

/// Several documents, each but the first after a line `---`.
pub fn to_multi_string(values: &[Value]) -> String {
    let mut out = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        document(&mut out, value);
    }
    out
}

fn document(out: &mut String, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(out, map, 0, false),
        Value::Array(items) if !items.is_empty() => sequence(out, items, 0, false),
        other => inline(out, other, 0),
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// `inside` says that the first line's indentation stands already (after `- `).
fn mapping(out: &mut String, map: &Map<String, Value>, depth: usize, mut inside: bool) {
    for (name, value) in map {
        if !std::mem::take(&mut inside) {
            indent(out, depth);
        }
        if name.len() > SIMPLE_KEY {
            out.push_str("? ");
            flow_text(out, name);
            out.push('\n');
            indent(out, depth);
        } else {
            flow_text(out, name);
        }
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                mapping(out, map, depth + 1, false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                sequence(out, items, depth, false);
            }
            other => {
                out.push(' ');
                inline(out, other, depth + 1);
            }
        }
    }
}

fn sequence(out: &mut String, items: &[Value], depth: usize, mut inside: bool) {
    for item in items {
        if !std::mem::take(&mut inside) {
            indent(out, depth);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(out, map, depth + 1, true),
            Value::Array(items) if !items.is_empty() => sequence(out, items, depth + 1, true),
            other => inline(out, other, depth + 1),
        }
    }
}

/// A scalar or an empty collection, to the end of its line; `depth` is that of a block's content.
fn inline(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        Value::String(text) => {
            if block_fits(text) {
                return block(out, text, depth);
            }
            flow_text(out, text);
        }
    }
    out.push('\n');
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_text(&format!("{float:e}"), || format!("{float}")),
        _ => number.to_string(),
    }
}

/// A float in Go's shortest notation from its scientific one: an exponent below 1e-4 and from 1e6 on.
pub(crate) fn float_text(scientific: &str, plain: impl FnOnce() -> String) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return plain() };
    match exponent.parse::<i32>() {
        Ok(power) if (-4..6).contains(&power) => plain(),
        Ok(power) => format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
        Err(_) => plain(),
    }
}

/// Whether `|` carries the text without loss for every reader.
fn block_fits(text: &str) -> bool {
    text.contains('\n')
        && text.bytes().any(|byte| byte != b'\n')
        && text.chars().all(|letter| letter == '\n' || is_printable(letter))
        && !text.lines().any(|line| line.ends_with(' '))
}

fn block(out: &mut String, text: &str, depth: usize) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = text.trim_end_matches('\n');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    out.push('\n');
    // The indicator counts from the parent's indentation, and at the root that is none.
    let depth = depth.max(1);
    for line in body.split('\n') {
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
        out.push('\n');
    }
    for _ in 1..(text.len() - body.len()) {
        out.push('\n');
    }
}

fn flow_text(out: &mut String, text: &str) {
    let printable = text.chars().all(is_printable);
    if !printable || resolve(text) != Scalar::Text || is_ambiguous(text) || text == "=" {
        double_quoted(out, text);
    } else if plain_fits(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn is_printable(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
        && !matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn plain_fits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    let leading = match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' | b' ' => false,
        b'-' | b'?' | b':' => bytes.get(1).is_some_and(|next| *next != b' ' && *next != b'-'),
        _ => true,
    };
    leading
        && !matches!(last, b' ' | b':')
        && text != "<<"
        && !text.starts_with("...")
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
}

fn double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            letter if is_printable(letter) => out.push(letter),
            letter => {
                let code = u32::from(letter);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
}
