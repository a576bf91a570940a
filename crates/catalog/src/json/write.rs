//! Writing JSON values in canonical order, on one line or indented by four blanks (CATLG-10).

use std::borrow::Cow;
use std::ops::Range;

use super::cursor::{Cursor, Syntax, escaped_char};
use super::number;

/// Layout of written values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Everything on one line, no blanks.
    Line,
    /// One line for each member or element, indented by four blanks a level.
    Indented,
}

/// Treatment of the written values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Keys are sorted, the last of equal keys counts, numbers and escapes are written as by Go's encoder.
    Canonical,
    /// Keys, numbers and escapes stay unchanged.
    Kept,
}

/// Writes values of a text `'a` into a buffer.
pub(crate) struct Writer<'a, 'o> {
    pub(crate) out: &'o mut Vec<u8>,
    layout: Layout,
    values: Values,
    level: usize,
    /// Members of the mappings that are being written, the innermost last.
    members: Vec<(Cow<'a, str>, Range<usize>)>,
}

impl<'a, 'o> Writer<'a, 'o> {
    /// A writer of canonical values.
    pub(crate) fn new(out: &'o mut Vec<u8>, layout: Layout) -> Self {
        Self::with(out, layout, Values::Canonical)
    }

    pub(crate) fn with(out: &'o mut Vec<u8>, layout: Layout, values: Values) -> Self {
        Self { out, layout, values, level: 0, members: Vec::new() }
    }

    /// Reads the value at the cursor and writes it.
    pub(crate) fn value(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Syntax> {
        match cursor.peek() {
            Some(b'{') => self.mapping(cursor),
            Some(b'[') => self.list(cursor),
            Some(b'"') => {
                let (inside, escaped) = cursor.quoted()?;
                self.out.push(b'"');
                match self.values {
                    Values::Canonical => write_inside(inside, escaped, self.out),
                    Values::Kept => write_kept(inside, self.out),
                }
                self.out.push(b'"');
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') if self.values == Values::Canonical => {
                let at = cursor.position();
                let text = cursor.skip()?;
                if number::write(text, self.out) { Ok(()) } else { Err(Syntax { at, reason: "number out of range" }) }
            }
            _ => {
                self.out.extend_from_slice(cursor.skip()?.as_bytes());
                Ok(())
            }
        }
    }

    fn list(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Syntax> {
        cursor.enter(b'[')?;
        self.open(b'[');
        let mut first = true;
        let mut empty = true;
        while cursor.element(&mut first)? {
            self.item(empty);
            empty = false;
            self.value(cursor)?;
        }
        self.close(b']', empty);
        Ok(())
    }

    fn mapping(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Syntax> {
        cursor.enter(b'{')?;
        self.open(b'{');
        let base = self.members.len();
        let mut first = true;
        let mut sorted = true;
        while let Some(key) = cursor.key(&mut first)? {
            self.item(self.members.len() == base);
            let start = self.out.len();
            write_string(&key, self.out);
            self.colon();
            sorted = sorted && (self.members.len() == base || self.members.last().is_none_or(|(last, _)| *last < key));
            self.members.push((key, start..start));
            let own = self.members.len() - 1;
            self.value(cursor)?;
            self.members[own].1.end = self.out.len();
        }
        let empty = self.members.len() == base;
        if !sorted && self.values == Values::Canonical {
            self.reorder(base);
        }
        self.members.truncate(base);
        self.close(b'}', empty);
        Ok(())
    }

    /// Sorts the members of the mapping at the end of the output by their keys; of equal keys the last one stays.
    fn reorder(&mut self, base: usize) {
        let mut members = self.members.split_off(base);
        let Some(first) = members.first().map(|(_, range)| range.start) else { return };
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let written = self.out.split_off(first);
        let mut rest = members.iter().peekable();
        while let Some((key, range)) = rest.next() {
            if rest.peek().is_some_and(|(next, _)| next == key) {
                continue;
            }
            if self.out.len() > first {
                self.item(false);
            }
            self.out.extend_from_slice(&written[range.start - first..range.end - first]);
        }
    }

    /// Begins a list or mapping.
    pub(crate) fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.level += 1;
    }

    /// Ends a list or mapping.
    pub(crate) fn close(&mut self, bracket: u8, empty: bool) {
        self.level -= 1;
        if !empty {
            self.new_line();
        }
        self.out.push(bracket);
    }

    /// Writes the separator and indentation before an item of a list or mapping.
    pub(crate) fn item(&mut self, first: bool) {
        if !first {
            self.out.push(b',');
        }
        self.new_line();
    }

    pub(crate) fn colon(&mut self) {
        self.out.extend_from_slice(match self.layout {
            Layout::Line => b":",
            Layout::Indented => b": ",
        });
    }

    fn new_line(&mut self) {
        const BLANKS: &[u8] = &[b' '; 64];
        if self.layout == Layout::Indented {
            self.out.push(b'\n');
            let mut blanks = self.level * 4;
            while blanks > 0 {
                let some = blanks.min(BLANKS.len());
                self.out.extend_from_slice(&BLANKS[..some]);
                blanks -= some;
            }
        }
    }
}

/// Appends a quoted string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_plain(text, out);
    out.push(b'"');
}

/// Appends the text between the quotes of a checked string, with its escapes in Go's form.
fn write_inside(inside: &str, escaped: bool, out: &mut Vec<u8>) {
    if !escaped {
        return write_plain(inside, out);
    }
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        write_plain(&rest[..at], out);
        rest = &rest[at..];
        let length = if let Some(b'u' | b'/') = rest.as_bytes().get(1) {
            let (letter, length) = escaped_char(rest);
            write_plain(letter.encode_utf8(&mut [0; 4]), out);
            length
        } else {
            out.extend_from_slice(&rest.as_bytes()[..2]);
            2
        };
        rest = &rest[length..];
    }
    write_plain(rest, out);
}

/// Appends the text between the quotes of a checked string; Go changes only the two separators in it.
fn write_kept(inside: &str, out: &mut Vec<u8>) {
    let mut rest = inside;
    while let Some(at) = rest.find(['\u{2028}', '\u{2029}']) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        out.extend_from_slice(if rest[at..].starts_with('\u{2028}') { b"\\u2028" } else { b"\\u2029" });
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// First byte of the two separators that Go escapes, U+2028 and U+2029.
const SEPARATORS: u8 = 0xE2;

static PLAIN: [bool; 256] = plain();

const fn plain() -> [bool; 256] {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = false;
        byte += 1;
    }
    table[b'"' as usize] = false;
    table[b'\\' as usize] = false;
    table[SEPARATORS as usize] = false;
    table
}

/// Appends text, with the escapes that JSON or Go require.
fn write_plain(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if PLAIN[usize::from(byte)] {
            at += 1;
            continue;
        }
        let length = match byte {
            SEPARATORS if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xA8 | 0xA9])) => 3,
            SEPARATORS => {
                at += 1;
                continue;
            }
            _ => 1,
        };
        out.extend_from_slice(&bytes[start..at]);
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            SEPARATORS => out.extend_from_slice(if bytes[at + 2] == 0xA8 { b"\\u2028" } else { b"\\u2029" }),
            _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
        at += length;
        start = at;
    }
    out.extend_from_slice(&bytes[start..]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;
    use serde::Serialize as _;
    use serde_json::Value;
    use serde_json::ser::{PrettyFormatter, Serializer};

    use super::*;

    fn written(text: &str, layout: Layout) -> String {
        let mut out = Vec::new();
        let mut cursor = Cursor::new(text);
        Writer::new(&mut out, layout).value(&mut cursor).unwrap();
        cursor.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    /// OLM1-CAT-07: keys sorted, compact, no HTML escaping; the last of two equal keys counts; the rest as Go's encoder has it.
    #[test]
    fn sorts_and_compacts() {
        let cases = [
            ("{}", "{}"),
            ("[ ]", "[]"),
            (r#"{ "b": [1, -2, 2.50, null, true], "a": "<&>\u0041" }"#, r#"{"a":"<&>A","b":[1,-2,2.5,null,true]}"#),
            (r#"{"z":{"y":1,"x":{}},"a":{},"z":2}"#, r#"{"a":{},"z":2}"#),
            (r#"{"a":{"c":1,"b":{"e":1,"d":2}},"A":[{"y":1,"x":2}]}"#, r#"{"A":[{"x":2,"y":1}],"a":{"b":{"d":2,"e":1},"c":1}}"#),
            (r#""\u2028\u0001\u007f\b\f\t\ud800x\/é\u00e9""#, "\"\\u2028\\u0001\u{7f}\\b\\f\\t\u{fffd}x/éé\""),
            ("\"\u{2029}–\"", "\"\\u2029–\""),
        ];
        for (input, expected) in cases {
            assert_eq!(written(input, Layout::Line), expected);
        }
    }

    /// CATLG-10: what is kept is kept, but for the layout and the two separators.
    #[test]
    fn keeps() {
        let text = "{ \"b\" : 1.0 ,\"a\":[ \"\\u0041\\/\u{2028}\" ], \"b\":{}}";
        let mut out = Vec::new();
        Writer::with(&mut out, Layout::Line, Values::Kept).value(&mut Cursor::new(text)).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"b\":1.0,\"a\":[\"\\u0041\\/\\u2028\"],\"b\":{}}");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\\PC\"\\\\\\n\\t]{0,6}".prop_filter("Go escapes these", |s| !s.contains(['\u{2028}', '\u{2029}'])).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-d\"\\n]{0,2}", inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The members of all mappings in reverse, as text.
    fn reversed(value: &Value) -> String {
        match value {
            Value::Object(members) => {
                let members: Vec<String> =
                    members.iter().rev().map(|(key, value)| format!("{} :{}", Value::from(key.as_str()), reversed(value))).collect();
                format!("{{ {} }}", members.join(" , "))
            }
            Value::Array(items) => format!("[\n{}]", items.iter().map(reversed).collect::<Vec<_>>().join(",")),
            leaf => leaf.to_string(),
        }
    }

    proptest! {
        /// OLM1-CAT-07, CATLG-10: the writer agrees with the slow way through a tree, in both layouts, whatever the order of the keys.
        #[test]
        fn agrees_with_a_tree(value in any_value()) {
            let text = reversed(&value);
            prop_assert_eq!(written(&text, Layout::Line), value.to_string());
            let mut pretty = Vec::new();
            value.serialize(&mut Serializer::with_formatter(&mut pretty, PrettyFormatter::with_indent(b"    "))).unwrap();
            prop_assert_eq!(written(&text, Layout::Indented), String::from_utf8(pretty).unwrap());
        }
    }
}
