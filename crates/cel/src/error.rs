//! Errors in an expression, before and while it runs.

use std::fmt;
use std::sync::Arc;

/// A problem at a place in the text of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) at: usize,
    pub(crate) problem: String,
}

impl Issue {
    pub(crate) fn new(at: usize, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }

    /// The problem with its line and a mark below the place, as people know it from Kubernetes.
    pub(crate) fn show(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or("").chars().count();
        let shown = text.split('\n').nth(line).unwrap_or("").replace('\t', " ");
        format!("ERROR: <input>:{}:{}: {}\n | {shown}\n | {}^", line + 1, column + 1, self.problem, ".".repeat(column))
    }
}

/// An expression that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Syntax or types are wrong; the text marks every place.
    #[error("compilation failed: {0}")]
    Invalid(String),
    /// It is well formed but can only fail.
    #[error("program instantiation failed: {0}")]
    Instantiation(String),
    /// It has another type than its place demands.
    #[error("cel expression must evaluate to a {0}")]
    WrongType(&'static str),
    /// It is longer than is read at all.
    #[error("the expression has {length} bytes, more than the limit of {limit}")]
    TooLong {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
}

/// An expression that failed while it ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub(crate) Arc<str>);

impl EvalError {
    pub(crate) fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    pub(crate) fn overload() -> Self {
        Self("no such overload".into())
    }

    /// Returns true if arguments had types that no function takes.
    pub fn is_overload(&self) -> bool {
        self.0.starts_with("no such overload")
    }

    /// Returns true if the expression ran too long.
    pub fn is_cost_limit(&self) -> bool {
        self.0.starts_with(COST_LIMIT)
    }
}

pub(crate) const COST_LIMIT: &str = "operation cancelled: actual cost limit exceeded";
