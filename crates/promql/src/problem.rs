//! The reasons for which a query is refused.

use crate::MAX_BYTES;

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
    /// A range, an offset or a time behind something that has none.
    #[error("{0} must follow a selector or a subquery")]
    Modifier(&'static str),
    /// An offset or a time is set again.
    #[error("{0} must not be set twice")]
    ModifierTwice(&'static str),
    /// A selector that selects everything.
    #[error("a selector must contain at least one matcher that does not match the empty text")]
    SelectsAll,
}
