//! Ranges in the dialect of catalogs: a blank is "and", `||` is "or", `x` is a wildcard, pre-releases compare like any version
//! (OLM0-RES-08, OLM1-UPG-07).
//!
//! The reader splits at blanks except after `<`, `>` and `=`, and drops single characters. Published ranges depend on these habits,
//! so they are kept.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use mainstay_golang::quote;

use crate::{Error, Version};

/// The longest range that is read.
const MAX_BYTES: usize = 4096;

/// A range of versions in the dialect of catalogs.
#[derive(Clone, Debug)]
pub struct CatalogRange {
    text: String,
    /// Alternatives of comparators that must all hold.
    groups: Vec<Vec<(Operator, Version)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Operator {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" | "==" => Self::Equal,
            "!" | "!=" => Self::NotEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            _ => return None,
        })
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

impl CatalogRange {
    /// Reads a range.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_BYTES {
            return Err(Error(format!("range is longer than {MAX_BYTES} bytes")));
        }
        let mut groups = Vec::new();
        for group in alternatives(&split(text))? {
            let mut comparators = Vec::new();
            for part in group {
                expand(&part, &mut comparators)?;
            }
            groups.push(comparators);
        }
        let groups =
            groups.into_iter().map(|group| group.iter().map(|part| comparator(part)).collect()).collect::<Result<Vec<Vec<_>>, _>>()?;
        if groups.iter().any(Vec::is_empty) {
            return Err(Error("Empty element between '||' in range".into()));
        }
        Ok(Self { text: text.to_owned(), groups })
    }

    /// The version at which the range ends inside of a major version; `None` if it has no upper end, or ends before a new major version.
    pub fn narrow_end(&self) -> Option<&Version> {
        let mut highest: Option<(&Version, bool)> = None;
        for group in &self.groups {
            let (bound, inclusive) = upper_bound(group)?;
            if highest.is_none_or(|(end, known)| end.cmp_precedence(bound).then(known.cmp(&inclusive)).is_lt()) {
                highest = Some((bound, inclusive));
            }
        }
        let (end, inclusive) = highest?;
        (inclusive || end.minor() != 0 || end.patch() != 0).then_some(end)
    }

    /// Returns whether the version lies in the range.
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.iter().all(|(operator, bound)| operator.holds(version.cmp_precedence(bound))))
    }
}

/// The lowest upper bound of comparators that must all hold, and whether it is inclusive.
fn upper_bound(group: &[(Operator, Version)]) -> Option<(&Version, bool)> {
    let bounds = group.iter().filter_map(|(operator, bound)| match operator {
        Operator::Less => Some((bound, false)),
        Operator::LessOrEqual | Operator::Equal => Some((bound, true)),
        Operator::NotEqual | Operator::Greater | Operator::GreaterOrEqual => None,
    });
    bounds.min_by(|a, b| a.0.cmp_precedence(b.0).then(a.1.cmp(&b.1)))
}

/// Splits at blanks, but not after an operator's last character; pieces of one character are dropped.
fn split(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let (mut start, mut before) = (0, 0_u8);
    for (index, &byte) in bytes.iter().enumerate() {
        if byte == b' ' && !matches!(before, b'>' | b'<' | b'=') {
            if start + 1 < index {
                parts.push(&text[start..index]);
            }
            start = index + 1;
        } else if byte != b' ' {
            before = byte;
        }
    }
    if start + 1 < text.len() {
        parts.push(&text[start..]);
    }
    parts.into_iter().map(|part| part.replace(' ', "")).collect()
}

fn alternatives(parts: &[String]) -> Result<Vec<Vec<String>>, Error> {
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if part == "||" {
            if index == 0 {
                return Err(Error("First element in range is '||'".into()));
            }
            groups.push(std::mem::take(&mut group));
        } else {
            group.push(part.clone());
        }
    }
    if parts.last().is_none_or(|last| last == "||") {
        return Err(Error("Last element in range is '||'".into()));
    }
    groups.push(group);
    Ok(groups)
}

fn operator_and_version(part: &str) -> Result<(&str, &str), Error> {
    match part.find(|letter: char| letter.is_ascii_digit()) {
        Some(at) => Ok((part[..at].trim(), &part[at..])),
        None => Err(Error(format!("Could not get version from string: {}", quote(part)))),
    }
}

/// Replaces a wildcard by one or two comparators without wildcards.
fn expand(part: &str, out: &mut Vec<String>) -> Result<(), Error> {
    if !part.contains('x') {
        out.push(part.to_owned());
        return Ok(());
    }
    let (operator, version) = operator_and_version(part)?;
    let flat = {
        let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
        if flat.split('.').count() == 2 { format!("{flat}.0") } else { flat }
    };
    // The first version above everything that the wildcard stands for. Unless the last number is a wildcard, there is no such version, and
    // the comparator is refused below for having none.
    let beyond = || {
        let mut numbers: Vec<String> = flat.split('.').map(str::to_owned).collect();
        let raised = match (version.split('.').next_back(), version.split('.').count()) {
            (Some("x"), 3) => 1,
            (Some("x"), 2) => 0,
            _ => return String::new(),
        };
        match numbers.get(raised).and_then(|number| number.parse::<u64>().ok()).and_then(|number| number.checked_add(1)) {
            Some(number) => {
                numbers[raised] = number.to_string();
                numbers.join(".")
            }
            None => String::new(),
        }
    };
    let last = match operator {
        ">" => format!(">={}", beyond()),
        ">=" => format!(">={flat}"),
        "<" => format!("<{flat}"),
        "<=" => format!("<{}", beyond()),
        "" | "=" | "==" => {
            out.push(format!(">={flat}"));
            format!("<{}", beyond())
        }
        "!" | "!=" => {
            out.push(format!("<{flat}"));
            format!(">={}", beyond())
        }
        _ => flat,
    };
    out.push(last);
    Ok(())
}

fn comparator(part: &str) -> Result<(Operator, Version), Error> {
    let (operator, version) = operator_and_version(part)?;
    let problem = match (Operator::parse(operator), Version::parse(version)) {
        (Some(operator), Ok(version)) => return Ok((operator, version)),
        (None, _) => format!("Could not parse comparator {} in {}", quote(operator), quote(part)),
        (Some(_), Err(error)) => format!("Could not parse version {} in {}: {error}", quote(version), quote(part)),
    };
    Err(Error(format!("Could not parse Range {}: {problem}", quote(part))))
}

impl fmt::Display for CatalogRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for CatalogRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}
