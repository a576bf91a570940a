//! The faults of the file of graph-data.

use mainstay_golang::quote;

use super::SCHEMA;

/// An error of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphDataError {
    /// The file's path below the folder.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The problem.
    pub problem: GraphDataProblem,
}

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GraphDataProblem {
    /// The file is missing.
    #[error("the file is missing")]
    Missing,
    /// The file is too large, or there is too much in it.
    #[error("more than {limit} {what}")]
    TooLarge {
        /// The limit that is exceeded.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The file is not UTF-8.
    #[error("the file is not UTF-8")]
    Encoding,
    /// The file is no YAML.
    #[error("{}", .0.problem)]
    Yaml(mainstay_yaml::Error),
    /// The file is no JSON.
    #[error("{0}")]
    Json(String),
    /// A key stands there twice.
    #[error("key {0} stands there twice")]
    Duplicate(String),
    /// A field is missing or has a wrong type.
    #[error("{}: expected {expected}", shown(.field))]
    Field {
        /// The field.
        field: String,
        /// The form that is expected.
        expected: &'static str,
    },
    /// A text is no version.
    #[error("field {field}: {} is not a semantic version: {source}", quote(.text))]
    Version {
        /// The field.
        field: &'static str,
        /// The text.
        text: String,
        /// The problem.
        source: mainstay_versions::Error,
    },
    /// The schema is another one.
    #[error("unrecognized graph-data version {0}; \"{SCHEMA}\" and compatible versions are supported")]
    Schema(String),
    /// A text is no regular expression.
    #[error("field from: {} is no regular expression: {source}", quote(.text))]
    Pattern {
        /// The text.
        text: String,
        /// The problem.
        source: regex::Error,
    },
    /// A blocked edge has some fields of a risk, but not all.
    #[error("a risk needs url, name, message and matchingRules; {0} is missing")]
    PartOfRisk(&'static str),
}

fn shown(field: &str) -> String {
    if field == "the file" { field.to_owned() } else { format!("field {field}") }
}

impl GraphDataError {
    /// An error of a file.
    pub(crate) fn new(file: &str, problem: GraphDataProblem) -> Self {
        let line = if let GraphDataProblem::Yaml(error) = &problem { Some(error.line) } else { None };
        Self { file: file.to_owned(), line, problem }
    }

    /// The same error at a line.
    #[must_use]
    pub(crate) fn at(mut self, line: impl Into<Option<usize>>) -> Self {
        self.line = line.into().or(self.line);
        self
    }
}

impl std::fmt::Display for GraphDataError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: {}", self.file, self.problem),
            None => write!(out, "{}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for GraphDataError {}
