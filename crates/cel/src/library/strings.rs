//! Functions on text. Positions count characters.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::error::EvalError;
use crate::value::{List, Value};

/// Longer results are refused: expressions may double a text at every step.
const MAX_BYTES: usize = 10 << 20;

pub(crate) fn limited(text: String) -> Result<Value, EvalError> {
    if text.len() > MAX_BYTES {
        return Err(EvalError::new("string is too long"));
    }
    Ok(Value::text(text))
}

fn position(at: i64, length: usize) -> Result<usize, EvalError> {
    match usize::try_from(at) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(EvalError::new(format!("index out of range: {at}"))),
    }
}

pub(crate) fn char_at(text: &str, at: i64) -> Result<Value, EvalError> {
    let at = position(at, text.chars().count())?;
    Ok(Value::text(text.chars().nth(at).map(String::from).unwrap_or_default()))
}

pub(crate) fn substring(text: &str, start: i64, end: Option<i64>) -> Result<Value, EvalError> {
    let length = text.chars().count();
    let start = position(start, length)?;
    let end = end.map_or(Ok(length), |end| position(end, length))?;
    if start > end {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    Ok(Value::text(text.chars().skip(start).take(end - start).collect::<String>()))
}

pub(crate) fn index_of(text: &str, part: &str, from: i64) -> Result<Value, EvalError> {
    let letters: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    if from > letters.len() as i64 {
        return Ok(Value::Int(-1));
    }
    let from = position(from, letters.len())?;
    let found = (from..=letters.len().saturating_sub(part.len())).find(|at| letters[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

pub(crate) fn last_index_of(text: &str, part: &str, until: Option<i64>) -> Result<Value, EvalError> {
    let letters: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let until = until.map_or(Ok(letters.len()), |until| position(until, letters.len()))?;
    if part.len() > letters.len() {
        return Ok(Value::Int(-1));
    }
    let last = until.min(letters.len() - part.len());
    let found = (0..=last).rev().find(|at| letters[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

pub(crate) fn replace(text: &str, old: &str, new: &str, count: i64) -> Result<Value, EvalError> {
    // The result's size is known beforehand; refuse before building it.
    let places = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    let places = usize::try_from(count).map_or(places, |count| count.min(places));
    if text.len() + places * new.len() > MAX_BYTES {
        return Err(EvalError::new("string is too long"));
    }
    limited(text.replacen(old, new, places))
}

pub(crate) fn split(text: &str, separator: &str, count: i64) -> Value {
    let parts: Vec<&str> = match (usize::try_from(count), separator) {
        (Ok(0), _) => Vec::new(),
        (Ok(1), _) => vec![text],
        (limit, "") => {
            let mut parts: Vec<&str> = Vec::new();
            let mut rest = text;
            while let Some(first) = rest.chars().next() {
                if limit.is_ok_and(|limit| parts.len() + 1 == limit) {
                    parts.push(rest);
                    break;
                }
                let (letter, after) = rest.split_at(first.len_utf8());
                parts.push(letter);
                rest = after;
            }
            parts
        }
        (Ok(limit), separator) => text.splitn(limit, separator).collect(),
        (Err(_), separator) => text.split(separator).collect(),
    };
    Value::list(parts.into_iter().map(Value::text).collect())
}

pub(crate) fn join(list: &List, separator: &str) -> Result<Value, EvalError> {
    let mut out = String::new();
    for (index, item) in list.items.iter().enumerate() {
        let Value::Text(text) = item else { return Err(EvalError::overload()) };
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
        if out.len() > MAX_BYTES {
            return Err(EvalError::new("string is too long"));
        }
    }
    Ok(Value::text(out))
}

pub(crate) fn quote(text: &str) -> Value {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            letter => out.push(letter),
        }
    }
    out.push('"');
    Value::text(out)
}

/// `'%s is %d'.format([a, b])`
pub(crate) fn format(pattern: &str, arguments: &List) -> Result<Value, EvalError> {
    let mut out = String::new();
    let mut arguments = arguments.items.iter();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let number = digits.parse::<usize>().ok().filter(|number| *number <= 1000);
            precision = Some(number.ok_or_else(|| EvalError::new("error while formatting: invalid precision"))?);
        }
        let verb = letters.next().ok_or_else(|| EvalError::new("error while formatting: unexpected end of string"))?;
        let argument = arguments.next().ok_or_else(|| EvalError::new("error while formatting: index out of range"))?;
        directive(&mut out, verb, precision, argument)?;
        if out.len() > MAX_BYTES {
            return Err(EvalError::new("string is too long"));
        }
    }
    limited(out)
}

fn directive(out: &mut String, verb: char, precision: Option<usize>, argument: &Value) -> Result<(), EvalError> {
    let wrong = || {
        let wanted = match verb {
            'd' => "decimal clause can only be used on integers",
            'f' => "fixed-point clause can only be used on doubles",
            'e' => "scientific clause can only be used on doubles",
            'b' => "binary clause can only be used on integers and bools",
            'o' => "octal clause can only be used on integers",
            'x' | 'X' => "hex clause can only be used on integers, byte buffers, and strings",
            other => return EvalError::new(format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"")),
        };
        EvalError::new(format!("error during formatting: {wanted}, was given {}", argument.type_name()))
    };
    // Writing to a string cannot fail.
    let _ = match (verb, argument) {
        ('s', value) => out.write_str(&show(value)),
        ('d', Value::Int(number)) => write!(out, "{number}"),
        ('d', Value::Uint(number)) => write!(out, "{number}"),
        ('b', Value::Int(number)) => write!(out, "{}{:b}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('b', Value::Uint(number)) => write!(out, "{number:b}"),
        ('b', Value::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('o', Value::Int(number)) => write!(out, "{}{:o}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('o', Value::Uint(number)) => write!(out, "{number:o}"),
        ('x', Value::Int(number)) => write!(out, "{}{:x}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('X', Value::Int(number)) => write!(out, "{}{:X}", if *number < 0 { "-" } else { "" }, number.unsigned_abs()),
        ('x', Value::Uint(number)) => write!(out, "{number:x}"),
        ('X', Value::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', Value::Text(text)) => hex(out, text.as_bytes(), verb),
        ('x' | 'X', Value::Bytes(bytes)) => hex(out, bytes, verb),
        ('f', Value::Double(number)) => write!(out, "{number:.*}", precision.unwrap_or(6)),
        ('e', Value::Double(number)) => {
            // Upstream's notation of exponents knows no other precision.
            let text = format!("{number:.6e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            out.write_str(mantissa).and_then(|()| out.write_str(&power_of_ten(exponent)))
        }
        _ => return Err(wrong()),
    };
    Ok(())
}

fn hex(out: &mut String, bytes: &[u8], verb: char) -> std::fmt::Result {
    for byte in bytes {
        if verb == 'x' { write!(out, "{byte:02x}")? } else { write!(out, "{byte:02X}")? }
    }
    Ok(())
}

/// `×10⁰³`: that is how upstream writes exponents.
fn power_of_ten(exponent: &str) -> String {
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised = format!("{digits:0>2}");
    let raised = raised.bytes().filter_map(|digit| ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'].get(usize::from(digit - b'0')));
    format!("×10{sign}{}", raised.collect::<String>())
}

/// A value as `%s` shows it.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::List(_) | Value::Map(_) => show_inner(value),
        Value::Type(name) => (*name).into(),
        other => match crate::functions::to_text(other) {
            Ok(Value::Text(text)) => text.to_string(),
            _ => other.type_name().to_owned(),
        },
    }
}

/// A value within another: texts in quotes, so that lists and maps can be told apart from them.
fn show_inner(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{text}\""),
        Value::Bytes(bytes) => format!("b\"{}\"", String::from_utf8_lossy(bytes)),
        Value::Double(number) => format!("{number:.6}"),
        Value::Duration(_) | Value::Timestamp(_) => {
            let kind = if matches!(value, Value::Duration(_)) { "duration" } else { "timestamp" };
            format!("{kind}(\"{}\")", show(value))
        }
        Value::List(list) => format!("[{}]", list.items.iter().map(show_inner).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", show_inner(&key.value()), show_inner(value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => show(other),
    }
}

pub(crate) fn find(text: &str, pattern: &str) -> Result<Value, EvalError> {
    let regex = super::regex_of(pattern).map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

pub(crate) fn find_all(text: &str, pattern: &str, count: i64) -> Result<Value, EvalError> {
    let regex = super::regex_of(pattern).map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Value::list(regex.find_iter(text).take(limit).map(|found| Value::Text(Arc::from(found.as_str()))).collect()))
}
