//! Findings in the words of Ignition 0.x, which shows the text before each.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The config cannot be used.
    Error,
    /// The config can be used.
    Warning,
    /// A remark.
    Info,
    /// The config uses what is no longer there.
    Deprecated,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Error => "error",
            Kind::Warning => "warning",
            Kind::Info => "info",
            Kind::Deprecated => "deprecated",
        })
    }
}

/// A place in a text, with the text before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The line, from 1; 0 if there is no place.
    line: usize,
    column: usize,
    highlight: String,
}

impl Place {
    /// The place behind the first `at` bytes of a text.
    pub(super) fn behind(text: &str, at: usize) -> Self {
        let before = &text.as_bytes()[..at.min(text.len())];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.split(|byte| *byte == b'\n').count();
        // Upstream counts from 1 behind a line end, but from 0 on the first line.
        let column = before.len() - start + usize::from(line > 1);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut highlight = String::new();
        if line > 1 {
            let last = &before[..start - 1];
            let last = &last[last.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
            highlight = format!("{:5}: {}\n", line - 1, shown(last));
        }
        let marked = format!("{line:5}: {}\n{}^\n", shown(&before[start..]), " ".repeat(column + 5));
        highlight.push_str(&marked);
        Self { line, column, highlight }
    }

    /// The same place without the text before it.
    pub(super) fn bare(&self) -> Self {
        Self { line: self.line, column: self.column, highlight: String::new() }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its severity.
    pub kind: Kind,
    /// Upstream's words.
    pub message: String,
    place: Place,
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, highlight } = &self.place;
        match line {
            0 => write!(out, "{}: {}", self.kind, self.message),
            line => write!(out, "{} at line {line}, column {column}\n{highlight}{}", self.kind, self.message),
        }
    }
}

/// Findings, in the order in which upstream lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings.
    pub entries: Vec<Entry>,
}

impl Report {
    pub(super) fn add(&mut self, kind: Kind, message: impl fmt::Display) {
        self.entries.push(Entry { kind, message: message.to_string(), place: Place::default() });
    }

    /// One error behind the first bytes of a text.
    pub(super) fn of_text(text: &str, at: usize, message: &str) -> Self {
        let mut report = Self::default();
        report.add_at(Kind::Error, message, Place::behind(text, at));
        report
    }

    pub(super) fn add_at(&mut self, kind: Kind, message: impl fmt::Display, place: Place) {
        self.entries.push(Entry { kind, message: message.to_string(), place });
    }

    /// Gives a place to all findings that have none.
    pub(super) fn placed(mut self, place: &Place) -> Self {
        for entry in &mut self.entries {
            if entry.place.line == 0 {
                entry.place = place.clone();
            }
        }
        self
    }

    pub(super) fn append(&mut self, other: Report) {
        self.entries.extend(other.entries);
    }

    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether the config cannot be used.
    pub fn is_fatal(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Error)
    }

    /// Returns whether the config uses what is no longer there.
    pub fn is_deprecated(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Deprecated)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{entry}")?;
        }
        Ok(())
    }
}
