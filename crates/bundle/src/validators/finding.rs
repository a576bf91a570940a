//! One finding of a validator: upstream's level, type and words, and beyond them the rule, the place and a fix.

use std::fmt;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The bundle is refused.
    Error,
    /// The bundle works, but something should be changed.
    Warning,
}

impl Level {
    /// The word that upstream's texts begin with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
        }
    }
}

/// A checked rule: its name, upstream's type of its findings, and a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// A stable name: `csv/install-modes`.
    pub id: &'static str,
    /// Upstream's type of error: `CSVFileNotValid`.
    pub kind: &'static str,
    /// The fix.
    pub fix: &'static str,
}

/// The place of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, relative to the bundle's root.
    pub file: String,
    /// The field as Kubernetes writes it, `spec.relatedImages[0].image`; empty for the whole file.
    pub path: String,
    /// The line of the field, counted from 1, if it could be found.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.file)?;
        self.line.map_or(Ok(()), |line| write!(out, ":{line}"))
    }
}

/// A problem that a validator found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The validator that found it.
    pub validator: &'static str,
    /// Its severity.
    pub level: Level,
    /// The rule that it breaks.
    pub rule: &'static Rule,
    /// Upstream's type, if a rule has several.
    pub kind: &'static str,
    /// The field that upstream names; empty for none.
    pub field: String,
    /// The value that upstream names, as Go prints it.
    pub value: Option<String>,
    /// The problem in words.
    pub detail: String,
    /// The place, if it is known.
    pub place: Option<Place>,
}

impl Finding {
    /// An error about a value.
    pub(crate) fn error(rule: &'static Rule, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            validator: "",
            level: Level::Error,
            rule,
            kind: rule.kind,
            field: String::new(),
            value: Some(value.into()),
            detail: detail.into(),
            place: None,
        }
    }

    /// A warning about a value.
    pub(crate) fn warning(rule: &'static Rule, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(rule, value, detail) }
    }

    /// The same finding without a value.
    pub(crate) fn without_value(self) -> Self {
        Self { value: None, ..self }
    }

    /// The same finding with the field that upstream names.
    pub(crate) fn field(self, field: impl Into<String>) -> Self {
        Self { field: field.into(), ..self }
    }

    /// The same finding with its place.
    pub(crate) fn at(self, file: &str, path: impl Into<String>) -> Self {
        Self { place: Some(Place { file: file.to_owned(), path: path.into(), line: None }), ..self }
    }

    /// Upstream's text without the level, as consoles show it.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

/// Writes the text as upstream's `Error()` gives it.
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A finding that does not come from the validation library itself is written as it is.
        if self.kind.is_empty() {
            return out.write_str(&self.detail);
        }
        let detail = if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) };
        let text = match (self.field.as_str(), &self.value) {
            ("", None) => detail,
            ("", Some(value)) => format!("Value {value}{detail}"),
            (field, None) => format!("Field {field}{detail}"),
            (field, Some(value)) => format!("Field {field}, Value {value}{detail}"),
        };
        if text.is_empty() { out.write_str("ErrMessageMissing") } else { write!(out, "{}: {text}", self.level.as_str()) }
    }
}
