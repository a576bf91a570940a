//! The parts of a finding.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// The severity of a finding, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Useful to know.
    Info,
    /// Works, but needs attention.
    Warning,
    /// Failed.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// The stable name of a kind of finding, such as `catalog-blob` or `missing-rbac`; scripts may rely on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// A code that is known at compile time.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Code {
    fn from(name: &'static str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Code {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One fact that led to the finding, with the facts that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The fact in one sentence without a full stop.
    pub message: String,
    /// Its causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

impl Cause {
    /// A fact without further causes.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new() }
    }

    /// Adds a cause of this fact.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// The chain of an error: itself and every `source()`, each the cause of the one before.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { message: error.to_string(), causes: Self::below(error).into_iter().collect() }
    }

    /// The causes of an error, without those with which its own message already ends.
    pub fn below(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let said = error.to_string();
        let mut source = error.source();
        while let Some(next) = source {
            let cause = Self::of(next);
            if !said.ends_with(&cause.message) {
                return Some(cause);
            }
            source = next.source();
        }
        None
    }
}

impl Cause {
    /// The fact and its causes on one line.
    pub fn to_line(&self) -> String {
        self.causes.iter().fold(self.message.clone(), |line, below| format!("{line}: {}", below.to_line()))
    }
}

impl<T: Into<String>> From<T> for Cause {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}

/// A hint, best a command that works as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Hint(String);

impl Hint {
    /// A hint of that text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Hint {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The place of the evidence. Absent parts are unknown or do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    /// File, as the user named it, or below the root that the user named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Field path within the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Location {
    /// A place in a file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: Some(file.into()), ..Self::default() }
    }

    /// A field of the subject.
    pub fn field(field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::default() }
    }

    /// The same place with a line.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    /// The same place with a field.
    #[must_use]
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(out, "{file}:{line}")?,
            (Some(file), None) => out.write_str(file)?,
            (None, Some(line)) => write!(out, "line {line}")?,
            (None, None) => {}
        }
        match &self.field {
            Some(field) if self.file.is_some() || self.line.is_some() => write!(out, ", field {field}"),
            Some(field) => write!(out, "field {field}"),
            None => Ok(()),
        }
    }
}

/// One message to a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its stable name.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// The object it is about, kind first: `catalog example`, `clusterextension quay`.
    pub subject: String,
    /// The message, one sentence without a full stop.
    pub message: String,
    /// The causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The hints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// The place of the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

impl Finding {
    /// A finding of a severity.
    pub fn new(severity: Severity, code: impl Into<Code>, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            severity,
            subject: subject.into(),
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            location: None,
        }
    }

    /// A finding of an operation or thing that failed.
    pub fn error(code: impl Into<Code>, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, subject, message)
    }

    /// A finding that needs attention.
    pub fn warning(code: impl Into<Code>, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, subject, message)
    }

    /// A finding that is useful to know.
    pub fn info(code: impl Into<Code>, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Info, code, subject, message)
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets the place of the evidence.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Told(&'static str, Option<Box<Told>>);

    impl fmt::Display for Told {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(self.0)
        }
    }

    impl std::error::Error for Told {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    /// A reader is told each fact once, though many errors say their source's words and name it as their source too.
    #[test]
    fn no_cause_says_the_same_again() {
        let full = || Box::new(Told("No space left on device", None));
        let twice = Told("layout out: No space left on device", Some(full()));
        assert_eq!(Cause::below(&twice), None);
        let middle = Told("cannot write: No space left on device", Some(full()));
        let outer = Told("image x", Some(Box::new(middle)));
        assert_eq!(Cause::below(&outer), Some(Cause::new("cannot write: No space left on device")));
        let deep = Told("all: the disk", Some(Box::new(Told("the disk", Some(full())))));
        assert_eq!(Cause::below(&deep), Some(Cause::new("No space left on device")));
    }
}
