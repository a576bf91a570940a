//! Pieces of JSON text as `encoding/json` writes them.

use std::fmt::Write as _;

use serde_json::Value;

/// The treatment of `<`, `>` and `&`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Html {
    /// They are escaped, as `json.Marshal` does.
    Escaped,
    /// They stay, as with an encoder after `SetEscapeHTML(false)`.
    Plain,
}

/// Returns a value with sorted keys and no blanks, as `json.Marshal` writes maps.
pub fn to_string(value: &Value, html: Html) -> String {
    let mut out = String::new();
    write(&mut out, value, html);
    out
}

fn write(out: &mut String, value: &Value, html: Html) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(set) => out.push_str(if *set { "true" } else { "false" }),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(value)) => out.push_str(&float(value)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_string(out, text, html),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item, html);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key, html);
                out.push(':');
                write(out, item, html);
            }
            out.push('}');
        }
    }
}

/// Returns a text in quotes.
pub fn string(text: &str, html: Html) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(&mut out, text, html);
    out
}

/// Appends a text in quotes.
pub fn write_string(out: &mut String, text: &str, html: Html) {
    out.push('"');
    let mut plain = 0;
    for (at, letter) in text.char_indices() {
        let short = match letter {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            letter if letter < ' ' || is_special(letter, html) => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        plain = at + letter.len_utf8();
        if short.is_empty() {
            escape(out, letter);
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// Appends JSON text with the escapes that make it safe inside HTML and JavaScript, as `json.HTMLEscape` does.
pub fn write_html_escaped(out: &mut String, json: &str) {
    // In JSON these characters occur only inside strings.
    for letter in json.chars() {
        if is_special(letter, Html::Escaped) {
            escape(out, letter);
        } else {
            out.push(letter);
        }
    }
}

/// Returns whether Go escapes the character. The two separators end lines in JavaScript, so Go always escapes them.
fn is_special(letter: char, html: Html) -> bool {
    match letter {
        '\u{2028}' | '\u{2029}' => true,
        '<' | '>' | '&' => html == Html::Escaped,
        _ => false,
    }
}

fn escape(out: &mut String, letter: char) {
    // Writing to a text cannot fail.
    let _written = write!(out, "\\u{:04x}", u32::from(letter));
}

/// A finite 64-bit float: the shortest digits that read back the same, with an exponent below 1e-6 and from 1e21.
pub fn float(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    // Rust leaves out the plus sign that Go writes.
    let text = format!("{value:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// OLM1-CAT-07: strings as Go 1.26 wrote these, with and without the escapes for HTML.
    #[test]
    fn as_go_writes_strings() {
        let cases = [
            ("<a & b>", r#""\u003ca \u0026 b\u003e""#, r#""<a & b>""#),
            (
                "\"\\/\n\r\t\u{8}\u{c}\u{b}\0\u{1f}\u{7f}",
                "\"\\\"\\\\/\\n\\r\\t\\b\\f\\u000b\\u0000\\u001f\u{7f}\"",
                "\"\\\"\\\\/\\n\\r\\t\\b\\f\\u000b\\u0000\\u001f\u{7f}\"",
            ),
            ("\u{2028}\u{2029}\u{85}é😀", "\"\\u2028\\u2029\u{85}é😀\"", "\"\\u2028\\u2029\u{85}é😀\""),
            ("", r#""""#, r#""""#),
        ];
        for (text, escaped, plain) in cases {
            assert_eq!((string(text, Html::Escaped).as_str(), string(text, Html::Plain).as_str()), (escaped, plain), "{text:?}");
        }
        let mut out = String::new();
        write_html_escaped(&mut out, "{\"a<\":\"\\u003c&\u{2028}\"}");
        assert_eq!(out, r#"{"a\u003c":"\u003c\u0026\u2028"}"#);
    }

    /// CATLG-10: floats as Go 1.26 wrote these.
    #[test]
    fn as_go_writes_floats() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.25e30, "1.25e+30"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (123_456_789.125, "123456789.125"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

    proptest! {
        /// What is written reads back the same, and the escapes for HTML are the same in one step and in two.
        #[test]
        fn reads_back(text in any::<String>(), value in prop::num::f64::NORMAL) {
            let plain = string(&text, Html::Plain);
            let escaped = string(&text, Html::Escaped);
            prop_assert_eq!(&serde_json::from_str::<String>(&plain).unwrap(), &text);
            prop_assert_eq!(&serde_json::from_str::<String>(&escaped).unwrap(), &text);
            let mut second = String::new();
            write_html_escaped(&mut second, &plain);
            prop_assert_eq!(second, escaped);
            prop_assert_eq!(float(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
