//! TOML as the library of upstream's programs reads it, with its words about mistakes.
//!
//! `scan` reads letters and counts lines, `read` builds tables and refuses what stands twice.

mod read;
mod scalar;
mod scan;

use std::collections::BTreeMap;

pub(crate) use read::read;

/// A table by its keys.
pub(crate) type Table = BTreeMap<String, Value>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Float,
    Datetime,
    Array(Vec<Value>),
    Table(Table),
    /// Tables that were given by `[[...]]`.
    Tables(Vec<Table>),
}

impl Value {
    /// The name of the value's type as Go writes it.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int64",
            Value::Float => "float64",
            Value::Datetime => "time.Time",
            Value::Array(_) => "[]any",
            Value::Table(_) => "map[string]any",
            Value::Tables(_) => "[]map[string]any",
        }
    }
}

/// A document: its values, and the line on which each key was last set, by the key's whole name.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) root: Table,
    pub(crate) lines: BTreeMap<String, usize>,
}

/// Why a text is no TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TomlError {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) message: String,
}

impl std::fmt::Display for TomlError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.key.as_str() {
            "" => write!(out, "toml: line {}: {}", self.line, self.message),
            key => write!(out, "toml: line {} (last key {}): {}", self.line, mainstay_golang::quote(key), self.message),
        }
    }
}

impl std::error::Error for TomlError {}

/// The whole name of a key: its parts with dots, quoted where they must be.
pub(crate) fn key_name(parts: &[String]) -> String {
    let shown: Vec<String> = parts
        .iter()
        .map(|part| {
            let is_bare = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
            if is_bare { part.clone() } else { format!("\"{}\"", escaped(part)) }
        })
        .collect();
    shown.join(".")
}

fn escaped(part: &str) -> String {
    part.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r")
}
