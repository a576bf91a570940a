//! YAML into structs by the rules of `yaml.v3`.

use std::collections::BTreeMap;

use mainstay_golang::quote;
use mainstay_yaml::{Marked, Shape};

use super::report::key_text;
use crate::data::{Data, Struct};
use crate::model::{Kind, Type};

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Time,
    Text,
}

impl Scalar {
    fn of(text: &str, plain: bool) -> Self {
        if !plain {
            return Scalar::Text;
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
            "true" | "True" | "TRUE" => return Scalar::Bool(true),
            "false" | "False" | "FALSE" => return Scalar::Bool(false),
            ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" => {
                return Scalar::Float(f64::NAN);
            }
            _ => {}
        }
        if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
            return Scalar::Text;
        }
        if is_time(text) {
            return Scalar::Time;
        }
        number(&text.replace('_', ""))
    }

    fn tag(self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Unsigned(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Time => "!!timestamp",
            Scalar::Text => "!!str",
        }
    }
}

fn number(plain: &str) -> Scalar {
    let (sign, digits) = match plain.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => (sign, rest),
        _ => ("", plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.split_at_checked(2) {
        Some(("0x", rest)) => (16, rest),
        Some(("0o", rest)) => (8, rest),
        Some(("0b", rest)) => (2, rest),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        if let Ok(number) = i64::from_str_radix(&format!("{}{digits}", if sign == "-" { "-" } else { "" }), radix) {
            return Scalar::Int(number);
        }
        if sign.is_empty()
            && let Ok(number) = u64::from_str_radix(digits, radix)
        {
            return Scalar::Unsigned(number);
        }
    }
    let is_decimal = {
        let rest = plain.trim_start_matches(['+', '-']);
        let (mantissa, exponent) = rest.split_once(['e', 'E']).map_or((rest, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
        let fits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent_fits = exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !digits.is_empty() && fits(digits)
        });
        plain.len() - rest.len() <= 1 && fits(whole) && fits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
    };
    match plain.parse() {
        Ok(number) if is_decimal => Scalar::Float(number),
        _ => Scalar::Text,
    }
}

/// Returns whether a text is a date, with or without a time.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let year = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if year != 4 || bytes.get(4) != Some(&b'-') {
        return false;
    }
    let parts: Vec<&str> = text.split(['-', 'T', 't', ' ']).collect();
    let in_range = |text: &str, range: std::ops::RangeInclusive<u32>| {
        matches!(text.len(), 1 | 2) && text.parse().is_ok_and(|number| range.contains(&number))
    };
    parts.len() >= 3 && in_range(parts[1], 1..=12) && in_range(parts[2], 1..=31) && (parts.len() == 3 || parts[3].contains(':'))
}

/// Variant and version of a config; or the words about why it has none.
pub(super) fn variant_and_version(tree: &Marked) -> Result<(String, String), Mistakes> {
    let mut decoder = Decoder::default();
    let Shape::Mapping(members) = &tree.shape else {
        if is_null(tree) {
            return Ok((String::new(), String::new()));
        }
        decoder.wrong(tree, "config.commonFields");
        return Err(decoder.into_error());
    };
    decoder.repeated(members);
    let mut found = [String::new(), String::new()];
    for (key, value) in members {
        let index = match key_text(key) {
            Some("variant") => 0,
            Some("version") => 1,
            _ => continue,
        };
        let mut data = Data::Text(String::new());
        decoder.value(&mut data, &Kind::Text(None), value);
        if let Data::Text(text) = data {
            found[index] = text;
        }
    }
    let [variant, version] = found;
    if decoder.mistakes.is_empty() { Ok((variant, version)) } else { Err(decoder.into_error()) }
}

/// A config's values; or the words about those of wrong types.
pub(super) fn config(tree: &Marked, of: &'static Type) -> Result<Struct, Mistakes> {
    let mut decoder = Decoder::default();
    let mut data = Data::Struct(Struct::new(of));
    decoder.value(&mut data, &Kind::Struct(of), tree);
    match data {
        Data::Struct(config) if decoder.mistakes.is_empty() => Ok(config),
        _ => Err(decoder.into_error()),
    }
}

fn is_null(node: &Marked) -> bool {
    matches!(&node.shape, Shape::Scalar { text, plain } if Scalar::of(text, *plain) == Scalar::Null)
}

/// Values of wrong types, and keys that stand twice.
#[derive(Debug, thiserror::Error)]
#[error("yaml: unmarshal errors:\n  {}", .0.join("\n  "))]
pub(super) struct Mistakes(Vec<String>);

#[derive(Default)]
struct Decoder {
    mistakes: Vec<String>,
}

impl Decoder {
    fn into_error(self) -> Mistakes {
        Mistakes(self.mistakes)
    }

    fn wrong(&mut self, node: &Marked, wanted: &str) {
        let (tag, shown) = match &node.shape {
            Shape::Scalar { text, plain } => {
                let text = if text.len() > 10 {
                    // Upstream cuts bytes, not letters.
                    format!("{}...", String::from_utf8_lossy(&text.as_bytes()[..7]))
                } else {
                    text.clone()
                };
                (Scalar::of(&text_of(node), *plain).tag(), format!(" `{text}`"))
            }
            Shape::Sequence(_) => ("!!seq", String::new()),
            Shape::Mapping(_) => ("!!map", String::new()),
            Shape::Alias(inner) => return self.wrong(inner, wanted),
        };
        self.mistakes.push(format!("line {}: cannot unmarshal {tag}{shown} into {wanted}", node.line));
    }

    /// Complains about keys that stand twice.
    fn repeated(&mut self, members: &[(Marked, Marked)]) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, _) in members {
            let Some(text) = key_text(key) else { continue };
            if let Some(line) = seen.get(text) {
                self.mistakes.push(format!("line {}: mapping key {} already defined at line {line}", key.line, quote(text)));
            } else {
                seen.insert(text, key.line);
            }
        }
    }

    fn value(&mut self, slot: &mut Data, kind: &Kind, node: &Marked) {
        if let Shape::Alias(inner) = &node.shape {
            return self.value(slot, kind, inner);
        }
        if is_null(node) {
            if matches!(kind, Kind::Optional(_) | Kind::List(..) | Kind::Texts) {
                *slot = Data::Absent;
            }
            return;
        }
        match (kind, &node.shape) {
            (Kind::Optional(inner), _) => {
                if *slot == Data::Absent {
                    *slot = Data::zero(inner);
                }
                self.value(slot, inner, node);
            }
            (Kind::Struct(of), Shape::Mapping(members)) => {
                self.repeated(members);
                if let Data::Struct(value) = slot {
                    self.members(value, of, members);
                }
            }
            (Kind::List(_, item), Shape::Sequence(nodes)) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes {
                    let before = self.mistakes.len();
                    let mut value = Data::zero(item);
                    self.value(&mut value, item, node);
                    if self.mistakes.len() == before {
                        items.push(value);
                    }
                }
                *slot = Data::List(items);
            }
            (Kind::Texts, Shape::Mapping(members)) => {
                self.repeated(members);
                let mut texts = BTreeMap::new();
                for (key, value) in members {
                    let mut text = Data::Text(String::new());
                    self.value(&mut text, &Kind::Text(None), value);
                    if let (Some(key), Data::Text(text)) = (key_text(key), text) {
                        texts.insert(key.to_owned(), text);
                    }
                }
                *slot = Data::Texts(texts);
            }
            (Kind::Text(_), Shape::Scalar { text, .. }) => *slot = Data::Text(text.clone()),
            (Kind::Int, Shape::Scalar { text, plain }) => match Scalar::of(text, *plain) {
                Scalar::Int(number) => *slot = Data::Int(number),
                Scalar::Float(number) if number.is_finite() && number.abs() < 9.2e18 => *slot = Data::Int(number as i64),
                _ => self.wrong(node, "int"),
            },
            (Kind::Bool, Shape::Scalar { text, plain }) => match (Scalar::of(text, *plain), text.as_str()) {
                (Scalar::Bool(set), _) => *slot = Data::Bool(set),
                (Scalar::Text, "y" | "Y" | "yes" | "on") => *slot = Data::Bool(true),
                (Scalar::Text, "n" | "N" | "no" | "off") => *slot = Data::Bool(false),
                _ => self.wrong(node, "bool"),
            },
            (kind, _) => self.wrong(node, &kind.go_name()),
        }
    }

    fn members(&mut self, value: &mut Struct, of: &'static Type, members: &[(Marked, Marked)]) {
        for (key, node) in members {
            let Some(index) = key_text(key).and_then(|key| of.index(key)) else { continue };
            self.value(value.at_mut(index), &of.fields[index].kind, node);
        }
    }
}

fn text_of(node: &Marked) -> String {
    match &node.shape {
        Shape::Scalar { text, .. } => text.clone(),
        _ => String::new(),
    }
}
