//! The type and value of a plain scalar.
//!
//! The order of the checks matters and is that of kubectl's reader: the words of YAML 1.1, then integers in Go's notation, then decimal
//! floats; everything else is text. Floats pass through JSON on the way, so `1.0` ends up as the integer 1.

use serde_json::{Number, Value};

/// The type a scalar resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Int,
    Float,
    Text,
}

/// A resolved scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond 63 bits.
    Unsigned(u64),
    Float(f64),
    Text,
}

impl Scalar {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) | Self::Unsigned(_) => Kind::Int,
            Self::Float(_) => Kind::Float,
            Self::Text => Kind::Text,
        }
    }

    /// The scalar as a value; `None` if JSON has no such number.
    pub(crate) fn into_value(self, text: &str) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Int(number) => Value::from(number),
            Self::Unsigned(number) => Value::Number(Number::from_f64(number as f64)?),
            Self::Float(number) => float(number)?,
            Self::Text => Value::String(text.to_owned()),
        })
    }
}

/// A float as JSON gives it back: without a fraction and in range it is an integer.
fn float(number: f64) -> Option<Value> {
    if number.fract() == 0.0 && number.abs() < 1e21 {
        // JSON shows the shortest digits, padded with zeros; the exact binary value may differ.
        if let Ok(whole) = format!("{number}").parse::<i64>() {
            return Some(Value::from(whole));
        }
    }
    Number::from_f64(number).map(Value::Number)
}

/// Resolves plain text.
pub(crate) fn resolve(text: &str) -> Scalar {
    let Some(first) = text.bytes().next() else {
        return Scalar::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => pointed(text),
        },
        b'+' | b'-' | b'0'..=b'9' => match text {
            "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
            _ if text.contains('_') => number(&text.replace('_', "")),
            _ => number(text),
        },
        _ => Scalar::Text,
    }
}

fn word(text: &str) -> Scalar {
    match text {
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        _ => Scalar::Text,
    }
}

/// A float that begins with its point: underscores may stand between digits only.
fn pointed(text: &str) -> Scalar {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separates = |at: usize| bytes[at] != b'_' || (digit(at.checked_sub(1)) && digit(Some(at + 1)));
    if (0..bytes.len()).all(separates) { decimal(&text.replace('_', "")) } else { Scalar::Text }
}

fn number(plain: &str) -> Scalar {
    integer(plain).or_else(|| signed_binary(plain)).unwrap_or_else(|| decimal(plain))
}

/// `0b-101`, which Go's library reads as a number.
fn signed_binary(plain: &str) -> Option<Scalar> {
    let digits = plain.strip_prefix("0b")?;
    digits.starts_with(['+', '-']).then(|| i64::from_str_radix(digits, 2).ok().map(Scalar::Int))?
}

/// Go's integer literals: 0x, 0o, 0b and the old leading zero.
fn integer(plain: &str) -> Option<Scalar> {
    let (negative, signed, digits) = match plain.as_bytes().first()? {
        b'-' => (true, true, &plain[1..]),
        b'+' => (false, true, &plain[1..]),
        _ => (false, false, plain),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match prefix.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return None;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(magnitude) if negative => 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Int),
        Ok(magnitude) => match i64::try_from(magnitude) {
            Ok(small) => Some(Scalar::Int(small)),
            Err(_) if signed => None,
            Err(_) => Some(Scalar::Unsigned(magnitude)),
        },
        Err(_) => None,
    }
}

/// A decimal float: sign, digits with one point, exponent; out of range it is text.
fn decimal(plain: &str) -> Scalar {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    if !mantissa_fits || !exponent_fits {
        return Scalar::Text;
    }
    match plain.parse::<f64>() {
        Ok(number) if number.is_finite() => Scalar::Float(number),
        _ => Scalar::Text,
    }
}

/// Returns whether the text is a date or a base-60 number in YAML 1.1, so that it must be quoted although it is read as text here.
pub(crate) fn is_ambiguous(text: &str) -> bool {
    is_base_60(text) || is_timestamp(text)
}

/// Returns whether the text is of the form `190:20:30.15`.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = whole.split(':');
    let first = parts.next().is_some_and(|part| part.starts_with(|letter: char| letter.is_ascii_digit()) && digits_or_underscores(part));
    let sixtieth = |part: &str| match part.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
        _ => false,
    };
    let rest: Vec<&str> = parts.collect();
    first && !rest.is_empty() && rest.iter().all(|part| sixtieth(part)) && digits_or_underscores(fraction)
}

fn digits_or_underscores(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// Returns whether the text is a time as Go's library reads it: `2001-01-01`, `2001-1-1 2:3:4.5`, `2001-01-01T02:03:04Z`.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return false };
    if year.len() != 4 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let (day, time) = match rest.find(|letter: char| !letter.is_ascii_digit()) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (Ok(year), Some(month), Some(day)) = (year.parse::<u32>(), short_number(month), short_number(day)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    if day == 0 || day > days {
        return false;
    }
    match time.as_bytes().first() {
        None => true,
        Some(b' ') => clock(time.get(1..).unwrap_or_default()).is_some_and(str::is_empty),
        Some(b'T' | b't') => clock(time.get(1..).unwrap_or_default()).is_some_and(is_zone),
        Some(_) => false,
    }
}

/// The rest after hours, minutes, seconds and parts of a second.
fn clock(text: &str) -> Option<&str> {
    let mut rest = text;
    for (limit, end) in [(24, ":"), (60, ":"), (60, "")] {
        let length = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if short_number(&rest[..length])? >= limit {
            return None;
        }
        rest = rest[length..].strip_prefix(end)?;
    }
    let Some(fraction) = rest.strip_prefix(['.', ',']) else { return Some(rest) };
    let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then(|| &fraction[length..])
}

fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else { return text == "Z" };
    let two = |part: &str| if part.len() == 2 { short_number(part) } else { None };
    offset
        .split_once(':')
        .is_some_and(|(hours, minutes)| two(hours).is_some_and(|hours| hours <= 24) && two(minutes).is_some_and(|minutes| minutes < 60))
}

/// A number of one or two digits.
fn short_number(text: &str) -> Option<u32> {
    if (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}
