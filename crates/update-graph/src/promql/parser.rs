//! The grammar, with the types of its parts.

use regex::{Regex, RegexBuilder};

use super::PromqlProblem;
use super::functions::{aggregation, find};
use super::lexer::{Token, What};

/// Deepest nesting.
const MAX_DEPTH: usize = 100;

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Vector,
    Matrix,
    Text,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scalar => "a scalar",
            Self::Vector => "an instant vector",
            Self::Matrix => "a range vector",
            Self::Text => "a text",
        }
    }
}

type Failed = (usize, PromqlProblem);

pub(super) struct Parser<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    depth: usize,
}

/// Tokens that may follow an expression.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// A selector without a range: `[5m]` makes it a range vector.
    Selector,
    /// Anything else: `[5m:]` makes it a subquery.
    Other,
}

impl<'a> Parser<'a> {
    pub(super) fn new(tokens: &'a [Token<'a>]) -> Self {
        Self { tokens, next: 0, depth: 0 }
    }

    pub(super) fn whole(mut self) -> Result<Kind, Failed> {
        let kind = self.expression(0)?;
        if self.peek().what != What::End {
            return Err(self.expected("an operator"));
        }
        Ok(kind)
    }

    /// The next token; the last one is the end.
    fn peek(&self) -> &'a Token<'a> {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn advance(&mut self) -> &'a Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn expected(&self, expected: &'static str) -> Failed {
        let token = self.peek();
        let found = match &token.what {
            What::Word(word) | What::Number(word) | What::Duration(word) => (*word).to_owned(),
            What::Text(text) => format!("{text:?}"),
            What::Sign(sign) => (*sign).to_owned(),
            What::End => "the end".to_owned(),
        };
        (token.at, PromqlProblem::Expected { expected, found })
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().what, What::Sign(other) if other == sign);
        self.next += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek().what, What::Word(other) if other.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn needs_sign(&mut self, sign: &'static str) -> Result<(), Failed> {
        if self.takes_sign(sign) { Ok(()) } else { Err(self.expected(sign)) }
    }

    fn check(at: usize, place: impl Into<String>, expected: Kind, found: Kind) -> Result<(), Failed> {
        if expected == found {
            return Ok(());
        }
        Err((at, PromqlProblem::Type { place: place.into(), expected: expected.name(), found: found.name() }))
    }

    /// Operands and operators that bind at least so tightly.
    fn expression(&mut self, least: u8) -> Result<Kind, Failed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((self.peek().at, PromqlProblem::TooDeep));
        }
        let begin = self.peek().at;
        let mut left = self.operand()?;
        while let Some((operator, strength)) = self.operator().filter(|(_, strength)| *strength >= least) {
            let at = self.advance().at;
            let is_comparison = strength == COMPARISON;
            let with_bool = is_comparison && self.takes_word("bool");
            let matching = self.matching()?;
            let right_begin = self.peek().at;
            // Only the power is taken from the right.
            let right = self.expression(if operator == "^" { strength } else { strength + 1 })?;
            for (at, side, kind) in [(begin, "the left side", left), (right_begin, "the right side", right)] {
                if !matches!(kind, Kind::Scalar | Kind::Vector) {
                    let expected = "a scalar or an instant vector";
                    return Err((at, PromqlProblem::Type { place: side.to_owned(), expected, found: kind.name() }));
                }
            }
            let of_scalars = left == Kind::Scalar && right == Kind::Scalar;
            if is_comparison && of_scalars && !with_bool {
                return Err((at, PromqlProblem::ComparisonWithoutBool));
            }
            if strength <= SET && (left == Kind::Scalar || right == Kind::Scalar) {
                return Err((at, PromqlProblem::SetOfScalars(operator.to_owned())));
            }
            matching.check(operator, strength <= SET, left == Kind::Vector && right == Kind::Vector).map_err(|problem| (at, problem))?;
            left = if of_scalars { Kind::Scalar } else { Kind::Vector };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The next operator and how tightly it binds.
    fn operator(&self) -> Option<(&'a str, u8)> {
        match &self.peek().what {
            What::Sign(sign @ ("==" | "!=" | "<" | ">" | "<=" | ">=")) => Some((sign, COMPARISON)),
            What::Sign(sign @ ("+" | "-")) => Some((sign, 4)),
            What::Sign(sign @ ("*" | "/" | "%")) => Some((sign, PRODUCT)),
            What::Sign(sign @ "^") => Some((sign, 6)),
            What::Word(word) => match word.to_ascii_lowercase().as_str() {
                "or" => Some((word, 1)),
                "and" | "unless" => Some((word, SET)),
                "atan2" => Some((word, PRODUCT)),
                _ => None,
            },
            _ => None,
        }
    }

    /// `on (...)`, `ignoring (...)`, `group_left (...)`.
    fn matching(&mut self) -> Result<Matching<'a>, Failed> {
        let mut matching = Matching { is_on: self.takes_word("on"), ..Matching::default() };
        if matching.is_on || self.takes_word("ignoring") {
            matching.labels = self.labels()?;
            matching.group = ["group_left", "group_right"].into_iter().find(|side| self.takes_word(side));
            if matching.group.is_some() && self.peek().what == What::Sign("(") {
                matching.included = self.labels()?;
            }
        }
        Ok(matching)
    }

    /// `(a, b)`; keywords are names here.
    fn labels(&mut self) -> Result<Vec<&'a str>, Failed> {
        self.needs_sign("(")?;
        let mut labels = Vec::new();
        while !self.takes_sign(")") {
            match &self.peek().what {
                What::Word(word) if !word.contains(':') => labels.push(*word),
                _ => return Err(self.expected("a label or )")),
            }
            self.advance();
            if !self.takes_sign(",") {
                self.needs_sign(")")?;
                break;
            }
        }
        Ok(labels)
    }

    fn operand(&mut self) -> Result<Kind, Failed> {
        let token = self.peek();
        if self.takes_sign("-") || self.takes_sign("+") {
            let kind = self.expression(PRODUCT + 1)?;
            if matches!(kind, Kind::Matrix | Kind::Text) {
                let expected = "a scalar or an instant vector";
                return Err((token.at, PromqlProblem::Type { place: "the operand".to_owned(), expected, found: kind.name() }));
            }
            return Ok(kind);
        }
        let (kind, shape) = match &token.what {
            What::Number(_) => {
                self.advance();
                (Kind::Scalar, Shape::Other)
            }
            What::Text(_) => {
                self.advance();
                (Kind::Text, Shape::Other)
            }
            What::Sign("(") => {
                self.advance();
                let kind = self.expression(0)?;
                self.needs_sign(")")?;
                (kind, Shape::Other)
            }
            What::Sign("{") => {
                self.selector(token.at, None)?;
                (Kind::Vector, Shape::Selector)
            }
            What::Word(word) => self.word(word)?,
            _ => return Err(self.expected("an expression")),
        };
        self.suffixes(token.at, kind, shape)
    }

    fn word(&mut self, word: &'a str) -> Result<(Kind, Shape), Failed> {
        let follows = self.tokens.get(self.next + 1).map(|token| &token.what);
        let is_called = follows == Some(&What::Sign("("));
        let is_grouped = matches!(follows, Some(What::Word(word)) if matches!(word.to_ascii_lowercase().as_str(), "by" | "without"));
        let lower = word.to_ascii_lowercase();
        if let Some(kinds) = aggregation(&lower).filter(|_| is_called || is_grouped) {
            self.aggregation(&lower, kinds)?;
            return Ok((Kind::Vector, Shape::Other));
        }
        if is_called {
            return Ok((self.call(word)?, Shape::Other));
        }
        if matches!(lower.as_str(), "inf" | "nan") {
            self.advance();
            return Ok((Kind::Scalar, Shape::Other));
        }
        if matches!(
            lower.as_str(),
            "bool" | "on" | "ignoring" | "group_left" | "group_right" | "offset" | "and" | "or" | "unless" | "atan2"
        ) {
            return Err(self.expected("an expression"));
        }
        let at = self.advance().at;
        if self.peek().what == What::Sign("{") {
            self.selector(at, Some(word))?;
        }
        Ok((Kind::Vector, Shape::Selector))
    }

    /// `{a="b"}`, behind a name or without.
    fn selector(&mut self, at: usize, name: Option<&str>) -> Result<(), Failed> {
        let mut selects = name.is_some();
        self.needs_sign("{")?;
        while !self.takes_sign("}") {
            match &self.peek().what {
                What::Word("__name__") if name.is_some() => {
                    return Err((at, PromqlProblem::NameTwice(name.unwrap_or_default().to_owned())));
                }
                What::Text(_) | What::Word(_) => self.advance(),
                _ => return Err(self.expected("a label or }")),
            };
            let operator = match self.peek().what {
                What::Sign(sign @ ("=" | "!=" | "=~" | "!~")) => {
                    self.advance();
                    sign
                }
                _ => return Err(self.expected("=, !=, =~ or !~")),
            };
            let What::Text(value) = &self.peek().what else { return Err(self.expected("a text in quotes")) };
            let at = self.advance().at;
            let matches_empty = if operator.ends_with('~') { pattern(value, at)?.is_match("") } else { value.is_empty() };
            selects |= matches_empty == operator.starts_with('!');
            if !self.takes_sign(",") {
                if !self.takes_sign("}") {
                    return Err(self.expected(", or }"));
                }
                break;
            }
        }
        if selects { Ok(()) } else { Err((at, PromqlProblem::SelectsAll)) }
    }

    /// Arguments in parentheses, with the place where each begins.
    fn arguments(&mut self) -> Result<Vec<(usize, Kind)>, Failed> {
        self.needs_sign("(")?;
        let mut arguments = Vec::new();
        if self.takes_sign(")") {
            return Ok(arguments);
        }
        loop {
            let at = self.peek().at;
            arguments.push((at, self.expression(0)?));
            if self.takes_sign(")") {
                return Ok(arguments);
            }
            if !self.takes_sign(",") {
                return Err(self.expected(", or )"));
            }
        }
    }

    fn call(&mut self, name: &str) -> Result<Kind, Failed> {
        let at = self.advance().at;
        let function = find(name).ok_or_else(|| (at, PromqlProblem::UnknownFunction(name.to_owned())))?;
        let arguments = self.arguments()?;
        let most = function.arguments.len();
        let least = most - function.optional;
        if arguments.len() < least || arguments.len() > most && !function.repeated {
            let expected = match (least == most, function.repeated) {
                (_, true) => format!("at least {least}"),
                (true, false) => most.to_string(),
                (false, false) => format!("{least} to {most}"),
            };
            return Err((at, PromqlProblem::Arguments { name: name.to_owned(), expected, found: arguments.len() }));
        }
        for (number, (at, kind)) in arguments.into_iter().enumerate() {
            let Some(expected) = function.arguments.get(number).or(function.arguments.last()) else { break };
            Self::check(at, format!("argument {} of {name}", number + 1), *expected, kind)?;
        }
        Ok(function.result)
    }

    fn aggregation(&mut self, name: &str, kinds: &[Kind]) -> Result<(), Failed> {
        let at = self.advance().at;
        let grouped = self.grouping()?;
        let arguments = self.arguments()?;
        if !grouped {
            self.grouping()?;
        }
        if arguments.len() != kinds.len() {
            let expected = kinds.len().to_string();
            return Err((at, PromqlProblem::Arguments { name: name.to_owned(), expected, found: arguments.len() }));
        }
        for (number, (&expected, (at, kind))) in kinds.iter().zip(arguments).enumerate() {
            Self::check(at, format!("argument {} of {name}", number + 1), expected, kind)?;
        }
        Ok(())
    }

    fn grouping(&mut self) -> Result<bool, Failed> {
        if self.takes_word("by") || self.takes_word("without") {
            self.labels()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Ranges, subqueries, offsets and times behind an operand.
    fn suffixes(&mut self, at: usize, kind: Kind, shape: Shape) -> Result<Kind, Failed> {
        let (mut kind, mut shape) = (kind, shape);
        loop {
            if self.takes_sign("[") {
                self.duration()?;
                if self.takes_sign(":") {
                    if matches!(self.peek().what, What::Duration(_)) {
                        self.duration()?;
                    }
                    Self::check(at, "what a subquery is of", Kind::Vector, kind)?;
                } else if shape != Shape::Selector {
                    return Err(self.expected(": of a subquery"));
                }
                self.needs_sign("]")?;
                (kind, shape) = (Kind::Matrix, Shape::Other);
            } else if self.takes_word("offset") {
                let _ = self.takes_sign("-");
                self.duration()?;
            } else if self.takes_sign("@") {
                let _ = self.takes_sign("-");
                if self.takes_word("start") || self.takes_word("end") {
                    self.needs_sign("(")?;
                    self.needs_sign(")")?;
                } else if matches!(self.peek().what, What::Number(_)) {
                    self.advance();
                } else {
                    return Err(self.expected("a time"));
                }
            } else {
                return Ok(kind);
            }
        }
    }

    fn duration(&mut self) -> Result<(), Failed> {
        let What::Duration(text) = &self.peek().what else { return Err(self.expected("a duration")) };
        let at = self.advance().at;
        if text.contains(|c: char| c.is_ascii_digit() && c != '0') { Ok(()) } else { Err((at, PromqlProblem::NoDuration)) }
    }
}

/// The matching of the series of two vectors.
#[derive(Default)]
struct Matching<'a> {
    is_on: bool,
    labels: Vec<&'a str>,
    group: Option<&'static str>,
    included: Vec<&'a str>,
}

impl Matching<'_> {
    fn check(&self, operator: &str, is_set: bool, of_vectors: bool) -> Result<(), PromqlProblem> {
        if self.is_on
            && let Some(group) = self.group
            && let Some(label) = self.labels.iter().find(|label| self.included.contains(label))
        {
            return Err(PromqlProblem::OnAndGroup((*label).to_owned(), group));
        }
        match (of_vectors, self.group) {
            (false, _) if !self.labels.is_empty() => Err(PromqlProblem::MatchingOfScalars),
            (true, Some(_)) if is_set => Err(PromqlProblem::GroupingOfSet(operator.to_owned())),
            _ => Ok(()),
        }
    }
}

fn pattern(text: &str, at: usize) -> Result<Regex, Failed> {
    let built = RegexBuilder::new(&format!("^(?:{text})$")).octal(true).size_limit(MAX_PATTERN).build();
    built.map_err(|_| (at, PromqlProblem::Pattern(text.to_owned())))
}

/// The most memory of a pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;
/// The precedence of operators.
const SET: u8 = 2;
const COMPARISON: u8 = 3;
const PRODUCT: u8 = 5;
