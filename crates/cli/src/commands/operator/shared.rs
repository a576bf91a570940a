//! The words and tables of the plugin, which all verbs share.

use std::time::Duration;

use mainstay_operations::Session;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output;

/// A connection, with the namespace and the time that the verb has.
pub(super) struct Context {
    pub(super) session: Session,
    pub(super) namespace: String,
    /// The namespace that the command line names.
    pub(super) given: Option<String>,
    pub(super) timeout: Duration,
}

/// The subject of failures whose sentence says everything.
pub(super) const SELF: &str = "operator";

/// The line for an empty list.
pub(super) fn nothing(namespace: Option<&str>) -> Result<(), Failure> {
    output::line(match namespace {
        Some(namespace) => format!("No resources found in {namespace} namespace."),
        None => "No resources found".to_owned(),
    })
}

/// The failure as the plugin begins it.
pub(super) fn failed(what: &str, outcome: Result<(), Failure>) -> Result<(), Failure> {
    outcome.map_err(|failure| {
        let (exit, hints) = (failure.exit, failure.hints().to_vec());
        let told = Failure::new(exit, SELF, format!("{what}: {}", said(failure)));
        hints.into_iter().fold(told, Failure::hint)
    })
}

/// A failure on one line, its subject first.
pub(super) fn said(failure: Failure) -> String {
    let told = failure.into_told();
    let subject = &told.finding().subject;
    if subject == SELF || told.message().contains(subject.as_str()) { told.to_line() } else { format!("{subject}: {}", told.to_line()) }
}

/// Prints a table as the plugin does: columns are two blanks apart, an empty cell is empty.
pub(super) fn table(rows: &[Vec<String>]) -> Result<(), Failure> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default() + 2;
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        cells.map(|(at, (cell, width))| if at + 1 == row.len() { cell.clone() } else { format!("{cell:<width$}") }).collect::<String>()
    };
    output::print(&rows.iter().map(|row| line(row) + "\n").collect::<String>())
}

/// Titles of a table.
pub(super) fn titles(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The age of an object, as kubectl writes it.
pub(super) fn age(object: &serde_json::Value) -> String {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    created.map_or_else(|| "<unknown>".to_owned(), |created| mainstay_lifecycle::explanation::ago(jiff::Timestamp::now(), created))
}
