//! The value of a query at a time.

use std::collections::HashSet;

use crate::NAME;
use crate::expr::{Expr, Subquery};
use crate::samples::{Labels, Sample, Samples};

/// Samples that one evaluation may touch.
const MAX_WORK: usize = 5_000_000;
/// The step of a subquery that gives none, in milliseconds: the interval of evaluations.
const STEP: i64 = 60_000;

/// Why a query has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// It touches more samples than any real rule.
    #[error("the query touches more than {MAX_WORK} samples")]
    TooMuch,
    /// A part is parsed, but not evaluated.
    #[error("{0} is not evaluated here")]
    Unsupported(String),
    /// Several series of one side have the labels that are matched.
    #[error(
        "found duplicate series for the match group {group} on the {side} hand-side of the operation; many-to-many matching not allowed: matching labels must be unique on one side"
    )]
    ManyToMany {
        /// The labels that are matched.
        group: String,
        /// The side, `left` or `right`.
        side: &'static str,
    },
    /// Several series match one, and no grouping says so.
    #[error("multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)")]
    ManyToOne,
    /// Several results have the same labels.
    #[error("multiple matches for labels: grouping labels must ensure unique matches")]
    NotUnique,
    /// Several series of a result have the same labels.
    #[error("vector cannot contain metrics with the same labelset")]
    SameLabels,
    /// An argument of a function is wrong.
    #[error("{function}: {problem}")]
    Argument {
        /// The function.
        function: &'static str,
        /// The fault.
        problem: String,
    },
}

/// The values of a series in a range of time.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub labels: Labels,
    pub points: Vec<(i64, f64)>,
    pub begin: i64,
    pub end: i64,
}

/// A value of an expression.
#[derive(Debug)]
pub(crate) enum Value {
    Scalar(f64),
    Vector(Vec<Sample>),
    Matrix(Vec<Range>),
    Text(String),
}

impl Value {
    pub(crate) fn scalar(&self) -> f64 {
        match self {
            Self::Scalar(value) => *value,
            _ => f64::NAN,
        }
    }

    pub(crate) fn vector(self) -> Vec<Sample> {
        match self {
            Self::Vector(vector) => vector,
            _ => Vec::new(),
        }
    }

    pub(crate) fn matrix(self) -> Vec<Range> {
        match self {
            Self::Matrix(matrix) => matrix,
            _ => Vec::new(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }
}

/// Samples that may still be touched.
#[derive(Debug)]
pub(crate) struct Work(usize);

impl Work {
    pub(crate) fn spend(&mut self, samples: usize) -> Result<(), EvaluateError> {
        self.0 = self.0.checked_sub(samples).ok_or(EvaluateError::TooMuch)?;
        Ok(())
    }
}

pub(crate) struct Evaluation<'a> {
    pub samples: &'a Samples,
    pub query_at: i64,
    pub work: Work,
}

pub(crate) fn evaluate(expr: &Expr, samples: &Samples, at: i64) -> Result<Vec<Sample>, EvaluateError> {
    let mut evaluation = Evaluation { samples, query_at: at, work: Work(MAX_WORK) };
    Ok(match evaluation.value(expr, at)? {
        Value::Vector(vector) => vector,
        Value::Scalar(value) => vec![Sample { labels: Labels::new(), value }],
        Value::Matrix(_) | Value::Text(_) => Vec::new(),
    })
}

impl Evaluation<'_> {
    pub(crate) fn value(&mut self, expr: &Expr, at: i64) -> Result<Value, EvaluateError> {
        self.work.spend(1)?;
        Ok(match expr {
            Expr::Number(value) => Value::Scalar(*value),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Selector(selector) => match selector.range {
                None => Value::Vector(self.instant(selector, at)?.into_iter().map(|(sample, _)| sample).collect()),
                Some(length) => Value::Matrix(self.range(selector, length, at)?),
            },
            Expr::Subquery(subquery) => Value::Matrix(self.subquery(subquery, at)?),
            Expr::Call { function, arguments, .. } => self.call(function, arguments, at)?,
            Expr::Aggregate(aggregate) => Value::Vector(self.aggregate(aggregate, at)?),
            Expr::Binary(binary) => self.binary(binary, at)?,
            Expr::Negative(inner) => match self.value(inner, at)? {
                Value::Vector(vector) => Value::Vector(nameless(vector, |value| -value)?),
                other => Value::Scalar(-other.scalar()),
            },
        })
    }

    fn subquery(&mut self, subquery: &Subquery, at: i64) -> Result<Vec<Range>, EvaluateError> {
        let end = self.shifted(subquery.shift, at);
        let begin = end.saturating_sub(subquery.range);
        let step = subquery.step.unwrap_or(STEP);
        // Steps are multiples of the step, so that the same query looks at the same times again.
        let mut time = begin.div_euclid(step).saturating_mul(step);
        while time <= begin {
            time = time.saturating_add(step);
        }
        let mut found: Vec<Range> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while time <= end {
            for Sample { labels, value } in self.value(&subquery.inner, time)?.vector() {
                self.work.spend(1)?;
                let place = *places.entry(labels).or_insert_with_key(|labels| {
                    found.push(Range { labels: labels.clone(), points: Vec::new(), begin, end });
                    found.len() - 1
                });
                found[place].points.push((time, value));
            }
            self.work.spend(1)?;
            time = time.saturating_add(step);
        }
        Ok(found)
    }
}

/// Changes every value and drops the name.
pub(crate) fn nameless(vector: Vec<Sample>, mut change: impl FnMut(f64) -> f64) -> Result<Vec<Sample>, EvaluateError> {
    unique(vector.into_iter().map(|Sample { labels, value }| Sample { labels: without_name(labels), value: change(value) }).collect())
}

pub(crate) fn without_name(mut labels: Labels) -> Labels {
    labels.remove(NAME);
    labels
}

/// Refuses two samples with the same labels.
pub(crate) fn unique(vector: Vec<Sample>) -> Result<Vec<Sample>, EvaluateError> {
    let mut seen = HashSet::with_capacity(vector.len());
    if vector.iter().all(|sample| seen.insert(&sample.labels)) { Ok(vector) } else { Err(EvaluateError::SameLabels) }
}
