//! Prometheus' query language (CVO-GD-06, CVO-RISK-03, COP-11).
//!
//! A [`Query`] is parsed with the types of its parts (scalar, instant vector, range vector, text) and can be evaluated over [`Samples`], which
//! hold a window of a few scrapes in memory. The parser is our own: the errors of the crate `promql-parser` are texts without a line and a column,
//! it has no limit of depth, and it brings two dozen crates that generate its tables. Ranges are open on the left, as in Prometheus 3. Native
//! histograms and a few functions are parsed but not evaluated: [`Query::unsupported`] names them. Tests compare verdicts and values with those of
//! a real Prometheus.
//!
//! ```text
//!   text -> lexer -> parser -> expr -> evaluate { select, binary, aggregate, calls } <- samples
//! ```

mod aggregate;
mod binary;
mod calls;
mod evaluate;
mod expr;
mod functions;
mod histogram;
mod label_calls;
mod lexer;
mod parser;
mod problem;
mod ranges;
mod samples;
mod select;

pub use evaluate::EvaluateError;
pub use problem::{PromqlError, PromqlProblem};
pub use samples::{Labels, Sample, Samples, TooManySeries};

use expr::{Expr, Kind, Selector};
use parser::Parser;

/// The longest query, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The label of a metric's name.
pub const NAME: &str = "__name__";
/// The time for which a sample stands for its series, in milliseconds.
const LOOKBACK: i64 = 300_000;

/// A query that gives an instant vector or a scalar.
#[derive(Debug, Clone)]
pub struct Query(Expr);

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// If it cannot be parsed, its parts have wrong types, or its result is neither an instant vector nor a scalar.
    pub fn parse(text: &str) -> Result<Self, PromqlError> {
        let expr = parsed(text)?;
        match expr.kind() {
            Kind::Vector | Kind::Scalar => Ok(Self(expr)),
            other => Err(wrong_result(text, other)),
        }
    }

    /// The series that it reads.
    pub fn selected(&self) -> Vec<Selected<'_>> {
        let mut all = Vec::new();
        self.0.walk(0, &mut |expr, _| {
            if let Expr::Selector(selector) = expr {
                all.push(Selected(selector));
            }
        });
        all
    }

    /// Milliseconds before its evaluation from which on it needs samples. None if it looks at a fixed time.
    pub fn reach(&self) -> Option<i64> {
        let mut reach = Some(0);
        self.0.walk(0, &mut |expr, before| {
            let (range, shift) = match expr {
                Expr::Selector(selector) => (selector.range.unwrap_or(LOOKBACK), selector.shift),
                Expr::Subquery(subquery) => (subquery.range, subquery.shift),
                _ => return,
            };
            let needs = before.saturating_add(range).saturating_add(shift.offset.max(0));
            reach = if matches!(shift.at, Some(expr::At::Time(_))) { None } else { reach.map(|reach| reach.max(needs)) };
        });
        reach
    }

    /// The first function of it that is not evaluated here.
    pub fn unsupported(&self) -> Option<&str> {
        let mut found = None;
        self.0.walk(0, &mut |expr, _| {
            let name = match expr {
                Expr::Call { function, .. } => function,
                Expr::Aggregate(aggregate) => &aggregate.operator,
                _ => return,
            };
            if functions::is_parsed_only(name) {
                found = found.or(Some(name.as_str()));
            }
        });
        found
    }

    /// Its value at a time (milliseconds since 1970): samples without a name where the language drops it. A scalar is one sample without labels.
    ///
    /// # Errors
    ///
    /// If series do not match as the language demands, a part of it is not evaluated here, or it touches more samples than any real rule.
    pub fn evaluate(&self, samples: &Samples, at: i64) -> Result<Vec<Sample>, EvaluateError> {
        evaluate::evaluate(&self.0, samples, at)
    }
}

/// A selector of a query.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a>(&'a Selector);

impl<'a> Selected<'a> {
    /// The metric's name, if it selects one only.
    pub fn name(&self) -> Option<&'a str> {
        self.0.name()
    }

    /// The value that it demands of a label, if it demands one.
    pub fn equals(&self, label: &str) -> Option<&'a str> {
        self.0.equals(label)
    }
}

/// Milliseconds of a duration as rules write it: `1h30m`. None if it is none.
pub fn duration(text: &str) -> Option<i64> {
    lexer::duration(text)
}

/// Checks a query of a rule: it parses, and its result is an instant vector.
///
/// # Errors
///
/// The first fault, with its line and column.
pub fn check_promql(query: &str) -> Result<(), PromqlError> {
    match parsed(query)?.kind() {
        Kind::Vector => Ok(()),
        other => Err(wrong_result(query, other)),
    }
}

fn parsed(query: &str) -> Result<Expr, PromqlError> {
    if query.len() > MAX_BYTES {
        return Err(placed(query, 0, PromqlProblem::TooLong));
    }
    let fail = |(at, problem)| placed(query, at, problem);
    let tokens = lexer::tokens(query).map_err(fail)?;
    Parser::new(&tokens).whole().map_err(fail)
}

fn wrong_result(query: &str, found: Kind) -> PromqlError {
    placed(query, 0, PromqlProblem::Type { place: "the result".to_owned(), expected: Kind::Vector.name(), found: found.name() })
}

/// The problem at a byte, with line and column.
fn placed(query: &str, at: usize, problem: PromqlProblem) -> PromqlError {
    let before = &query[..at.min(query.len())];
    let line = before.matches('\n').count() + 1;
    PromqlError { line, column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1, problem }
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
            ("sum(up) offset 5m", "line 1, column 9: offset must follow a selector or a subquery"),
            ("up offset 1m offset 2m", "line 1, column 14: offset must not be set twice"),
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
