//! Streams of documents, JSON or YAML, cut as Kubernetes cuts them.
//!
//! ```text
//!   { ...  ── JSON values, one after the other ──┐ what is no JSON, after one value at most
//!   text ──── lines up to `---` ── YAML ─────────┘
//! ```
//!
//! Each piece between two lines `---` is a text of its own, of which the first document counts, as for kubectl, opm and the
//! controllers.

use std::borrow::Cow;

use serde_json::Value;

use crate::compose::{Budget, Composer};
use crate::tree::Tree;
use crate::{Document, Error, Options, json};

const SEPARATOR: &str = "---";
const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// If fewer bytes than these follow JSON, they are ignored.
const LEAST_YAML: usize = 4;

/// The first document of `text`, JSON or YAML; `Null` when there is none.
pub fn parse(text: &str) -> Result<Value, Error> {
    parse_with(text, &Options::default()).map(|document| document.value)
}

/// Does the same as [`parse`] with other limits and strictness, and returns the document's line and duplicates too.
pub fn parse_with(text: &str, options: &Options) -> Result<Document, Error> {
    check_length(text, options)?;
    let trimmed = text.trim_start_matches(JSON_SPACE);
    let mut problem = None;
    if trimmed.starts_with('{') {
        let line = 1 + lines(&text[..text.len() - trimmed.len()]);
        match read_json(trimmed, line, options) {
            Ok((document, _)) => return Ok(document),
            Err(refused) => problem = Some(refused),
        }
    }
    let mut budget = Budget::new(text, options);
    match read_yaml(text, options, &mut budget) {
        Ok(document) => Ok(document.unwrap_or_else(|| Document::empty(1))),
        // Text that begins as JSON and is not YAML either is most likely JSON with a mistake.
        Err(error) => Err(problem.unwrap_or(error)),
    }
}

/// Every document of `text`, JSON or YAML, or mixed as kubectl allows: JSON values, then YAML after `---`.
pub fn stream(text: &str) -> Documents<'_> {
    stream_with(text, Options::default())
}

/// Does the same as [`stream`] with other limits and strictness.
pub fn stream_with(text: &str, options: Options) -> Documents<'_> {
    let state = match check_length(text, &options) {
        Err(error) => State::Failed(error),
        Ok(()) if text.trim_start().starts_with('{') => State::Json { rest: text, line: 1, count: 0 },
        Ok(()) => State::Yaml { rest: text, line: 1, json: None },
    };
    Documents { state, options, budget: Budget::new(text, &options) }
}

/// The documents of one text. Nothing follows an error.
pub struct Documents<'a> {
    state: State<'a>,
    options: Options,
    budget: Budget,
}

enum State<'a> {
    Json { rest: &'a str, line: usize, count: usize },
    Yaml { rest: &'a str, line: usize, json: Option<Error> },
    Failed(Error),
    Done,
}

impl Documents<'_> {
    /// The bytes that aliases have repeated so far.
    pub fn repeated(&self) -> usize {
        self.budget.spent
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Failed(error) => return Some(Err(error)),
                State::Yaml { rest, line, json } => {
                    let piece = match next_piece(rest, line) {
                        Ok(piece) => piece?,
                        Err(error) => return Some(Err(json.unwrap_or(error))),
                    };
                    return match read_yaml(&piece.text, &self.options, &mut self.budget) {
                        Ok(document) => {
                            let document = document.unwrap_or_else(|| Document::empty(1)).moved(piece.line - 1);
                            self.state = State::Yaml { rest: piece.rest, line: piece.next_line, json: None };
                            Some(Ok(document))
                        }
                        // Text that begins as JSON and is not YAML either is most likely JSON with a mistake.
                        Err(error) => Some(Err(json.unwrap_or(Error { line: error.line + piece.line - 1, ..error }))),
                    };
                }
                State::Json { rest, line, count } => {
                    let trimmed = rest.trim_start_matches(JSON_SPACE);
                    if trimmed.is_empty() {
                        return None;
                    }
                    let begins = line + lines(&rest[..rest.len() - trimmed.len()]);
                    let error = match read_json(trimmed, begins, &self.options) {
                        Ok((document, used)) => {
                            let line = begins + lines(&trimmed[..used]);
                            self.state = State::Json { rest: &trimmed[used..], line, count: count + 1 };
                            return Some(Ok(document));
                        }
                        Err(error) if count > 1 => return Some(Err(error)),
                        Err(error) => error,
                    };
                    // A flow mapping of YAML looks like JSON at first.
                    let Some(used) = blank_line(rest) else { return Some(Err(error)) };
                    self.state = State::Yaml { rest: &rest[used..], line: line + lines(&rest[..used]), json: Some(error) };
                }
            }
        }
    }
}

fn check_length(text: &str, options: &Options) -> Result<(), Error> {
    if text.len() > options.max_bytes {
        let problem = format!("the text has {} bytes, more than the limit of {}", text.len(), options.max_bytes);
        return Err(Error { line: 1, column: 1, problem });
    }
    Ok(())
}

fn read_yaml(text: &str, options: &Options, budget: &mut Budget) -> Result<Option<Document>, Error> {
    match Tree::read(text, options)? {
        None => Ok(None),
        Some(tree) => Composer::new(&tree, options, budget).document().map(Some),
    }
}

/// The JSON value that `text` begins with, and its length.
fn read_json(text: &str, line: usize, options: &Options) -> Result<(Document, usize), Error> {
    let (value, duplicates, used) = json::first(text, line).map_err(|problem| Error {
        line: line + problem.line().max(1) - 1,
        column: problem.column().max(1),
        problem: without_position(&problem.to_string()),
    })?;
    if options.strict
        && let Some(duplicate) = duplicates.first()
    {
        return Err(Error { line, column: 1, problem: format!("duplicate field {:?}", duplicate.path) });
    }
    Ok((Document { value, line, duplicates }, used))
}

/// The bytes left of a line after JSON, if they are blank; `None` if too little follows for YAML.
fn blank_line(text: &str) -> Option<usize> {
    for (at, letter) in text.char_indices() {
        if text.len() - at < LEAST_YAML {
            return None;
        }
        match letter {
            '\n' => return Some(at + 1),
            _ if letter.is_whitespace() => {}
            _ => return Some(at),
        }
    }
    None
}

/// The lines up to the next `---`.
struct Piece<'a> {
    text: Cow<'a, str>,
    line: usize,
    rest: &'a str,
    next_line: usize,
}

/// Cuts the next piece. A separator with nothing before it is part of the piece; one that ends a piece is part of none.
fn next_piece(rest: &str, line: usize) -> Result<Option<Piece<'_>>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    if rest.starts_with(SEPARATOR) {
        after_separator(rest, line)?;
    }
    let Some(end) = rest.find("\n---") else {
        let next_line = line + lines(rest);
        return Ok(Some(Piece { text: with_line_ends(rest), line, rest: "", next_line }));
    };
    let (text, after) = rest.split_at(end + 1);
    let at = line + lines(text);
    Ok(Some(Piece { text: with_line_ends(text), line, rest: after_separator(after, at)?, next_line: at + 1 }))
}

/// The text after a line that separates documents. A comment may follow the separator, but no text.
fn after_separator(text: &str, line: usize) -> Result<&str, Error> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let behind = first.get(SEPARATOR.len()..).unwrap_or_default().trim();
    if behind.is_empty() || behind.starts_with('#') {
        return Ok(rest);
    }
    let problem = format!(
        "text after `---`: {:?}; a separator of documents stands on a line of its own, or before a comment",
        crate::tree::shortened(behind)
    );
    Err(Error { line, column: 1 + SEPARATOR.len(), problem })
}

/// The lines as Kubernetes passes them on: each ends with one line feed, including the last.
fn with_line_ends(text: &str) -> Cow<'_, str> {
    let mut text = if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    if !text.ends_with('\n') {
        text.to_mut().push('\n');
    }
    text
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn without_position(text: &str) -> String {
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text.to_owned(),
    }
}
