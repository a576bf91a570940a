//! Output to stdout: aligned tables for people, JSON and YAML for programs (MS-CLI-06).

use std::io::ErrorKind;
use std::str::FromStr;

use serde_json::Value;

use crate::errors::{Exit, Failure};
use crate::printable::{printable_line, printable_yaml};
use crate::screen::{self, Kind};

mod jsonpath;

pub use jsonpath::{InvalidJsonPath, JsonPath};

/// Why a text is no format of output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFormat {
    /// It names none of the formats that there are.
    #[error("expected {0}")]
    Unknown(&'static str),
    /// It names a path that cannot be read.
    #[error(transparent)]
    JsonPath(#[from] InvalidJsonPath),
}

/// The format of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// An aligned table or a few lines.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name`, one per line.
    Name,
    /// The values at a path.
    JsonPath(JsonPath),
}

impl FromStr for Format {
    type Err = InvalidFormat;

    fn from_str(text: &str) -> Result<Self, InvalidFormat> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            other => match other.strip_prefix("jsonpath=") {
                Some(path) => Ok(Self::JsonPath(JsonPath::parse(path)?)),
                None => Err(InvalidFormat::Unknown("table, wide, json, yaml, name or jsonpath=PATH")),
            },
        }
    }
}

/// Returns a parser that accepts only the formats that a command's help names, so that every accepted format is written.
pub fn among(named: &'static str) -> impl Fn(&str) -> Result<Format, InvalidFormat> + Clone + Send + Sync + 'static {
    move |text| {
        let format = text.parse()?;
        let name = text.split('=').next().unwrap_or(text);
        let known = named.split([' ', ',', '=']).any(|word| word == name);
        if known { Ok(format) } else { Err(InvalidFormat::Unknown(named)) }
    }
}

impl Format {
    /// Returns whether the format is for people.
    pub fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// Prints text for people, with control characters escaped.
pub fn print(text: &str) -> Result<(), Failure> {
    printed(screen::out(text, Kind::Text))
}

/// Prints text that this program painted or drew; text of others in it was escaped before.
pub fn drawn(text: &str) -> Result<(), Failure> {
    printed(screen::out(text, Kind::Drawn))
}

/// Prints JSON.
pub fn json(text: &str) -> Result<(), Failure> {
    printed(screen::out(text, Kind::Json))
}

/// Prints YAML documents that read back the same, with every hidden character escaped.
pub fn yaml(documents: &[Value]) -> Result<(), Failure> {
    print(&printable_yaml(documents))
}

/// Lets `write` print data as it goes, in larger pieces, and byte for byte unless stdout is a terminal.
pub fn stream(kind: impl Into<Kind>, write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> Result<(), Failure> {
    printed(screen::data(kind.into(), write))
}

fn printed(outcome: std::io::Result<()>) -> Result<(), Failure> {
    match outcome {
        // The reader has seen enough (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed("standard output", &error)),
        Ok(()) => Ok(()),
    }
}

/// Prints text and ends the line.
pub fn line(text: impl AsRef<str>) -> Result<(), Failure> {
    print(&format!("{}\n", text.as_ref()))
}

/// Prints a document in a format for programs; tables are left to the caller.
pub fn value(format: &Format, value: &Value) -> Result<(), Failure> {
    match format {
        Format::Yaml => yaml(std::slice::from_ref(value)),
        Format::JsonPath(path) => line(path.evaluate(value)),
        Format::Name => {
            let items = value["items"].as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let named = items.iter().map(object_name).collect::<Option<Vec<String>>>().ok_or_else(|| {
                Failure::new(Exit::Usage, "-o name", "the answer is no object with a name").hint("-o json shows the whole answer")
            })?;
            named.iter().try_for_each(|name| line(printable_line(name)))
        }
        Format::Table | Format::Wide | Format::Json => json(&format!("{value:#}\n")),
    }
}

/// Returns the name of an object as kubectl writes it: `clusterextension.olm.operatorframework.io/name`.
fn object_name(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
    let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
    let name = object["metadata"]["name"].as_str().or_else(|| object["name"].as_str())?;
    Some(match group {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    })
}

/// An aligned table.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these column titles.
    pub fn new(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(|title| (*title).to_owned()).collect()] }
    }

    /// Adds a row; an empty cell is shown as `-`.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let shown = |cell: T| {
            let cell: String = cell.into();
            let first = printable_line(cell.trim_start().lines().next().unwrap_or_default()).into_owned();
            if first.is_empty() { "-".to_owned() } else { first }
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Returns whether the table has no row but the titles.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Returns the table as text, indented by `indent` blanks.
    pub fn render(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut text = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                text.push_str(cell);
                text.push_str(&" ".repeat(width + 3 - cell.chars().count()));
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }

    /// Prints the table.
    pub fn print(&self) -> Result<(), Failure> {
        print(&self.render(0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// MS-CLI-06: tables are aligned, without blanks at the end of lines.
    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(&["NAME", "VERSION"]);
        table.row(["a", "1.0.0"]);
        table.row(["longer", ""]);
        assert_eq!(table.render(0), "NAME     VERSION\na        1.0.0\nlonger   -\n");
    }

    /// MS-CLI-06: the output formats.
    #[test]
    fn formats() {
        assert_eq!("json".parse::<Format>().unwrap(), Format::Json);
        assert!(matches!("jsonpath={.a}".parse::<Format>().unwrap(), Format::JsonPath(_)));
        assert!("xml".parse::<Format>().is_err());
        assert!("jsonpath={..a}".parse::<Format>().is_err());
    }
}
