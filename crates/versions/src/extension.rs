//! Ranges in the dialect of ClusterExtensions (OLM1-UPG-08 to OLM1-UPG-10): blank or comma is "and", `||` is "or", with `^`, `~`,
//! hyphens and wildcards; a pre-release matches only a comparator that names one, or `!=` a full version.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use mainstay_golang::quote;

use crate::{Error, Version};

const MAX_BYTES: usize = 512;
const MAX_GROUPS: usize = 32;

/// A range of versions in the dialect of ClusterExtensions.
#[derive(Clone, Debug)]
pub struct ExtensionRange {
    text: String,
    groups: Vec<Vec<Comparator>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The last number that is given; the ones after it are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    Nothing,
    Major,
    Minor,
    All,
}

#[derive(Clone, Debug)]
struct Comparator {
    operator: Operator,
    version: Version,
    given: Precision,
}

impl ExtensionRange {
    /// Reads a range, hyphens included.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_BYTES {
            return Err(Error(format!("constraint string is too long (max {MAX_BYTES} bytes)")));
        }
        let rewritten = rewrite_hyphens(text);
        let segments: Vec<&str> = rewritten.split("||").collect();
        if segments.len() > MAX_GROUPS {
            return Err(Error(format!("too many constraint groups (max {MAX_GROUPS})")));
        }
        let groups = segments.into_iter().map(group).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), groups })
    }

    /// Returns whether the version lies in the range.
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.iter().all(|comparator| comparator.holds(version)))
    }
}

impl Comparator {
    fn holds(&self, version: &Version) -> bool {
        let bound = &self.version;
        let wild = self.given != Precision::All;
        if version.is_prerelease() && !bound.is_prerelease() && (wild || self.operator != Operator::NotEqual) {
            return false;
        }
        let order = version.cmp_precedence(bound);
        match self.operator {
            Operator::Equal if wild => self.tilde(version, order),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => self.differs(version, order),
            Operator::Greater => match self.given {
                Precision::All => order.is_gt(),
                _ if version.major() != bound.major() => version.major() > bound.major(),
                Precision::Major => false,
                Precision::Minor => version.minor() > bound.minor(),
                Precision::Nothing => order.is_gt(),
            },
            Operator::Less => order.is_lt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::LessOrEqual if !wild => order.is_le(),
            Operator::LessOrEqual => {
                version.major() < bound.major()
                    || version.major() == bound.major() && (self.given == Precision::Major || version.minor() <= bound.minor())
            }
            Operator::Tilde => self.tilde(version, order),
            Operator::Caret => self.caret(version, order),
        }
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.version;
        match self.given {
            Precision::All => order.is_ne(),
            _ if version.major() != bound.major() => true,
            Precision::Major => false,
            _ if version.minor() != bound.minor() => true,
            Precision::Minor => (version.is_prerelease() || bound.is_prerelease()) && version.compare_prerelease(bound).is_ne(),
            // Without any number the bound is the full version 0.0.0.
            Precision::Nothing => version.patch() != bound.patch() || order.is_ne(),
        }
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.version;
        let zero = bound.major() == 0 && bound.minor() == 0 && bound.patch() == 0;
        order.is_ge()
            && (zero && matches!(self.given, Precision::All | Precision::Nothing)
                || version.major() == bound.major() && (version.minor() == bound.minor() || self.given == Precision::Major))
    }

    fn caret(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.version;
        if order.is_lt() {
            return false;
        }
        if bound.major() > 0 || self.given == Precision::Major {
            return version.major() == bound.major();
        }
        if version.major() > 0 {
            return false;
        }
        if bound.minor() > 0 || self.given == Precision::Minor {
            return version.minor() == bound.minor();
        }
        version.minor() == 0 && version.patch() == bound.patch()
    }
}

/// A position in a text that is read.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    rest: &'a str,
}

/// A version in its written form in a comparator.
struct Written<'a> {
    text: &'a str,
    numbers: [&'a str; 3],
    pre: &'a str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !accept(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn blanks(&mut self) -> bool {
        !self.take(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')).is_empty()
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn operator(&mut self) -> Operator {
        const OPERATORS: [(&str, Operator); 11] = [
            ("!=", Operator::NotEqual),
            (">=", Operator::GreaterOrEqual),
            ("=>", Operator::GreaterOrEqual),
            ("<=", Operator::LessOrEqual),
            ("=<", Operator::LessOrEqual),
            ("~>", Operator::Tilde),
            ("=", Operator::Equal),
            (">", Operator::Greater),
            ("<", Operator::Less),
            ("~", Operator::Tilde),
            ("^", Operator::Caret),
        ];
        OPERATORS.into_iter().find(|(token, _)| self.eat(token)).map_or(Operator::Equal, |(_, operator)| operator)
    }

    /// Reads dotted identifiers after a mark, if there is at least one.
    fn identifiers(&mut self, mark: &str) -> &'a str {
        let before = *self;
        let mut last = *self;
        let mut found = false;
        let mut lead = mark;
        while self.eat(lead) && !self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'-').is_empty() {
            found = true;
            last = *self;
            lead = ".";
        }
        *self = last;
        if found { &before.rest[mark.len()..before.rest.len() - self.rest.len()] } else { "" }
    }

    fn version(&mut self) -> Option<Written<'a>> {
        // The stray bar is upstream's; a number with a bar is refused later, with another text.
        let digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'*' | b'|');
        let before = *self;
        self.eat("v");
        let mut numbers = [""; 3];
        numbers[0] = self.take(digit);
        if numbers[0].is_empty() {
            *self = before;
            return None;
        }
        for number in &mut numbers[1..] {
            let mut ahead = *self;
            if !ahead.eat(".") {
                break;
            }
            let taken = ahead.take(digit);
            if taken.is_empty() {
                break;
            }
            *number = taken;
            *self = ahead;
        }
        let pre = self.identifiers("-");
        self.identifiers("+");
        Some(Written { text: &before.rest[..before.rest.len() - self.rest.len()], numbers, pre })
    }
}

/// Rewrites `a - b`, which means from a to b, both included.
fn rewrite_hyphens(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut cursor = Cursor { rest };
        let bounds = hyphen(&mut cursor);
        if let Some((low, high)) = bounds {
            // Writing to a string cannot fail.
            let _ = write!(out, ">= {low}, <= {high} ");
            rest = cursor.rest;
        } else {
            let mut letters = rest.chars();
            out.extend(letters.next());
            rest = letters.as_str();
        }
    }
    out
}

fn hyphen<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a str, &'a str)> {
    cursor.blanks();
    let low = cursor.version()?;
    if !(cursor.blanks() && cursor.eat("-") && cursor.blanks()) {
        return None;
    }
    let high = cursor.version()?;
    cursor.blanks();
    Some((low.text, high.text))
}

fn group(segment: &str) -> Result<Vec<Comparator>, Error> {
    let improper = || Error(format!("improper constraint: {}", quote(segment)));
    let mut cursor = Cursor { rest: segment };
    let mut written = Vec::new();
    cursor.blanks();
    loop {
        let operator = cursor.operator();
        cursor.blanks();
        written.push((operator, cursor.version().ok_or_else(improper)?));
        let blank = cursor.blanks();
        if cursor.rest.is_empty() {
            break;
        }
        if cursor.eat(",") {
            cursor.blanks();
        } else if !blank {
            return Err(improper());
        }
    }
    written.into_iter().map(|(operator, version)| comparator(operator, &version)).collect()
}

fn comparator(operator: Operator, written: &Written<'_>) -> Result<Comparator, Error> {
    let wild = |text: &str| matches!(text, "" | "x" | "X" | "*");
    let [major, minor, patch] = written.numbers;
    let given = if wild(major) {
        Precision::Nothing
    } else if wild(minor) {
        Precision::Major
    } else if wild(patch) {
        Precision::Minor
    } else {
        Precision::All
    };
    let number = |text: &str| match text.parse::<u64>() {
        Ok(number) if text == "0" || !text.starts_with('0') => Ok(number),
        _ => Err(Error("constraint parser error".into())),
    };
    let (major, minor, patch) = match given {
        Precision::Nothing => (0, 0, 0),
        Precision::Major => (number(major)?, 0, 0),
        Precision::Minor => (number(major)?, number(minor)?, 0),
        Precision::All => (number(major)?, number(minor)?, number(patch)?),
    };
    let version = Version::with_prerelease(major, minor, patch, written.pre).map_err(|_| Error("constraint parser error".into()))?;
    Ok(Comparator { operator, version, given })
}

impl fmt::Display for ExtensionRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for ExtensionRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}
