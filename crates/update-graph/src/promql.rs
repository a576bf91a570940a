//! Checks that a query of metrics can be parsed, and that it gives what a rule needs (CVO-GD-06, CVO-RISK-03).
//!
//! Prometheus' grammar with its types: scalar, instant vector, range vector, text. Nothing is evaluated. The parser is our own: the errors of the
//! crate `promql-parser` are texts without a line and a column, it has no limit of depth, and it brings two dozen crates that generate its tables.
//! A test of `update-client` compares both verdicts of this one with a real Prometheus.

mod functions;
mod lexer;
mod parser;

use parser::{Kind, Parser};

/// The longest query, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Why a query is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct PromqlError {
    /// The line of the query, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The problem.
    pub problem: PromqlProblem,
}

/// A problem of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromqlProblem {
    /// It is longer than any real query.
    #[error("the query is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It is nested deeper than any real query.
    #[error("the query is nested too deeply")]
    TooDeep,
    /// A character has no meaning here.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A text does not end.
    #[error("text is not terminated")]
    OpenText,
    /// A text has an escape that is none.
    #[error("unknown escape in a text")]
    Escape,
    /// A number or a duration cannot be read.
    #[error("{0:?} is neither a number nor a duration")]
    Number(String),
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// Types that would fit.
        expected: &'static str,
        /// The type that is there.
        found: String,
    },
    /// There is no such function.
    #[error("unknown function {0}")]
    UnknownFunction(String),
    /// A function has another number of arguments.
    #[error("function {name} takes {expected} arguments, found {found}")]
    Arguments {
        /// The function.
        name: String,
        /// The number that it takes.
        expected: String,
        /// The number that is there.
        found: usize,
    },
    /// A part has the wrong type.
    #[error("{place} has to be {expected}, found {found}")]
    Type {
        /// The part.
        place: String,
        /// The type that it has to have.
        expected: &'static str,
        /// The type that it has.
        found: &'static str,
    },
    /// Two numbers are compared without `bool`.
    #[error("comparisons between scalars must use the modifier bool")]
    ComparisonWithoutBool,
    /// A set operation on something else than vectors.
    #[error("set operator {0} is not allowed between scalars")]
    SetOfScalars(String),
    /// A duration of nothing.
    #[error("a duration must be greater than 0")]
    NoDuration,
    /// A selector has a name before its braces and one in them.
    #[error("the metric's name must not be set twice: {0}")]
    NameTwice(String),
    /// A label is matched and taken over at once.
    #[error("label {0} must not occur in both on and {1}")]
    OnAndGroup(String, &'static str),
    /// A set operation takes labels over.
    #[error("set operator {0} allows no grouping")]
    GroupingOfSet(String),
    /// Labels are matched, but one side has none.
    #[error("vectors can be matched with vectors alone")]
    MatchingOfScalars,
    /// A pattern that is none.
    #[error("{0:?} is no regular expression")]
    Pattern(String),
    /// A selector that selects everything.
    #[error("a selector must contain at least one matcher that does not match the empty text")]
    SelectsAll,
}

/// Checks a query of a rule: it parses, and its result is an instant vector.
pub fn check_promql(query: &str) -> Result<(), PromqlError> {
    let place = |at: usize| {
        let before = &query[..at.min(query.len())];
        let line = before.matches('\n').count() + 1;
        (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
    };
    let fail = |(at, problem): (usize, PromqlProblem)| {
        let (line, column) = place(at);
        PromqlError { line, column, problem }
    };
    if query.len() > MAX_BYTES {
        return Err(fail((0, PromqlProblem::TooLong)));
    }
    let tokens = lexer::tokens(query).map_err(fail)?;
    let kind = Parser::new(&tokens).whole().map_err(fail)?;
    match kind {
        Kind::Vector => Ok(()),
        other => {
            let problem = PromqlProblem::Type { place: "the result".to_owned(), expected: Kind::Vector.name(), found: other.name() };
            Err(fail((0, problem)))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// CVO-GD-06: queries as they stand in graph-data, and every part of the grammar.
    #[test]
    fn queries_that_parse() {
        for query in [
            "max(demo_disks) > bool 0",
            "vector(1)",
            "group(cluster_operator_conditions{_id=\"\",name=\"aro\"})\nor\n0 * group(cluster_operator_conditions{_id=\"\"})",
            "(group by (mode) (cco_credentials_mode{mode=\"mint\"}) or 0 * group by (mode) (cco_credentials_mode)) * on () group_left (type) (group by (type) (cluster_infrastructure_provider{type=\"GCP\"}))",
            "sum(rate(http_requests_total{code=~\"5..\",code!='500',}[5m] offset 1h)) without (pod, node)",
            "topk(1, up) or bottomk by (a) (2, up)",
            "max_over_time(up[1h30m:1m] @ end()) # a comment",
            "-up ^ 2 ^ 3 % 4 == bool 1",
            "{__name__=\"up\"} unless ignoring (a) up and on(b,) down",
            "label_replace(up, \"a\", \"$1\", \"b\", '(.*)') * 0x1F + .5e-3",
            "count_values(\"version\", build_info) > 1",
            "histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))",
            "absent(up{job=`a\\b`}) atan2 up",
            "up @ 1609746000 offset -5m",
            "topk by (by) (1, by)",
            "a:b:c and (((up)))",
            "sgn(up - Inf) + NaN",
            "time() * vector(scalar(up))",
        ] {
            check_promql(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        }
    }

    /// CVO-GD-06: what does not parse, with its place.
    #[test]
    fn queries_that_do_not() {
        for (query, words) in [
            ("", "line 1, column 1: expected an expression, found the end"),
            ("up{", "line 1, column 4: expected a label or }, found the end"),
            ("up{a=b}", "line 1, column 6: expected a text in quotes, found b"),
            ("up{a=\"b}", "line 1, column 6: text is not terminated"),
            ("up[5]", "line 1, column 4: expected a duration, found 5"),
            ("up[5m]", "line 1, column 1: the result has to be an instant vector, found a range vector"),
            ("1", "line 1, column 1: the result has to be an instant vector, found a scalar"),
            ("\n max(up", "line 2, column 8: expected , or ), found the end"),
            ("max(up) by", "line 1, column 11: expected (, found the end"),
            ("rate(up)", "line 1, column 6: argument 1 of rate has to be a range vector, found an instant vector"),
            ("rate(up[5m], 1)", "line 1, column 1: function rate takes 1 arguments, found 2"),
            ("frobnicate(up)", "line 1, column 1: unknown function frobnicate"),
            ("1 > 2", "line 1, column 3: comparisons between scalars must use the modifier bool"),
            ("1 and up", "line 1, column 3: set operator and is not allowed between scalars"),
            ("up or", "line 1, column 6: expected an expression, found the end"),
            ("up up", "line 1, column 4: expected an operator, found up"),
            ("up $ 1", "line 1, column 4: unexpected character '$'"),
            ("{}", "line 1, column 1: a selector must contain at least one matcher that does not match the empty text"),
            ("{a=\"\",b=~\".*\"}", "line 1, column 1: a selector must contain at least one matcher that does not match the empty text"),
            ("up[0s:1m]", "line 1, column 4: a duration must be greater than 0"),
            ("up{__name__=\"x\"}", "line 1, column 1: the metric's name must not be set twice: up"),
            ("a * on(b) group_left(b) c", "line 1, column 3: label b must not occur in both on and group_left"),
            ("a and on(b) group_right c", "line 1, column 3: set operator and allows no grouping"),
            ("a + on(b) 1", "line 1, column 3: vectors can be matched with vectors alone"),
            ("{a=\"\\q\"}", "line 1, column 4: unknown escape in a text"),
            ("up{a=~\"(\"}", "line 1, column 7: \"(\" is no regular expression"),
            ("up + bool 1", "line 1, column 6: expected an expression, found bool"),
            ("5x", "line 1, column 1: \"5x\" is neither a number nor a duration"),
            ("\"a\" + up", "line 1, column 1: the left side has to be a scalar or an instant vector, found a text"),
        ] {
            assert_eq!(check_promql(query).unwrap_err().to_string(), words, "{query}");
        }
        assert_eq!(check_promql(&"(".repeat(10_000)).unwrap_err().problem, PromqlProblem::TooDeep);
        assert_eq!(check_promql(&"-".repeat(10_000)).unwrap_err().problem, PromqlProblem::TooDeep);
        assert_eq!(check_promql(&"1".repeat(MAX_BYTES + 1)).unwrap_err().problem, PromqlProblem::TooLong);
    }
}
