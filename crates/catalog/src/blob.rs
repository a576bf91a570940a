//! Blobs of a catalog, and the limits on reading them.

use std::borrow::Cow;

use crate::decode::{Fields, Shape};
use crate::error::LoadError;
use crate::json::write::{Layout, Writer};
use crate::json::{Cursor, Syntax};
use crate::validate::blob_error;

/// Limits on reading.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files of a catalog.
    pub files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of one blob, both in the file and as a canonical line.
    pub blob_bytes: u64,
    /// Bytes of one YAML document.
    pub yaml_bytes: u64,
    /// Blobs of a catalog.
    pub blobs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 200_000, file_bytes: 4 << 30, blob_bytes: 64 << 20, yaml_bytes: 16 << 20, blobs: 2_000_000 }
    }
}

/// One blob of a catalog during loading.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a> {
    /// File below the root.
    pub path: &'a str,
    /// Line where it begins, from 1.
    pub line: usize,
    /// Its schema, never empty.
    pub schema: &'a str,
    /// Its `package`, empty if it has none.
    pub package: &'a str,
    /// Its `name`, empty if it has none.
    pub name: &'a str,
    /// The blob as one canonical line, without line end.
    pub json: &'a str,
}

impl Blob<'_> {
    /// The blob's name for messages.
    pub fn subject(&self) -> String {
        subject(self.schema, self.package, self.name)
    }

    pub(crate) fn shape_error(&self, shape: Shape) -> LoadError {
        let upstream = blob_error(self.schema, self.json);
        LoadError::Shape { path: self.path.to_owned(), line: self.line, subject: self.subject(), shape: shape.into(), upstream }
    }
}

/// A blob's name for messages.
pub(crate) fn subject(schema: &str, package: &str, name: &str) -> String {
    match (package, name) {
        ("", "") => schema.to_owned(),
        ("", name) => format!("{schema} \"{name}\""),
        (package, "") => format!("{schema} of package \"{package}\""),
        (package, name) => format!("{schema} \"{name}\" of package \"{package}\""),
    }
}

/// A checked blob of a file: JSON, with `schema`, without duplicate keys.
pub(crate) struct Found<'a> {
    pub(crate) path: &'a str,
    pub(crate) line: usize,
    /// Offset of its piece in the file, and the length.
    pub(crate) place: (u64, usize),
    /// Its text as JSON, also if the file is YAML.
    pub(crate) json: &'a str,
    pub(crate) fields: &'a Fields<'a>,
    pub(crate) schema: Cow<'a, str>,
    pub(crate) package: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

impl Found<'_> {
    /// Returns the blob for readers of JSON, with any spaces and order of keys.
    pub(crate) fn blob(&self) -> Blob<'_> {
        let Self { path, line, json, schema, package, name, .. } = self;
        Blob { path, line: *line, schema, package, name, json }
    }

    pub(crate) fn shape_error(&self, shape: Shape) -> LoadError {
        self.blob().shape_error(shape)
    }

    pub(crate) fn json_error(&self, syntax: Syntax) -> LoadError {
        json_error(self.path, self.line, self.json, syntax)
    }

    pub(crate) fn too_large(&self, limits: &Limits) -> LoadError {
        LoadError::Limit { path: format!("{}:{}", self.path, self.line), what: "the size of the blob", limit: limits.blob_bytes }
    }

    /// Appends the blob as a canonical line, without line end.
    pub(crate) fn write_line(&self, out: &mut Vec<u8>) -> Result<(), LoadError> {
        let written = Writer::new(out, Layout::Line).value(&mut Cursor::new(self.json));
        written.map_err(|syntax| self.json_error(syntax))
    }
}

pub(crate) fn json_error(path: &str, line: usize, json: &str, syntax: Syntax) -> LoadError {
    let before = &json.as_bytes()[..syntax.at.min(json.len())];
    LoadError::Json { path: path.to_owned(), line: line + count_lines(before), reason: syntax.reason.to_owned() }
}

// The compiler vectorises this; a crate for it would be one more dependency.
#[allow(clippy::naive_bytecount)]
pub(crate) fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
