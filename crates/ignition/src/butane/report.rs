//! Findings about a Butane config.

use std::fmt;

use mainstay_yaml::{Marked, Shape};

use super::paths::{Paths, Way};
use crate::report::{Path, Severity, Step};

/// Whose way a finding names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    /// That of the config.
    Source,
    /// That of the result.
    Result,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// Where.
    pub way: Vec<Step>,
    /// Line and column in the text.
    pub place: Option<(usize, usize)>,
    /// Upstream's words.
    pub message: String,
    whose: In,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Path = self.way.iter().cloned().collect();
        write!(out, "{}", self.severity)?;
        match (self.place, self.way.is_empty()) {
            (Some((line, column)), false) => write!(out, " at {path}, line {line} col {column}")?,
            (Some((line, column)), true) => write!(out, " at line {line} col {column}")?,
            (None, false) => write!(out, " at {path}")?,
            (None, true) => {}
        }
        write!(out, ": {}", self.message)
    }
}

/// Findings, in upstream's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))
    }
}

impl Report {
    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns whether an error was found.
    pub fn is_fatal(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    pub(super) fn add(&mut self, severity: Severity, whose: In, way: Way, message: impl fmt::Display) {
        self.findings.push(Finding { severity, way, place: None, message: message.to_string(), whose });
    }

    /// Adds an error about the config.
    pub(super) fn error(&mut self, way: Way, message: impl fmt::Display) {
        self.add(Severity::Error, In::Source, way, message);
    }

    /// Adds a warning about the config.
    pub(super) fn warning(&mut self, way: Way, message: impl fmt::Display) {
        self.add(Severity::Warning, In::Source, way, message);
    }

    pub(super) fn append(&mut self, other: Report) {
        self.findings.extend(other.findings);
    }

    /// Names the places in the config of findings about the result; where it is not known, the same names in the config's style.
    pub(super) fn traced(mut self, paths: &Paths) -> Self {
        for finding in self.findings.iter_mut().filter(|finding| finding.whose == In::Result) {
            finding.way = match paths.source(&finding.way) {
                Some(source) => {
                    finding.whose = In::Source;
                    source.clone()
                }
                None => finding.way.iter().map(snake).collect(),
            };
        }
        self
    }

    pub(super) fn locate(&mut self, tree: &Marked) {
        for finding in &mut self.findings {
            finding.place = Some(place(tree, &finding.way));
        }
    }
}

fn snake(step: &Step) -> Step {
    match step {
        Step::Field(name) => Step::Field(snake_case(name)),
        other => other.clone(),
    }
}

/// A name in the style of Butane: `sizeMiB` is `size_mib`.
pub(super) fn snake_case(name: &str) -> String {
    let name = name.replace("MiB", "_mib");
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The place of the deepest value on a way that is in the text.
fn place(tree: &Marked, way: &[Step]) -> (usize, usize) {
    let mut at = tree;
    for step in way {
        let next = match (step, &at.shape) {
            (Step::Field(name), Shape::Mapping(members)) => {
                members.iter().rfind(|(key, _)| key_text(key) == Some(name)).map(|(_, value)| value)
            }
            (Step::Key(name), Shape::Mapping(members)) => {
                return members
                    .iter()
                    .rfind(|(key, _)| key_text(key) == Some(name))
                    .map_or((at.line, at.column), |(key, _)| (key.line, key.column));
            }
            (Step::Index(index), Shape::Sequence(items)) => items.get(*index),
            _ => None,
        };
        let Some(next) = next else { break };
        at = next;
    }
    // A value that is not written stands behind its `:` or `-`, whose place it has in the tree.
    let is_unwritten = matches!(&at.shape, Shape::Scalar { text, plain: true } if text.is_empty());
    (at.line, at.column + usize::from(is_unwritten))
}

/// The text of a key.
pub(super) fn key_text(key: &Marked) -> Option<&str> {
    match &key.shape {
        Shape::Scalar { text, .. } => Some(text),
        _ => None,
    }
}
