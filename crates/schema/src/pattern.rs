//! Regular expressions as Kubernetes reads them: RE2 syntax with Go's meaning (KAPI-CRD-02).
//!
//! Schemas are written for Go's `regexp`. Rust's `regex` is close, but `\d`, `\w`, `\s` and `\b` mean Unicode there, a `{` that begins no
//! repetition is an error, and sets know operators (`&&`, `--`, nesting). [`Pattern::compile`] rewrites the expression, refuses what Go refuses
//! with Go's words, and keeps what was compiled, since a schema asks the same few expressions again and again. The cost of an expression is
//! known before it is compiled ([`Pattern::check`]).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex};

use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// Why an expression cannot be compiled, in Go's words: ``error parsing regexp: missing closing ): `(` ``.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPattern(String);

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern(Arc<Regex>);

impl Pattern {
    /// Compiles an expression, or finds it among those compiled before. The error is Go's: ``error parsing regexp: missing closing ): `(` ``.
    pub fn compile(expression: &str) -> Result<Self, InvalidPattern> {
        if let Ok(mut cache) = CACHE.lock()
            && let Some(known) = cache.get(expression)
        {
            return known;
        }
        let compiled = compile(expression);
        if let Ok(mut cache) = CACHE.lock() {
            cache.insert(expression, compiled.clone());
        }
        compiled.result
    }

    /// The cost of compiling an expression, in byte sequences that its compiled form tells apart, without compiling it. Errors are those of
    /// [`Pattern::compile`]: what passes here is compiled.
    pub fn check(expression: &str) -> Result<u64, InvalidPattern> {
        parse(expression).map(|(_, cost)| cost).map_err(|problem| refused(&problem))
    }

    /// Returns true if the expression matches anywhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The highest cost of an expression: that of the largest format of Kubernetes (`hostname`), and a little. A unit takes about a microsecond and up to
/// [`BYTES`] bytes.
const COST: u64 = 250_000;
/// The most bytes that a unit of cost takes if there are many of them: measured with sets of letters, which are large, and with literals.
const BYTES: usize = 80;
/// The bytes that the compiled form of the smallest expression may take.
const SMALL: usize = 32 << 10;
/// Sizes that a compiled expression may have, in bytes, from the smallest on that may do: its true size is not told.
const SIZES: [usize; 6] = [SMALL, 256 << 10, 2 << 20, 8 << 20, 16 << 20, 32 << 20];
/// The bytes that matching may keep beside the compiled form.
const STATES: usize = 32 << 10;
/// The most that compiled expressions may take that are used now; as much again were used before.
const CACHE_BYTES: usize = 40 << 20;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Default::default);

/// The result of compiling an expression, and the memory that it takes.
#[derive(Clone)]
struct Compiled {
    result: Result<Pattern, InvalidPattern>,
    bytes: usize,
}

/// Expressions that were compiled, in two generations: when the newer one is full, the older one goes, and with it what was not asked for since.
#[derive(Default)]
struct Cache {
    newer: HashMap<String, Compiled>,
    older: HashMap<String, Compiled>,
    bytes: usize,
}

impl Cache {
    fn get(&mut self, expression: &str) -> Option<Result<Pattern, InvalidPattern>> {
        if let Some(found) = self.newer.get(expression) {
            return Some(found.result.clone());
        }
        let found = self.older.remove(expression)?;
        let result = found.result.clone();
        self.insert(expression, found);
        Some(result)
    }

    fn insert(&mut self, expression: &str, compiled: Compiled) {
        let bytes = compiled.bytes + expression.len();
        if bytes > CACHE_BYTES || self.newer.contains_key(expression) {
            return;
        }
        if self.bytes + bytes > CACHE_BYTES {
            self.older = std::mem::take(&mut self.newer);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.newer.insert(expression.to_owned(), compiled);
    }
}

/// The expression in the words of crate `regex`, and its cost.
fn parse(expression: &str) -> Result<(String, u64), InvalidPattern> {
    let translated = (Translator { rest: expression, whole: expression, out: String::new() }).run()?;
    // Errors that the translator did not foresee; the last line of the report says what is wrong.
    let parsed = regex_syntax::parse(&translated).map_err(|error| {
        let text = error.to_string();
        InvalidPattern(format!("{}: `{expression}`", text.lines().last().unwrap_or_default().trim_start_matches("error: ")))
    })?;
    match cost(&parsed) {
        cost if cost > COST => Err(too_large(expression)),
        cost => Ok((translated, cost)),
    }
}

fn refused(problem: &InvalidPattern) -> InvalidPattern {
    InvalidPattern(format!("error parsing regexp: {problem}"))
}

fn too_large(expression: &str) -> InvalidPattern {
    InvalidPattern(format!("expression too large: `{expression}`"))
}

/// Byte sequences that the compiled form tells apart: repetitions are written out, and a set of letters is as many as its ranges have in UTF-8. The
/// depth is bounded by the parser.
fn cost(parsed: &Hir) -> u64 {
    let sum = |parts: &[Hir]| parts.iter().map(cost).fold(0, u64::saturating_add);
    match parsed.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(set)) => {
            set.ranges().iter().map(|range| Utf8Sequences::new(range.start(), range.end()).count() as u64).sum::<u64>().max(1)
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1)).max(1);
            cost(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => cost(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
    }
}

fn compile(expression: &str) -> Compiled {
    let fail = |problem: InvalidPattern| {
        let problem = refused(&problem);
        Compiled { bytes: problem.0.len(), result: Err(problem) }
    };
    let (translated, cost) = match parse(expression) {
        Ok(parsed) => parsed,
        Err(problem) => return fail(problem),
    };
    // At most COST.
    let bytes = usize::try_from(cost).unwrap_or(usize::MAX).saturating_mul(BYTES).saturating_add(SMALL);
    for size in SIZES.into_iter().filter(|size| *size >= bytes / 3) {
        match regex::RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(STATES).build() {
            // Expressions are compiled in both directions.
            Ok(regex) => {
                return Compiled { bytes: 2 * size.min(bytes) + STATES + translated.len(), result: Ok(Pattern(Arc::new(regex))) };
            }
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return fail(InvalidPattern(format!("{error}: `{expression}`"))),
        }
    }
    fail(too_large(expression))
}

/// Rewrites Go's syntax into that of crate `regex`, from left to right.
struct Translator<'a> {
    rest: &'a str,
    whole: &'a str,
    out: String,
}

impl Translator<'_> {
    fn run(mut self) -> Result<String, InvalidPattern> {
        let mut depth = 0_usize;
        // True if something stands before that a repetition can apply to.
        let mut repeatable = false;
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '\\' => {
                    repeatable = self.escape(false)?;
                    continue;
                }
                '[' => {
                    self.class()?;
                    repeatable = true;
                    continue;
                }
                '(' => {
                    depth += 1;
                    repeatable = false;
                    if self.rest.starts_with("(?") {
                        if self.group()? {
                            depth -= 1;
                        }
                        continue;
                    }
                    self.out.push('(');
                }
                ')' => {
                    if depth == 0 {
                        return Err(InvalidPattern(format!("unexpected ): `{}`", self.whole)));
                    }
                    depth -= 1;
                    repeatable = true;
                    self.out.push(')');
                }
                '*' | '+' | '?' => {
                    if !repeatable {
                        return Err(InvalidPattern(format!("missing argument to repetition operator: `{letter}`")));
                    }
                    self.repetition(1)?;
                    continue;
                }
                '{' => match repetition(self.rest) {
                    None => {
                        self.out.push_str("\\{");
                        repeatable = true;
                    }
                    Some((length, least, most)) => {
                        let text = &self.rest[..length];
                        if least > 1000 || most.is_some_and(|most| most > 1000 || most < least) {
                            return Err(InvalidPattern(format!("invalid repeat count: `{text}`")));
                        }
                        if !repeatable {
                            return Err(InvalidPattern(format!("missing argument to repetition operator: `{text}`")));
                        }
                        self.repetition(length)?;
                        continue;
                    }
                },
                '|' => {
                    repeatable = false;
                    self.out.push('|');
                }
                other => {
                    repeatable = true;
                    self.out.push(other);
                }
            }
            self.rest = &self.rest[letter.len_utf8()..];
        }
        if depth > 0 {
            return Err(InvalidPattern(format!("missing closing ): `{}`", self.whole)));
        }
        Ok(self.out)
    }

    /// Copies a repetition of `length` bytes and the `?` that makes it lazy.
    fn repetition(&mut self, length: usize) -> Result<(), InvalidPattern> {
        let begin = self.rest;
        self.take(length);
        if self.rest.starts_with('?') {
            self.take(1);
        }
        let next = if self.rest.starts_with(['*', '+', '?']) { Some(1) } else { repetition(self.rest).map(|(length, ..)| length) };
        match next {
            None => Ok(()),
            Some(next) => {
                let both = begin.len() - self.rest.len() + next;
                Err(InvalidPattern(format!("invalid nested repetition operator: `{}`", &begin[..both])))
            }
        }
    }

    fn take(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.out.push_str(taken);
        self.rest = rest;
    }

    /// `(?:`, `(?i)`, `(?P<name>`, `(?<name>`. Returns true if the group is closed already.
    fn group(&mut self) -> Result<bool, InvalidPattern> {
        let rest = self.rest;
        let unsupported = |length: usize| {
            let end = rest.char_indices().nth(length).map_or(rest.len(), |(index, _)| index);
            Err(InvalidPattern(format!("invalid or unsupported Perl syntax: `{}`", &rest[..end])))
        };
        for opening in ["(?P<", "(?<"] {
            if let Some(name) = rest.strip_prefix(opening) {
                if opening == "(?<" && name.starts_with(['=', '!']) {
                    return unsupported(4);
                }
                let Some(end) = name.find('>') else {
                    return Err(InvalidPattern(format!("invalid named capture: `{rest}`")));
                };
                let valid = !name[..end].is_empty() && name[..end].chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric());
                if !valid {
                    return Err(InvalidPattern(format!("invalid named capture: `{}`", &rest[..=opening.len() + end])));
                }
                let _ = write!(self.out, "(?P<{}>", &name[..end]);
                self.rest = &name[end + 1..];
                return Ok(false);
            }
        }
        let mut count = 2;
        for letter in rest[2..].chars() {
            count += 1;
            match letter {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => {
                    let length = rest.char_indices().nth(count).map_or(rest.len(), |(index, _)| index);
                    self.take(length);
                    return Ok(letter == ')');
                }
                _ => return unsupported(count),
            }
        }
        Err(InvalidPattern(format!("missing closing ): `{}`", self.whole)))
    }

    /// A backslash and what follows. Returns true if a repetition can apply to it.
    fn escape(&mut self, in_class: bool) -> Result<bool, InvalidPattern> {
        let mut letters = self.rest.chars();
        letters.next();
        let Some(letter) = letters.next() else {
            return Err(InvalidPattern("trailing backslash at end of expression: ``".to_owned()));
        };
        let rest = letters.as_str();
        let perl = match (letter, in_class) {
            ('d', false) => Some("[0-9]"),
            ('d', true) => Some("0-9"),
            ('D', _) => Some("[^0-9]"),
            ('w', false) => Some("[0-9A-Za-z_]"),
            ('w', true) => Some("0-9A-Za-z_"),
            ('W', _) => Some("[^0-9A-Za-z_]"),
            ('s', false) => Some("[\\t\\n\\f\\r ]"),
            ('s', true) => Some("\\t\\n\\f\\r "),
            ('S', _) => Some("[^\\t\\n\\f\\r ]"),
            ('b', false) => Some("(?-u:\\b)"),
            ('B', false) => Some("\\B"),
            ('A' | 'z', false) | ('a' | 'f' | 't' | 'n' | 'r' | 'v', _) => None,
            ('Q', false) => {
                let (literal, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                self.out.push_str(&regex::escape(literal));
                self.rest = after;
                return Ok(!literal.is_empty());
            }
            ('p' | 'P', _) => {
                let name_end =
                    if rest.starts_with('{') { rest.find('}').map(|end| end + 1) } else { rest.chars().next().map(char::len_utf8) };
                let Some(end) = name_end else {
                    return Err(InvalidPattern(format!("invalid character class range: `\\{letter}{rest}`")));
                };
                let length = self.rest.len() - rest.len() + end;
                self.take(length);
                return Ok(true);
            }
            ('x', _) => {
                let end = if rest.starts_with('{') { rest.find('}').map(|end| end + 1) } else { Some(2) };
                let digits = end.and_then(|end| rest.get(..end)).map(|text| text.trim_matches(['{', '}']));
                let valid = digits.is_some_and(|digits| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).is_some());
                let Some(end) = end.filter(|_| valid) else {
                    let shown: String = self.rest.chars().take(4).collect();
                    return Err(InvalidPattern(format!("invalid escape sequence: `{shown}`")));
                };
                let length = self.rest.len() - rest.len() + end;
                self.take(length);
                return Ok(true);
            }
            ('0', _) => {
                // An octal escape: up to two further digits.
                let digits: String = rest.chars().take(2).take_while(|digit| digit.is_digit(8)).collect();
                let code = u32::from_str_radix(&format!("0{digits}"), 8).unwrap_or(0);
                let _ = write!(self.out, "\\x{{{code:x}}}");
                self.rest = &rest[digits.len()..];
                return Ok(true);
            }
            (other, _) if other.is_ascii_punctuation() => {
                let _ = write!(self.out, "\\x{:02x}", other as u32);
                self.rest = rest;
                return Ok(true);
            }
            (other, _) => return Err(InvalidPattern(format!("invalid escape sequence: `\\{other}`"))),
        };
        if let Some(text) = perl {
            self.out.push_str(text);
        } else {
            self.out.push('\\');
            self.out.push(letter);
        }
        self.rest = rest;
        Ok(!matches!(letter, 'A' | 'z' | 'b' | 'B') || in_class)
    }

    /// A set in brackets.
    fn class(&mut self) -> Result<(), InvalidPattern> {
        let begin = self.rest;
        self.take(1);
        if self.rest.starts_with('^') {
            self.take(1);
        }
        let mut first = true;
        loop {
            let Some(letter) = self.rest.chars().next() else {
                return Err(InvalidPattern(format!("missing closing ]: `{begin}`")));
            };
            match letter {
                ']' if !first => {
                    self.take(1);
                    return Ok(());
                }
                '\\' => {
                    self.escape(true)?;
                    first = false;
                    continue;
                }
                '[' => {
                    if let Some(end) = self.rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
                        self.take(end + 4);
                        first = false;
                        continue;
                    }
                    self.out.push_str("\\[");
                }
                ']' => self.out.push_str("\\]"),
                '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(letter);
                }
                // In Rust two dashes subtract sets; here the second one is a dash.
                '-' if self.out.ends_with('-') => self.out.push_str("\\x2d"),
                other => self.out.push(other),
            }
            first = false;
            self.rest = &self.rest[letter.len_utf8()..];
        }
    }
}

/// `{2}`, `{2,}`, `{2,5}` at the beginning of a text: its length and bounds.
fn repetition(text: &str) -> Option<(usize, u64, Option<u64>)> {
    let inner = text.strip_prefix('{')?;
    let end = inner.find('}')?;
    let (least, most) = match inner[..end].split_once(',') {
        None => {
            let count = number(&inner[..end])?;
            (count, Some(count))
        }
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((end + 2, least, most))
}

fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Anything longer is beyond every limit.
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    /// KAPI-CRD-02: whatever patterns a CRD has, those that are kept take a bounded number of bytes, and those in use stay.
    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut cache = Cache::default();
        let kept = |cache: &Cache| cache.newer.iter().chain(&cache.older).map(|(text, found)| text.len() + found.bytes).sum::<usize>();
        let large = compile("^(\\pL{1,20}){1,3}$");
        assert!(large.result.is_ok() && large.bytes > 2 * SMALL, "{}", large.bytes);
        cache.insert("used", compile("^used$"));
        for number in 0..2_000 {
            // Compiled once: what is tested is what is kept.
            cache.insert(&format!("{number}"), large.clone());
            assert!(cache.get("used").is_some(), "evicted after {number}");
            assert!(kept(&cache) <= 2 * CACHE_BYTES, "{}", kept(&cache));
        }
        let (refused, long) = (compile("(x"), "x".repeat(2 << 20));
        for number in 0..100 {
            cache.insert(&format!("{number}{long}"), refused.clone());
            assert!(kept(&cache) <= 2 * CACHE_BYTES, "{}", kept(&cache));
        }
        let error = Pattern::compile("(x{1000}){1000}").unwrap_err();
        assert!(error.to_string().contains("expression too large") || error.to_string().contains("repeat"), "{error}");
    }

    /// KAPI-CRD-02: what passes the check is compiled within the size that is counted for it; what is too large is known without compiling it.
    #[test]
    fn costs_are_known_before() {
        for (expression, fits) in [
            ("^$", true),
            ("", true),
            ("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$", true),
            ("^((a{1,50}|\\pL{1,20}){1,10})7$", true),
            ("^\\pL{1,253}$", true),
            ("^[\\pL\\pN_-]{1,128}$", true),
            ("(a{1000}){200}", true),
            ("^[^/]{1,1000}$", true),
            ("^(?:[^\\x00-\\x1f]{1,1000}){1,10}$", true),
            ("^(?i)(\\pL{1,50}){2}$", true),
            ("^\\pL{1,1000}$", false),
            ("((a{1000}){1000}){1000}", false),
        ] {
            let cost = Pattern::check(expression);
            assert_eq!(cost.is_ok(), fits, "{expression}: {cost:?}");
            assert_eq!(compile(expression).result.is_ok(), fits, "{expression}: {cost:?}");
        }
    }

    /// KAPI-CRD-02: patterns have RE2's syntax and Go's meaning.
    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        for (pattern, yes, no) in [
            ("^\\d+$", "12", "١٢"),
            ("^\\w+$", "a_1", "ä"),
            ("^[\\w.]+$", "a.1", "ä"),
            ("^a{,2}$", "a{,2}", "aa"),
            ("^{x}$", "{x}", "x"),
            ("^[a&&b]+$", "a&b", "c"),
            ("^[[a]+$", "[a", "b"),
            ("^[]a]+$", "]a", "b"),
            ("^[+--]+$", "+,-", "."),
            ("^a\\_b$", "a_b", "ab"),
            ("^\\Qa.b\\E$", "a.b", "axb"),
            ("^(?P<x>a)\\.(?<y>b)$", "a.b", "axb"),
            ("^(?i)abc$", "ABC", "abd"),
            ("^\\p{Lu}\\pL$", "Äö", "ab"),
            ("^[[:alpha:]]{2,3}$", "ab", "a1"),
            ("^\\x41\\x{42}$", "AB", "ab"),
            ("\\bfoo\\b", "a foo b", "food"),
            ("^\\/\\-\\@$", "/-@", "x"),
            ("^[^/\\-\\.]$", "a", "-"),
            ("a*?b", "ab", "a"),
        ] {
            let compiled = Pattern::compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(compiled.matches(yes), "{pattern} {yes}");
            assert!(!compiled.matches(no), "{pattern} {no}");
        }
    }

    /// KAPI-CRD-02: what Go refuses is refused in Go's words.
    #[test]
    fn refused_expressions_name_the_fault() {
        for (pattern, text) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)", "invalid or unsupported Perl syntax: `(?<=`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("[a", "missing closing ]: `[a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("\\y", "invalid escape sequence: `\\y`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(Pattern::compile(pattern).unwrap_err().to_string(), format!("error parsing regexp: {text}"), "{pattern}");
        }
    }
}
