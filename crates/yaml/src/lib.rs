//! YAML in the dialect of kubectl.
//!
//! kubectl and the API server read YAML 1.1 with the habits of their Go library, turn it into JSON, and go on from there. A file that
//! means one thing to them and another to Mainstay would be a trap, so this crate follows those habits and not the YAML 1.2 core schema:
//! ```text
//!   text ──┬─ JSON ({) ── serde_json ───────────────────────┐
//!          └─ YAML ── scan ── parse ── compose ── resolve ───┴── Document { value, line, duplicates }
//!   Value ── emit ── text that reads back as the same Value
//! ```
//!
//! `scan` makes tokens of text and `parse` a tree of tokens, by the grammar of libyaml, which is that of YAML 1.1 with its habits. It reads and
//! refuses the same texts as Go's library. `resolve` decides the type of a plain scalar, `compose` builds values (aliases, merges,
//! limits), `json` is the fast path for JSON text, `emit` writes.
//!
//! A text cannot grow much when it is read: the bytes that aliases repeat are counted over all documents of a text, and bounded
//! ([`Options::max_repeated`]); nesting, values and reported duplicates are bounded too.

mod binary;
mod compose;
mod emit;
mod input;
mod json;
mod marked;
mod order;
mod parse;
mod path;
mod read;
mod resolve;
mod scan;
mod token;
mod tree;

pub use emit::{Layout, to_multi_string, to_string, to_string_as};
pub use marked::{Marked, Shape, read_marked};
pub use read::{Documents, parse, parse_with, stream, stream_with};

use serde_json::Value;

/// One document of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its content; `Null` for an empty document.
    pub value: Value,
    /// The line its content begins on, counted from 1; of an empty document the first of its lines.
    pub line: usize,
    /// Keys given more than once in one mapping, of which the last one won. Only the first hundred are reported.
    pub duplicates: Vec<Duplicate>,
}

/// A key that stands twice in one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The field's path as Kubernetes writes it: `spec.containers[0].image`.
    pub path: String,
    /// The key.
    pub key: String,
    /// The line of the later occurrence; in JSON text the line its document begins on.
    pub line: usize,
}

impl Document {
    /// A document without content.
    pub(crate) fn empty(line: usize) -> Self {
        Self { value: Value::Null, line, duplicates: Vec::new() }
    }

    /// Returns the document moved down by this number of lines.
    pub(crate) fn moved(mut self, lines: usize) -> Self {
        self.line += lines;
        for duplicate in &mut self.duplicates {
            duplicate.line += lines;
        }
        self
    }
}

/// The limits and strictness for reading a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Refuse a mapping that has a key twice.
    pub strict: bool,
    /// The deepest nesting.
    pub max_depth: usize,
    /// The most values of one document, those that aliases repeat included.
    pub max_nodes: usize,
    /// The longest text in bytes.
    pub max_bytes: usize,
    /// The most bytes that aliases and merges may repeat in all documents of a text together: texts, keys, and the structure they stand
    /// in. A longer text may repeat as much as it is long.
    pub max_repeated: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { strict: false, max_depth: 200, max_nodes: 10_000_000, max_bytes: 1 << 30, max_repeated: 1 << 20 }
    }
}

/// Text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct Error {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The problem at this place.
    pub problem: String,
}
