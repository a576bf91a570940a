//! Files to blobs, one at a time (OLM1-FBC-02, CATLG-07).
//!
//! A file that begins with `{` is a sequence of JSON objects; anything else, and what follows the JSON, is YAML documents. Each blob is
//! handed on as one canonical line, with the file and the line it came from, and is forgotten before the next one is read: the memory
//! needed is one file and one blob.

use std::borrow::Cow;
use std::io::Write;

use crate::canonical::transcode;
use crate::decode::{Fields, Shape};
use crate::error::LoadError;
use crate::index::IndexBuilder;
use crate::source::{Source, visible_files};

/// Bounds on what is read.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files of a catalog.
    pub files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of one blob as a canonical line.
    pub blob_bytes: u64,
    /// Blobs of a catalog.
    pub blobs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 200_000, file_bytes: 1 << 30, blob_bytes: 64 << 20, blobs: 2_000_000 }
    }
}

/// One blob of a catalog, on its way through.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a> {
    /// File below the root.
    pub path: &'a str,
    /// Line where it begins, from 1.
    pub line: usize,
    /// Its schema, never empty.
    pub schema: &'a str,
    /// Its `package`, empty when it has none.
    pub package: &'a str,
    /// Its `name`, empty when it has none.
    pub name: &'a str,
    /// The blob as one canonical line, without line end.
    pub json: &'a str,
}

impl Blob<'_> {
    /// What a user calls this blob.
    pub fn subject(&self) -> String {
        match (self.package, self.name) {
            ("", "") => self.schema.to_owned(),
            ("", name) => format!("{} \"{name}\"", self.schema),
            (package, "") => format!("{} of package \"{package}\"", self.schema),
            (package, name) => format!("{} \"{name}\" of package \"{package}\"", self.schema),
        }
    }

    pub(crate) fn shape_error(&self, shape: Shape) -> LoadError {
        LoadError::Shape { path: self.path.to_owned(), line: self.line, subject: self.subject(), shape }
    }
}

/// What to do with each blob.
pub type Sink<'s> = dyn FnMut(Blob<'_>) -> Result<(), LoadError> + 's;

/// Reads all files of a source, in path order, and hands each blob to `sink`. The first error ends it.
pub fn load(source: &dyn Source, limits: &Limits, sink: &mut Sink<'_>) -> Result<(), LoadError> {
    let paths = visible_files(source)?;
    if paths.len() as u64 > limits.files {
        return Err(LoadError::Limit { path: ".".to_owned(), what: "the number of files", limit: limits.files });
    }
    let mut reader = Reader { limits, blobs: 0, line_buffer: Vec::new() };
    for path in paths {
        let bytes = source.read(&path)?;
        reader.file(&path, &bytes, sink)?;
    }
    Ok(())
}

/// Loads a source, writes its blobs as JSON lines to `lines` (OLM1-CAT-07) and returns the index of what was written.
pub fn store(source: &dyn Source, limits: &Limits, lines: &mut dyn Write) -> Result<Vec<u8>, LoadError> {
    let mut index = IndexBuilder::new();
    load(source, limits, &mut |blob| {
        index.add(&blob)?;
        lines.write_all(blob.json.as_bytes()).and_then(|()| lines.write_all(b"\n")).map_err(LoadError::Write)
    })?;
    Ok(index.finish())
}

struct Reader<'l> {
    limits: &'l Limits,
    blobs: u64,
    line_buffer: Vec<u8>,
}

impl Reader<'_> {
    fn file(&mut self, path: &str, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), LoadError> {
        if bytes.len() as u64 > self.limits.file_bytes {
            return Err(LoadError::Limit { path: path.to_owned(), what: "the size of the file", limit: self.limits.file_bytes });
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut line = 1;
        let mut rest = bytes;
        loop {
            let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            line += count_lines(&rest[..blank]);
            rest = &rest[blank..];
            if !begins_json(rest) {
                break;
            }
            let mut buffer = std::mem::take(&mut self.line_buffer);
            buffer.clear();
            let read = transcode(rest, &mut buffer).map_err(|error| LoadError::Json {
                path: path.to_owned(),
                line: line + error.line().max(1) - 1,
                reason: reason_of(&error),
            })?;
            let result = self.blob(path, line, &buffer, sink);
            self.line_buffer = buffer;
            result?;
            line += count_lines(&rest[..read]);
            rest = &rest[read..];
        }
        if rest.is_empty() { Ok(()) } else { self.yaml(path, rest, line, sink) }
    }

    fn yaml(&mut self, path: &str, rest: &[u8], first_line: usize, sink: &mut Sink<'_>) -> Result<(), LoadError> {
        let text = std::str::from_utf8(rest).map_err(|error| LoadError::Yaml {
            path: path.to_owned(),
            line: first_line + count_lines(&rest[..error.valid_up_to()]),
            reason: "the file is not UTF-8 text; list it in .indexignore if it is not part of the catalog".to_owned(),
        })?;
        for document in mainstay_yaml::stream(text) {
            let document = document.map_err(|error| LoadError::Yaml {
                path: path.to_owned(),
                line: first_line + error.line.max(1) - 1,
                reason: error.problem,
            })?;
            let line = first_line + document.line.max(1) - 1;
            if document.value.is_null() {
                continue;
            }
            let json = document.value.to_string();
            drop(document);
            self.blob(path, line, json.as_bytes(), sink)?;
        }
        Ok(())
    }

    fn blob(&mut self, path: &str, line: usize, json: &[u8], sink: &mut Sink<'_>) -> Result<(), LoadError> {
        let limit = |what, limit| LoadError::Limit { path: format!("{path}:{line}"), what, limit };
        if json.len() as u64 > self.limits.blob_bytes {
            return Err(limit("the size of the blob", self.limits.blob_bytes));
        }
        self.blobs += 1;
        if self.blobs > self.limits.blobs {
            return Err(limit("the number of blobs", self.limits.blobs));
        }
        let json = std::str::from_utf8(json).map_err(|_| LoadError::Json {
            path: path.to_owned(),
            line,
            reason: "the text is not UTF-8".to_owned(),
        })?;
        let head = head(path, line, json)?;
        sink(Blob { path, line, schema: &head.schema, package: &head.package, name: &head.name, json })
    }
}

struct Head<'a> {
    schema: Cow<'a, str>,
    package: Cow<'a, str>,
    name: Cow<'a, str>,
}

/// `schema`, `package` and `name` of a blob, in any spelling of case (OLM1-FBC-06).
fn head<'a>(path: &str, line: usize, json: &'a str) -> Result<Head<'a>, LoadError> {
    let shape = |subject: &str, shape| LoadError::Shape { path: path.to_owned(), line, subject: subject.to_owned(), shape };
    if !json.starts_with('{') {
        return Err(LoadError::NotAMapping { path: path.to_owned(), line, found: crate::decode::kind_of(json) });
    }
    let fields = Fields::read(json, "").map_err(|s| shape("blob", s))?;
    let mut keys: Vec<(String, &str)> = fields.members().iter().map(|(key, _)| (key.to_lowercase(), key.as_ref())).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(LoadError::DuplicateKey {
            path: path.to_owned(),
            line,
            key: twice[0].0.clone(),
            first: twice[0].1.to_owned(),
            second: twice[1].1.to_owned(),
        });
    }
    let schema = fields.text("schema").map_err(|s| shape("blob", s))?;
    if schema.is_empty() {
        return Err(LoadError::MissingSchema { path: path.to_owned(), line, object: shortened(json) });
    }
    let package = fields.text("package").map_err(|s| shape(&schema, s))?;
    let name = fields.text("name").map_err(|s| shape(&schema, s))?;
    Ok(Head { schema, package, name })
}

/// A blob for a message: whole when it is short.
fn shortened(json: &str) -> String {
    const MOST: usize = 2_000;
    if json.len() <= MOST {
        return json.to_owned();
    }
    let end = (0..=MOST).rev().find(|&at| json.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &json[..end])
}

/// Whether the text is meant as JSON: a brace and a quoted key. YAML's flow style begins with a brace too, and is more forgiving than
/// JSON should be: a value left out by mistake would pass as null.
fn begins_json(text: &[u8]) -> bool {
    let Some(inside) = text.strip_prefix(b"{") else { return false };
    matches!(inside.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'"' | b'}') | None)
}

/// serde_json's words without its position, which counts from the wrong place.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

// The compiler vectorises this; a crate for it would be one more dependency.
#[allow(clippy::naive_bytecount)]
fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
