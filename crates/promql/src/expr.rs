//! The parts of a query.

use regex::Regex;

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar,
    Vector,
    Matrix,
    Text,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scalar => "a scalar",
            Self::Vector => "an instant vector",
            Self::Matrix => "a range vector",
            Self::Text => "a text",
        }
    }
}

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Number(f64),
    Text(String),
    Selector(Selector),
    Subquery(Box<Subquery>),
    Call { function: String, result: Kind, arguments: Vec<Expr> },
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negative(Box<Expr>),
}

impl Expr {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Scalar,
            Self::Text(_) => Kind::Text,
            Self::Selector(selector) if selector.range.is_none() => Kind::Vector,
            Self::Selector(_) | Self::Subquery(_) => Kind::Matrix,
            Self::Call { result, .. } => *result,
            Self::Binary(binary) if binary.left.kind() == Kind::Scalar && binary.right.kind() == Kind::Scalar => Kind::Scalar,
            Self::Binary(_) | Self::Aggregate(_) => Kind::Vector,
            Self::Negative(inner) => inner.kind(),
        }
    }

    /// The expressions directly below this one.
    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Selector(_) => Vec::new(),
            Self::Subquery(subquery) => vec![&subquery.inner],
            Self::Call { arguments, .. } => arguments.iter().collect(),
            Self::Aggregate(aggregate) => aggregate.parameter.iter().chain([&aggregate.inner]).collect(),
            Self::Binary(binary) => vec![&binary.left, &binary.right],
            Self::Negative(inner) => vec![inner],
        }
    }

    /// Calls `see` with this expression and each below it, and with the time in milliseconds before the evaluation that it looks at.
    pub(crate) fn walk<'a>(&'a self, before: i64, see: &mut impl FnMut(&'a Self, i64)) {
        see(self, before);
        let reach = match self {
            Self::Subquery(subquery) => subquery.range.saturating_add(subquery.shift.offset.max(0)),
            _ => 0,
        };
        for child in self.children() {
            child.walk(before.saturating_add(reach), see);
        }
    }
}

/// A selector of series, with a range or without.
#[derive(Debug, Clone)]
pub(crate) struct Selector {
    pub matchers: Vec<Matcher>,
    /// The length of the range in milliseconds.
    pub range: Option<i64>,
    pub shift: Shift,
}

impl Selector {
    /// The name that it selects, if it selects one only.
    pub(crate) fn name(&self) -> Option<&str> {
        self.equals(crate::NAME)
    }

    /// The value that it demands of a label, if it demands one.
    pub(crate) fn equals(&self, label: &str) -> Option<&str> {
        self.matchers.iter().find_map(|matcher| match &matcher.test {
            Test::Equal(value) if matcher.label == label => Some(value.as_str()),
            _ => None,
        })
    }
}

/// The time that is looked at, if it is not the time of the evaluation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shift {
    /// Milliseconds before.
    pub offset: i64,
    pub at: Option<At>,
}

/// A fixed time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum At {
    /// Milliseconds since 1970.
    Time(i64),
    /// `start()` or `end()`: of an instant query, its time.
    Query,
}

/// A condition on a label.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    pub label: String,
    pub test: Test,
}

/// The test of a label's value; an absent label has the empty one.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Equal(String),
    NotEqual(String),
    Matches(Regex),
    NotMatches(Regex),
}

impl Test {
    pub(crate) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Equal(expected) => value == expected,
            Self::NotEqual(expected) => value != expected,
            Self::Matches(pattern) => pattern.is_match(value),
            Self::NotMatches(pattern) => !pattern.is_match(value),
        }
    }
}

/// An expression at several times: `x[5m:1m]`.
#[derive(Debug, Clone)]
pub(crate) struct Subquery {
    pub inner: Expr,
    /// Milliseconds.
    pub range: i64,
    /// Milliseconds; without it, the interval of evaluations.
    pub step: Option<i64>,
    pub shift: Shift,
}

/// An aggregation.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub operator: String,
    pub grouping: Grouping,
    pub parameter: Option<Expr>,
    pub inner: Expr,
}

/// The labels by which series are grouped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grouping {
    pub is_without: bool,
    pub labels: Vec<String>,
}

/// A binary operation.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub operator: Operator,
    /// A comparison gives 0 and 1 instead of filtering.
    pub with_bool: bool,
    pub matching: Matching,
    pub left: Expr,
    pub right: Expr,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Atan2,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    And,
    Or,
    Unless,
}

impl Operator {
    /// The operator of that spelling, in lower case.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Modulo,
            "^" => Self::Power,
            "atan2" => Self::Atan2,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            ">" => Self::Greater,
            "<=" => Self::LessOrEqual,
            ">=" => Self::GreaterOrEqual,
            "and" => Self::And,
            "or" => Self::Or,
            "unless" => Self::Unless,
            _ => return None,
        })
    }

    /// The precedence; a greater one binds more tightly.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            _ if self.is_comparison() => 3,
            Self::Add | Self::Subtract => 4,
            Self::Power => 6,
            _ => 5,
        }
    }

    pub(crate) fn is_comparison(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual | Self::Less | Self::Greater | Self::LessOrEqual | Self::GreaterOrEqual)
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}

/// The matching of the series of two vectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matching {
    pub is_on: bool,
    pub labels: Vec<String>,
    pub group: Option<Side>,
    /// Labels that the side with many series takes from the other.
    pub included: Vec<String>,
}

/// A side of a binary operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            Self::Left => "group_left",
            Self::Right => "group_right",
        }
    }
}
