//! Findings about a config: their places, severities and words.

use std::fmt;

use crate::node::{Node, Value};

/// A step from a struct to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field.
    Field(String),
    /// An entry of a list.
    Index(usize),
    /// A key that no field has.
    Key(String),
}

impl From<&str> for Step {
    fn from(name: &str) -> Self {
        Step::Field(name.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// The way from a config to a value in it: `$.storage.files.0.path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl FromIterator<Step> for Path {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

/// A way while it is gone: the last step, and the way before it. It becomes a [`Path`] only where something is found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail<'t> {
    before: Option<&'t Trail<'t>>,
    last: Option<TrailStep<'t>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TrailStep<'t> {
    Field(&'t str),
    Index(usize),
    Key(&'t str),
}

impl<'t> From<&'t str> for TrailStep<'t> {
    fn from(name: &'t str) -> Self {
        TrailStep::Field(name)
    }
}

impl From<usize> for TrailStep<'_> {
    fn from(index: usize) -> Self {
        TrailStep::Index(index)
    }
}

impl<'t> Trail<'t> {
    /// The way one step further.
    pub(crate) fn then(&'t self, step: impl Into<TrailStep<'t>>) -> Trail<'t> {
        Trail { before: Some(self), last: Some(step.into()) }
    }

    /// The way one step further, to a key that no field has.
    pub(crate) fn then_key(&'t self, key: &'t str) -> Trail<'t> {
        self.then(TrailStep::Key(key))
    }
}

impl From<Trail<'_>> for Path {
    fn from(trail: Trail<'_>) -> Self {
        let mut steps = Vec::new();
        let mut at = Some(&trail);
        while let Some(trail) = at {
            steps.extend(trail.last.map(|step| match step {
                TrailStep::Field(name) => Step::Field(name.to_owned()),
                TrailStep::Index(index) => Step::Index(index),
                TrailStep::Key(key) => Step::Key(key.to_owned()),
            }));
            at = trail.before;
        }
        steps.reverse();
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("$")?;
        for step in &self.0 {
            match step {
                Step::Field(name) | Step::Key(name) => write!(out, ".{name}")?,
                Step::Index(index) => write!(out, ".{index}")?,
            }
        }
        Ok(())
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The config cannot be used.
    Error,
    /// The config can be used, but may not do what is meant.
    Warning,
    /// A remark.
    Info,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        })
    }
}

/// A place in a text, counted from 1; bytes count as columns. The end of the text has no place and is line 0, column 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its severity.
    pub severity: Severity,
    /// Where in the config.
    pub path: Path,
    /// Where in its text, if there is one.
    pub position: Option<Position>,
    /// Upstream's words.
    pub message: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.severity)?;
        match (&self.position, self.path.0.is_empty()) {
            (Some(Position { line, column }), false) => write!(out, " at {}, line {line} col {column}", self.path)?,
            (Some(Position { line, column }), true) => write!(out, " at line {line} col {column}")?,
            (None, false) => write!(out, " at {}", self.path)?,
            (None, true) => {}
        }
        write!(out, ": {}", self.message)
    }
}

/// Findings, in the order in which upstream lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings.
    pub entries: Vec<Entry>,
}

impl Report {
    /// Adds a finding.
    pub fn add(&mut self, severity: Severity, path: impl Into<Path>, message: impl fmt::Display) {
        self.entries.push(Entry { severity, path: path.into(), position: None, message: message.to_string() });
    }

    /// Adds what was found, if anything was.
    pub fn add_error<E: fmt::Display>(&mut self, path: impl Into<Path>, found: Result<(), E>) {
        if let Err(error) = found {
            self.add(Severity::Error, path, error);
        }
    }

    /// Returns whether the config cannot be used.
    pub fn is_fatal(&self) -> bool {
        self.entries.iter().any(|entry| entry.severity == Severity::Error)
    }

    /// Names the place in the text of each finding: that of its value, or of the next one around it.
    pub(crate) fn locate(&mut self, root: &Node<'_>, lines: &Lines<'_>) {
        for entry in &mut self.entries {
            entry.position = Some(lines.position(marker(root, entry.path.steps())));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(out, "{entry}"))
    }
}

/// The place of the deepest value on a way that is in the text.
fn marker(root: &Node<'_>, steps: &[Step]) -> usize {
    let mut node = root;
    for step in steps {
        let next = match (step, &node.value) {
            (Step::Field(name), Value::Object(_)) => node.member(name).map(|member| &member.node),
            (Step::Key(name), Value::Object(_)) => {
                return node.member(name).map_or(node.marker(), |member| member.key_first);
            }
            (Step::Index(index), Value::Array(_)) => node.item(*index),
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    node.marker()
}

/// The beginnings of a text's lines.
pub(crate) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub(crate) fn position(&self, at: usize) -> Position {
        if at >= self.text.len() {
            return Position { line: 0, column: 0 };
        }
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        Position { line, column: at - start + 1 }
    }
}
