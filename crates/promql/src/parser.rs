//! The grammar, with the types of its parts.

use regex::{Regex, RegexBuilder};

use crate::NAME;
use crate::expr::{Aggregate, At, Binary, Expr, Grouping, Kind, Matcher, Matching, Operator, Selector, Shift, Side, Subquery, Test};
use crate::functions::{aggregation, find};
use crate::lexer::{Lexeme, Token, duration, number};
use crate::problem::PromqlProblem;

/// Deepest nesting.
const MAX_DEPTH: usize = 100;
/// The most memory of a pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;
/// The precedence of a sign before an operand: a power binds more tightly.
const UNARY: u8 = 6;

type Failed = (usize, PromqlProblem);

pub(crate) struct Parser<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    depth: usize,
}

/// Types of what an operation may be of.
const NUMBERS: &str = "a scalar or an instant vector";

impl<'a> Parser<'a> {
    pub(crate) fn new(tokens: &'a [Token<'a>]) -> Self {
        Self { tokens, next: 0, depth: 0 }
    }

    pub(crate) fn whole(mut self) -> Result<Expr, Failed> {
        let expr = self.expression(0)?;
        if self.peek().lexeme != Lexeme::End {
            return Err(self.expected("an operator"));
        }
        Ok(expr)
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
        let found = match &token.lexeme {
            Lexeme::Word(word) | Lexeme::Number(word) | Lexeme::Duration(word) => (*word).to_owned(),
            Lexeme::Text(text) => format!("{text:?}"),
            Lexeme::Sign(sign) => (*sign).to_owned(),
            Lexeme::End => "the end".to_owned(),
        };
        (token.at, PromqlProblem::Expected { expected, found })
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().lexeme, Lexeme::Sign(other) if other == sign);
        self.next += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek().lexeme, Lexeme::Word(other) if other.eq_ignore_ascii_case(word));
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

    fn check_number(at: usize, place: &str, expr: &Expr) -> Result<(), Failed> {
        match expr.kind() {
            Kind::Scalar | Kind::Vector => Ok(()),
            other => Err((at, PromqlProblem::Type { place: place.to_owned(), expected: NUMBERS, found: other.name() })),
        }
    }

    /// Operands and operators that bind at least so tightly.
    fn expression(&mut self, least: u8) -> Result<Expr, Failed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((self.peek().at, PromqlProblem::TooDeep));
        }
        let begin = self.peek().at;
        let mut left = self.operand()?;
        while let Some((spelling, operator)) = self.operator().filter(|(_, operator)| operator.strength() >= least) {
            let at = self.advance().at;
            let with_bool = operator.is_comparison() && self.takes_word("bool");
            let matching = self.matching()?;
            let right_begin = self.peek().at;
            // Only the power is taken from the right.
            let right = self.expression(operator.strength() + u8::from(operator != Operator::Power))?;
            Self::check_number(begin, "the left side", &left)?;
            Self::check_number(right_begin, "the right side", &right)?;
            let scalars = [&left, &right].map(|side| side.kind() == Kind::Scalar);
            if operator.is_comparison() && scalars == [true, true] && !with_bool {
                return Err((at, PromqlProblem::ComparisonWithoutBool));
            }
            if operator.is_set() && scalars.contains(&true) {
                return Err((at, PromqlProblem::SetOfScalars(spelling.to_owned())));
            }
            matching.check(spelling, operator.is_set(), scalars == [false, false]).map_err(|problem| (at, problem))?;
            left = Expr::Binary(Box::new(Binary { operator, with_bool, matching, left, right }));
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The next operator and its spelling.
    fn operator(&self) -> Option<(&'a str, Operator)> {
        match &self.peek().lexeme {
            Lexeme::Sign(sign) => Operator::of(sign).map(|operator| (*sign, operator)),
            Lexeme::Word(word) => Operator::of(&word.to_ascii_lowercase()).map(|operator| (*word, operator)),
            _ => None,
        }
    }

    /// `on (...)`, `ignoring (...)`, `group_left (...)`.
    fn matching(&mut self) -> Result<Matching, Failed> {
        let mut matching = Matching { is_on: self.takes_word("on"), ..Matching::default() };
        if matching.is_on || self.takes_word("ignoring") {
            matching.labels = self.labels()?;
            matching.group = [Side::Left, Side::Right].into_iter().find(|side| self.takes_word(side.keyword()));
            if matching.group.is_some() && self.peek().lexeme == Lexeme::Sign("(") {
                matching.included = self.labels()?;
            }
        }
        Ok(matching)
    }

    /// `(a, b)`; keywords are names here.
    fn labels(&mut self) -> Result<Vec<String>, Failed> {
        self.needs_sign("(")?;
        let mut labels = Vec::new();
        while !self.takes_sign(")") {
            match &self.peek().lexeme {
                Lexeme::Word(word) if !word.contains(':') => labels.push((*word).to_owned()),
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

    fn operand(&mut self) -> Result<Expr, Failed> {
        let token = self.peek();
        let is_negative = matches!(token.lexeme, Lexeme::Sign("-"));
        if self.takes_sign("-") || self.takes_sign("+") {
            let inner = self.expression(UNARY)?;
            Self::check_number(token.at, "the operand", &inner)?;
            return Ok(if is_negative { Expr::Negative(Box::new(inner)) } else { inner });
        }
        let expr = match &token.lexeme {
            Lexeme::Number(word) => {
                self.advance();
                Expr::Number(number(word).ok_or_else(|| (token.at, PromqlProblem::Number((*word).to_owned())))?)
            }
            Lexeme::Text(text) => {
                self.advance();
                Expr::Text(text.clone())
            }
            Lexeme::Sign("(") => {
                self.advance();
                let inner = self.expression(0)?;
                self.needs_sign(")")?;
                return self.suffixes(token.at, inner, true);
            }
            Lexeme::Sign("{") => Expr::Selector(self.selector(token.at, None)?),
            Lexeme::Word(word) => self.word(word)?,
            _ => return Err(self.expected("an expression")),
        };
        self.suffixes(token.at, expr, false)
    }

    fn word(&mut self, word: &'a str) -> Result<Expr, Failed> {
        let follows = self.tokens.get(self.next + 1).map(|token| &token.lexeme);
        let is_called = follows == Some(&Lexeme::Sign("("));
        let is_grouped = matches!(follows, Some(Lexeme::Word(word)) if matches!(word.to_ascii_lowercase().as_str(), "by" | "without"));
        let lower = word.to_ascii_lowercase();
        if let Some(kinds) = aggregation(&lower).filter(|_| is_called || is_grouped) {
            return self.aggregation(lower, kinds);
        }
        if is_called {
            return self.call(word);
        }
        if matches!(lower.as_str(), "inf" | "nan") {
            self.advance();
            return Ok(Expr::Number(if lower == "inf" { f64::INFINITY } else { f64::NAN }));
        }
        if matches!(lower.as_str(), "bool" | "on" | "ignoring" | "group_left" | "group_right" | "offset") || Operator::of(&lower).is_some()
        {
            return Err(self.expected("an expression"));
        }
        let at = self.advance().at;
        if self.peek().lexeme == Lexeme::Sign("{") {
            return Ok(Expr::Selector(self.selector(at, Some(word))?));
        }
        Ok(Expr::Selector(Selector { matchers: vec![named(word)], range: None, shift: Shift::default() }))
    }

    /// `{a="b"}`, behind a name or without.
    fn selector(&mut self, at: usize, name: Option<&str>) -> Result<Selector, Failed> {
        let mut matchers: Vec<Matcher> = name.map(named).into_iter().collect();
        let mut selects = name.is_some();
        self.needs_sign("{")?;
        while !self.takes_sign("}") {
            let label = match &self.peek().lexeme {
                Lexeme::Word(NAME) if name.is_some() => {
                    return Err((at, PromqlProblem::NameTwice(name.unwrap_or_default().to_owned())));
                }
                Lexeme::Text(label) => label.clone(),
                Lexeme::Word(label) => (*label).to_owned(),
                _ => return Err(self.expected("a label or }")),
            };
            self.advance();
            let operator = match self.peek().lexeme {
                Lexeme::Sign(sign @ ("=" | "!=" | "=~" | "!~")) => {
                    self.advance();
                    sign
                }
                _ => return Err(self.expected("=, !=, =~ or !~")),
            };
            let Lexeme::Text(value) = &self.peek().lexeme else { return Err(self.expected("a text in quotes")) };
            let at = self.advance().at;
            let test = match operator {
                "=" => Test::Equal(value.clone()),
                "!=" => Test::NotEqual(value.clone()),
                "=~" => Test::Matches(pattern(value, at)?),
                _ => Test::NotMatches(pattern(value, at)?),
            };
            selects |= !test.holds("");
            matchers.push(Matcher { label, test });
            if !self.takes_sign(",") {
                if !self.takes_sign("}") {
                    return Err(self.expected(", or }"));
                }
                break;
            }
        }
        if selects { Ok(Selector { matchers, range: None, shift: Shift::default() }) } else { Err((at, PromqlProblem::SelectsAll)) }
    }

    /// Arguments in parentheses, with the place where each begins.
    fn arguments(&mut self) -> Result<Vec<(usize, Expr)>, Failed> {
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

    fn call(&mut self, name: &str) -> Result<Expr, Failed> {
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
        for (number, (at, argument)) in arguments.iter().enumerate() {
            let Some(expected) = function.arguments.get(number).or(function.arguments.last()) else { break };
            Self::check(*at, format!("argument {} of {name}", number + 1), *expected, argument.kind())?;
        }
        let arguments = arguments.into_iter().map(|(_, argument)| argument).collect();
        Ok(Expr::Call { function: name.to_owned(), result: function.result, arguments })
    }

    fn aggregation(&mut self, operator: String, kinds: &[Kind]) -> Result<Expr, Failed> {
        let at = self.advance().at;
        let before = self.grouping()?;
        let mut arguments = self.arguments()?;
        let grouping = match before {
            Some(grouping) => grouping,
            None => self.grouping()?.unwrap_or_default(),
        };
        if arguments.len() != kinds.len() {
            let expected = kinds.len().to_string();
            return Err((at, PromqlProblem::Arguments { name: operator, expected, found: arguments.len() }));
        }
        for (number, (&expected, (at, argument))) in kinds.iter().zip(&arguments).enumerate() {
            Self::check(*at, format!("argument {} of {operator}", number + 1), expected, argument.kind())?;
        }
        let inner = arguments.pop().map(|(_, inner)| inner);
        let parameter = arguments.pop().map(|(_, parameter)| parameter);
        let inner = inner.ok_or_else(|| (at, PromqlProblem::Arguments { name: operator.clone(), expected: "1".to_owned(), found: 0 }))?;
        Ok(Expr::Aggregate(Box::new(Aggregate { operator, grouping, parameter, inner })))
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, Failed> {
        let is_without = self.takes_word("without");
        if is_without || self.takes_word("by") {
            return Ok(Some(Grouping { is_without, labels: self.labels()? }));
        }
        Ok(None)
    }

    /// Ranges, subqueries, offsets and times behind an operand.
    fn suffixes(&mut self, at: usize, mut expr: Expr, in_parentheses: bool) -> Result<Expr, Failed> {
        let mut may_have_range = !in_parentheses;
        loop {
            let place = self.peek().at;
            if self.takes_sign("[") {
                let range = self.duration()?;
                if self.takes_sign(":") {
                    let step = if matches!(self.peek().lexeme, Lexeme::Duration(_)) { Some(self.duration()?) } else { None };
                    Self::check(at, "what a subquery is of", Kind::Vector, expr.kind())?;
                    expr = Expr::Subquery(Box::new(Subquery { inner: expr, range, step, shift: Shift::default() }));
                } else {
                    match &mut expr {
                        Expr::Selector(selector) if may_have_range && selector.range.is_none() => selector.range = Some(range),
                        _ => return Err(self.expected(": of a subquery")),
                    }
                }
                self.needs_sign("]")?;
                may_have_range = false;
            } else if self.takes_word("offset") {
                let is_negative = self.takes_sign("-");
                let offset = self.duration()?;
                let shift = shift_of(&mut expr).ok_or((place, PromqlProblem::Modifier("offset")))?;
                if shift.offset != 0 {
                    return Err((place, PromqlProblem::ModifierTwice("offset")));
                }
                shift.offset = if is_negative { -offset } else { offset };
                may_have_range = false;
            } else if self.takes_sign("@") {
                let time = self.at_time()?;
                let shift = shift_of(&mut expr).ok_or((place, PromqlProblem::Modifier("@")))?;
                if shift.at.is_some() {
                    return Err((place, PromqlProblem::ModifierTwice("@")));
                }
                shift.at = Some(time);
                may_have_range = false;
            } else {
                return Ok(expr);
            }
        }
    }

    fn at_time(&mut self) -> Result<At, Failed> {
        let is_negative = self.takes_sign("-");
        if self.takes_word("start") || self.takes_word("end") {
            self.needs_sign("(")?;
            self.needs_sign(")")?;
            return Ok(At::Query);
        }
        let Lexeme::Number(word) = self.peek().lexeme else { return Err(self.expected("a time")) };
        let at = self.advance().at;
        let seconds = number(word).ok_or_else(|| (at, PromqlProblem::Number(word.to_owned())))?;
        #[allow(clippy::cast_possible_truncation, reason = "a time beyond the range is taken for its end")]
        let milliseconds = (seconds * 1000.0).round() as i64;
        Ok(At::Time(if is_negative { milliseconds.saturating_neg() } else { milliseconds }))
    }

    /// A duration in milliseconds.
    fn duration(&mut self) -> Result<i64, Failed> {
        let Lexeme::Duration(text) = &self.peek().lexeme else { return Err(self.expected("a duration")) };
        let at = self.advance().at;
        match duration(text) {
            Some(0) => Err((at, PromqlProblem::NoDuration)),
            Some(milliseconds) => Ok(milliseconds),
            None => Err((at, PromqlProblem::Number((*text).to_owned()))),
        }
    }
}

fn named(name: &str) -> Matcher {
    Matcher { label: NAME.to_owned(), test: Test::Equal(name.to_owned()) }
}

/// The shift of an expression that may have one.
fn shift_of(expr: &mut Expr) -> Option<&mut Shift> {
    match expr {
        Expr::Selector(selector) => Some(&mut selector.shift),
        Expr::Subquery(subquery) => Some(&mut subquery.shift),
        _ => None,
    }
}

impl Matching {
    fn check(&self, operator: &str, is_set: bool, of_vectors: bool) -> Result<(), PromqlProblem> {
        if self.is_on
            && let Some(group) = self.group
            && let Some(label) = self.labels.iter().find(|label| self.included.contains(label))
        {
            return Err(PromqlProblem::OnAndGroup(label.clone(), group.keyword()));
        }
        match (of_vectors, self.group) {
            (false, _) if !self.labels.is_empty() => Err(PromqlProblem::MatchingOfScalars),
            (true, Some(_)) if is_set => Err(PromqlProblem::GroupingOfSet(operator.to_owned())),
            _ => Ok(()),
        }
    }
}

/// A pattern of a whole value.
pub(crate) fn compiled(text: &str) -> Option<Regex> {
    RegexBuilder::new(&format!("^(?:{text})$")).octal(true).size_limit(MAX_PATTERN).build().ok()
}

fn pattern(text: &str, at: usize) -> Result<Regex, Failed> {
    compiled(text).ok_or_else(|| (at, PromqlProblem::Pattern(text.to_owned())))
}
