//! Failures: a finding about an operation that failed, and its kind, for programs.

use std::error::Error;
use std::fmt;

use crate::{Cause, Finding, Hint};

/// The kind of a failure, as callers distinguish it. A command line turns it into an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The operation failed, or the input is invalid.
    Failed,
    /// The request does not state what is wanted.
    Usage,
    /// Something that was named is not found.
    NotFound,
    /// The request cannot be met: it is unsatisfiable, unsafe or forbidden.
    Impossible,
    /// The operation took too long.
    TimedOut,
}

impl FailureKind {
    /// The code of findings of this kind.
    pub fn code(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Impossible => "impossible",
            Self::TimedOut => "timed-out",
        }
    }
}

/// A failure of an operation: its object, the event, its causes, and hints.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: FailureKind,
    // Boxed, since results carry failures through every call.
    finding: Box<Finding>,
}

impl Failure {
    /// A failure of `subject`, the object first: `catalog ./x`, `package foo`.
    pub fn new(kind: FailureKind, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, finding: Box::new(Finding::error(kind.code(), subject, message)) }
    }

    /// A failure that an error led to, with the chain of errors below it as causes.
    pub fn of(kind: FailureKind, subject: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        let failure = Self::new(kind, subject, error.to_string());
        match Cause::below(error) {
            Some(cause) => failure.because(cause),
            None => failure,
        }
    }

    /// A failure of kind [`FailureKind::Failed`]: invalid input, or an operation that failed.
    pub fn failed(subject: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        Self::of(FailureKind::Failed, subject, error)
    }

    /// Its kind.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the same failure with another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: FailureKind) -> Self {
        self.kind = kind;
        self.finding.code = kind.code().into();
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.finding.causes.push(cause.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.finding.hints.push(hint.into());
        self
    }

    /// The finding.
    pub fn finding(&self) -> &Finding {
        &self.finding
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.finding.message
    }

    /// The hints.
    pub fn hints(&self) -> &[Hint] {
        &self.finding.hints
    }

    /// The message and its causes on one line.
    pub fn to_line(&self) -> String {
        let causes = self.finding.causes.iter().map(|cause| format!(": {}", cause.to_line()));
        std::iter::once(self.finding.message.clone()).chain(causes).collect()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_line())
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-06: a failure says the same on one line, and another kind has another code.
    #[test]
    fn lines_and_kinds() {
        let failure = Failure::new(FailureKind::Impossible, "package a", "no bundle fits").because(Cause::new("one").because("two"));
        assert_eq!(failure.to_line(), "no bundle fits: one: two");
        let failure = failure.with_kind(FailureKind::NotFound);
        assert_eq!((failure.kind(), failure.finding().code.as_str()), (FailureKind::NotFound, "not-found"));
    }
}
