//! Output of values as kubectl and opm print them: block style, two blanks, list items level with their key, keys in their library's order.
//!
//! ```text
//!   scalar ── analyze ──┬─ plain          what every YAML 1.1 reader takes for that text again
//!                       ├─ 'single'       plain text but for an indicator
//!                       ├─ "double"       what cannot be printed, or would be something else than text
//!                       └─ | literal      several lines
//! ```
//!
//! The text is that of Go's library to the byte, so that files that people keep beside each other do not differ, and it reads back as the
//! same value. There are two exceptions, which would not read back: the line and paragraph separators of Unicode are escaped, and `<<`
//! is quoted.

use serde_json::{Map, Number, Value};

use crate::order;
use crate::resolve::{Scalar, is_ambiguous, resolve};

/// Longer keys need the explicit `? ` form, because readers look for the colon only up to a limit.
const SIMPLE_KEY: usize = 128;
/// This key is quoted, because in plain style it would be read as a merge.
const MERGE: &str = "<<";
/// Lines longer than this are broken at the next blank.
const WIDTH: usize = 80;

/// The habits of the library whose output is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Those of version 2, which kubectl uses: list items level with their key, long lines broken.
    Level,
    /// Those of version 3 with an indentation of two: list items below their key, no line broken.
    Below,
}

/// One document, with a line end after the last line.
pub fn to_string(value: &Value) -> String {
    to_string_as(value, Layout::Level)
}

/// One document in another layout, with a line end after the last line.
pub fn to_string_as(value: &Value, layout: Layout) -> String {
    let mut out = String::new();
    document(&mut out, value, layout);
    out
}

/// Several documents, each but the first after a line `---`.
pub fn to_multi_string(values: &[Value]) -> String {
    let mut out = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        document(&mut out, value, Layout::Level);
    }
    out
}

fn document(out: &mut String, value: &Value, layout: Layout) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(out, map, Depth { levels: 0, layout }, false),
        Value::Array(items) if !items.is_empty() => sequence(out, items, Depth { levels: 0, layout }, false),
        other => inline(out, other, Depth { levels: 0, layout }),
    }
}

/// An indentation, and the layout.
#[derive(Clone, Copy)]
struct Depth {
    levels: usize,
    layout: Layout,
}

impl Depth {
    fn deeper(self) -> Self {
        Self { levels: self.levels + 1, ..self }
    }
}

fn indent(out: &mut String, depth: Depth) {
    for _ in 0..depth.levels {
        out.push_str("  ");
    }
}

/// Writes a mapping; `inside` is true if the first line's indentation is already written (after `- `).
fn mapping(out: &mut String, map: &Map<String, Value>, depth: Depth, mut inside: bool) {
    for (name, value) in order::sorted(map) {
        if !std::mem::take(&mut inside) {
            indent(out, depth);
        }
        if name.contains(is_break) || name.len() > SIMPLE_KEY {
            explicit(out, name, value, depth);
            continue;
        }
        text(out, name, Place::Key, depth);
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                mapping(out, map, depth.deeper(), false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                let depth = if depth.layout == Layout::Below { depth.deeper() } else { depth };
                sequence(out, items, depth, false);
            }
            other => {
                out.push(' ');
                inline(out, other, depth.deeper());
            }
        }
    }
}

/// Writes a key that is too long or has several lines: it and its value stand behind indicators of their own.
fn explicit(out: &mut String, name: &str, value: &Value, depth: Depth) {
    out.push_str("? ");
    text(out, name, Place::Value, depth.deeper());
    if !out.ends_with('\n') {
        out.push('\n');
    }
    indent(out, depth);
    out.push_str(": ");
    item(out, value, depth);
}

fn sequence(out: &mut String, items: &[Value], depth: Depth, mut inside: bool) {
    for value in items {
        if !std::mem::take(&mut inside) {
            indent(out, depth);
        }
        out.push_str("- ");
        item(out, value, depth);
    }
}

/// Writes a value behind an indicator and a blank.
fn item(out: &mut String, value: &Value, depth: Depth) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(out, map, depth.deeper(), true),
        Value::Array(items) if !items.is_empty() => sequence(out, items, depth.deeper(), true),
        other => inline(out, other, depth.deeper()),
    }
}

/// Writes a scalar or an empty collection, to the end of its line; `depth` is that of a block's content.
fn inline(out: &mut String, value: &Value, depth: Depth) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
        Value::String(string) => {
            text(out, string, Place::Value, depth);
            if out.ends_with('\n') && string.contains('\n') {
                return;
            }
        }
    }
    out.push('\n');
}

fn number_text(number: &Number) -> String {
    let text = number.to_string();
    match number.as_f64() {
        // It reads back as an integer, which has no sign.
        Some(0.0) => "0".to_owned(),
        // serde_json prints the shortest digits and, of two, the even one, as Go does; the standard library does not.
        Some(float) if number.is_f64() => float_text(&scientific(&text), || format!("{float}")),
        _ => text,
    }
}

/// Rewrites `-12.5` as `-1.25e1`.
fn scientific(text: &str) -> String {
    let (sign, unsigned) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    // The exponent of a number that serde_json wrote fits.
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let power = exponent + whole.len() as i32 - 1 - (digits.len() - significant.len()) as i32;
    let significant = significant.trim_end_matches('0');
    match significant.split_at_checked(1) {
        None => format!("{sign}0e0"),
        Some((first, "")) => format!("{sign}{first}e{power}"),
        Some((first, rest)) => format!("{sign}{first}.{rest}e{power}"),
    }
}

/// Rewrites a float from scientific notation into Go's shortest: with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn float_text(scientific: &str, plain: impl FnOnce() -> String) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return plain() };
    match exponent.parse::<i32>() {
        Ok(power) if (-4..6).contains(&power) => plain(),
        Ok(power) => format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
        Err(_) => plain(),
    }
}

/// The place of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// As a key before a colon.
    Key,
    /// Anywhere else.
    Value,
}

/// Writes a text in the style that fits it. Only a literal ends with its own line end.
fn text(out: &mut String, text: &str, place: Place, depth: Depth) {
    let found = Analysis::of(text);
    if text.contains('\n') {
        return match (found.literal, place) {
            (true, Place::Value) => literal(out, text, depth),
            _ => double_quoted(&mut Line::new(out, place, depth), text),
        };
    }
    let mut line = Line::new(out, place, depth);
    if resolve(text) != Scalar::Text || is_ambiguous(text) {
        double_quoted(&mut line, text);
    } else if found.plain {
        plain(&mut line, text);
    } else if found.single {
        single_quoted(&mut line, text);
    } else {
        double_quoted(&mut line, text);
    }
}

/// A line that is being written, and is broken at blanks when it gets long. A key's line is not broken.
struct Line<'o> {
    out: &'o mut String,
    column: usize,
    place: Place,
    depth: Depth,
}

impl<'o> Line<'o> {
    fn new(out: &'o mut String, place: Place, depth: Depth) -> Self {
        let column = out[out.rfind('\n').map_or(0, |at| at + 1)..].chars().count();
        Self { out, column, place, depth: at_least_one(depth) }
    }

    fn push(&mut self, letter: char) {
        self.out.push(letter);
        self.column += 1;
    }

    fn push_str(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn is_full(&self) -> bool {
        self.place == Place::Value && self.column > WIDTH && self.depth.layout == Layout::Level
    }

    fn break_here(&mut self) {
        self.out.push('\n');
        indent(self.out, self.depth);
        self.column = self.depth.levels * 2;
    }
}

/// Content inside a document is indented at least once.
fn at_least_one(depth: Depth) -> Depth {
    Depth { levels: depth.levels.max(1), ..depth }
}

fn plain(line: &mut Line<'_>, text: &str) {
    let mut after_space = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ' ' && !after_space && line.is_full() && letters.peek() != Some(&' ') {
            line.break_here();
        } else {
            line.push(letter);
        }
        after_space = letter == ' ';
    }
}

fn single_quoted(line: &mut Line<'_>, text: &str) {
    line.push('\'');
    let mut after_space = false;
    let mut letters = text.chars().enumerate().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        if letter == ' ' && !after_space && line.is_full() && at > 0 && next.is_some_and(|next| next != ' ') {
            line.break_here();
        } else {
            if letter == '\'' {
                line.push('\'');
            }
            line.push(letter);
        }
        after_space = letter == ' ';
    }
    line.push('\'');
}

/// The styles that can express a text.
struct Analysis {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Analysis {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut space_before_break, mut blank_before) = (false, false, true);
        let mut letters = text.chars().peekable();
        let mut first = true;
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied();
            let blank_after = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match letter {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if first => true,
                '?' | '-' if first => blank_after,
                ':' => blank_after,
                '#' => blank_before,
                _ => false,
            };
            special |= !is_printable(letter);
            space_before_break |= letter == ' ' && next == Some('\n');
            blank_before = matches!(letter, ' ' | '\t' | '\n');
            first = false;
        }
        let ends_in_space = text.ends_with(' ');
        let edges = text.starts_with(' ') || ends_in_space;
        let quotable = !special && !space_before_break;
        Self {
            plain: quotable && !edges && !indicators && !text.is_empty() && text != MERGE,
            single: quotable,
            literal: quotable && !ends_in_space,
        }
    }
}

fn literal(out: &mut String, text: &str, depth: Depth) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = text.trim_end_matches('\n');
    let ends = text.len() - body.len();
    match ends {
        0 => out.push('-'),
        1 if !body.is_empty() => {}
        _ => out.push('+'),
    }
    out.push('\n');
    // The indicator counts from the parent's indentation; the root has none.
    let depth = at_least_one(depth);
    if body.is_empty() {
        out.push_str(&"\n".repeat(ends));
        return;
    }
    for line in body.split('\n') {
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
        out.push('\n');
    }
    for _ in 1..ends {
        out.push('\n');
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether Go's library prints a character as it is. Above the basic plane it escapes all.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && !matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn double_quoted(line: &mut Line<'_>, text: &str) {
    line.push('"');
    // After a byte order mark the library escapes everything.
    let marked = text.starts_with('\u{feff}');
    let mut after_space = false;
    let mut letters = text.chars().enumerate().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == ' ' && !marked {
            let next = letters.peek().map(|(_, next)| *next);
            if !after_space && line.is_full() && at > 0 && next.is_some() {
                line.break_here();
                if next == Some(' ') {
                    line.push('\\');
                }
            } else {
                line.push(' ');
            }
            after_space = true;
            continue;
        }
        after_space = false;
        if let Some(short) = short_escape(letter) {
            line.push('\\');
            line.push(short);
        } else if is_printable(letter) && !marked {
            line.push(letter);
        } else if letter == '\u{a0}' {
            line.push_str("\\_");
        } else {
            let code = u32::from(letter);
            line.push_str(&match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    }
    line.push('"');
}

/// The letter that stands for a character after a backslash.
fn short_escape(letter: char) -> Option<char> {
    Some(match letter {
        '"' | '\\' => letter,
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => return None,
    })
}
