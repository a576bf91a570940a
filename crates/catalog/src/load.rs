//! Loading of files as blobs (OLM1-FBC-02, CATLG-07).
//!
//! A file that begins with `{` is a sequence of JSON objects; anything else, and what follows the JSON, is YAML documents.
//!
//! ```text
//!   Source ── Pieces ──┬── checked, made canonical ──┐
//!                      ├── ...on every core          ├── sink, in the order of the files
//!                      └── ...                     ──┘
//! ```
//!
//! Each blob is handed on as one canonical line, with its file and line, and is forgotten soon after: the memory needed is that of a few
//! pieces, whatever the size of the files.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blob::{Blob, Found, Limits, count_lines, json_error};
use crate::decode::{Fields, Shape, kind_of};
use crate::error::LoadError;
use crate::index::IndexBuilder;
use crate::json::Cursor;
use crate::json::write::{Layout, Writer};
use crate::model::Catalog;
use crate::ordered::ordered;
use crate::pieces::{Batch, Form, Piece, Pieces, text_after_separator};
use crate::source::{Source, visible_files};
use crate::validate::not_text;

impl Catalog {
    /// Loads all files of a source into the model.
    pub fn load(source: &dyn Source, limits: &Limits) -> Result<Self, LoadError> {
        let mut catalog = Self::default();
        load(source, limits, &mut |blob| catalog.add(&blob))?;
        Ok(catalog)
    }
}

/// Consumer of each blob.
pub type Sink<'s> = dyn FnMut(Blob<'_>) -> Result<(), LoadError> + 's;

/// Reads all files of a source, in path order, and passes each blob to `sink`. Stops at the first error.
pub fn load(source: &dyn Source, limits: &Limits, sink: &mut Sink<'_>) -> Result<(), LoadError> {
    let paths = files(source, limits)?;
    let repeated = Repeated::default();
    let work = |batch: Batch| {
        let mut lines = Lines::default();
        read(&batch, &paths[batch.file], Rules { limits, empty: Empty::Nothing, repeated: &repeated }, &mut |found| {
            lines.add(&found, limits)
        })?;
        Ok((batch.file, lines))
    };
    let mut count = 0;
    let mut pieces = Pieces::new(source, &paths, limits);
    ordered(
        || pieces.next(),
        work,
        |(file, lines)| {
            let text = std::str::from_utf8(&lines.text).map_err(|_| LoadError::Json {
                path: paths[file].clone(),
                line: lines.blobs.first().map_or(1, |line| line.number),
                reason: NOT_UTF8.to_owned(),
            })?;
            for line in &lines.blobs {
                let path = &paths[file];
                count_blob(&mut count, path, line.number, limits)?;
                let json = &text[line.json.clone()];
                sink(Blob { path, line: line.number, schema: &line.schema, package: &line.package, name: &line.name, json })?;
            }
            Ok(())
        },
    )
}

/// Loads a source, writes its blobs as JSON lines to `lines` (OLM1-CAT-07) and returns the index of the written lines.
pub fn store(source: &dyn Source, limits: &Limits, lines: &mut dyn Write) -> Result<Vec<u8>, LoadError> {
    let mut index = IndexBuilder::new();
    load(source, limits, &mut |blob| {
        index.add(&blob)?;
        lines.write_all(blob.json.as_bytes()).and_then(|()| lines.write_all(b"\n")).map_err(LoadError::Write)
    })?;
    Ok(index.finish())
}

const NOT_UTF8: &str = "the text is not UTF-8";

/// The files that are part of the catalog, up to the limit.
pub(crate) fn files(source: &dyn Source, limits: &Limits) -> Result<Vec<String>, LoadError> {
    let paths = visible_files(source)?;
    if paths.len() as u64 > limits.files {
        return Err(LoadError::Limit { path: ".".to_owned(), what: "the number of files", limit: limits.files });
    }
    Ok(paths)
}

/// Counts one more blob.
pub(crate) fn count_blob(count: &mut u64, path: &str, line: usize, limits: &Limits) -> Result<(), LoadError> {
    *count += 1;
    if *count > limits.blobs {
        return Err(LoadError::Limit { path: format!("{path}:{line}"), what: "the number of blobs", limit: limits.blobs });
    }
    Ok(())
}

/// Canonical lines of some blobs of one file.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    blobs: Vec<Line>,
}

struct Line {
    number: usize,
    schema: String,
    package: String,
    name: String,
    json: Range<usize>,
}

impl Lines {
    fn add(&mut self, found: &Found<'_>, limits: &Limits) -> Result<(), LoadError> {
        let start = self.text.len();
        found.write_line(&mut self.text)?;
        if (self.text.len() - start) as u64 > limits.blob_bytes {
            return Err(found.too_large(limits));
        }
        self.blobs.push(Line {
            number: found.line,
            schema: found.schema.clone().into_owned(),
            package: found.package.clone().into_owned(),
            name: found.name.clone().into_owned(),
            json: start..self.text.len(),
        });
        Ok(())
    }
}

/// Consumer of each blob of a batch.
pub(crate) type EachFound<'s> = dyn FnMut(Found<'_>) -> Result<(), LoadError> + 's;

/// Meaning of a YAML document without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Nothing: servers of catalogs skip it.
    Nothing,
    /// A blob without schema, as in `opm`.
    Blob,
}

/// Rules for reading blobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'l> {
    pub(crate) limits: &'l Limits,
    pub(crate) empty: Empty,
    pub(crate) repeated: &'l Repeated,
}

/// The bytes that YAML aliases of a catalog have repeated. A small document can expand far beyond its size, and a catalog has many documents.
#[derive(Debug, Default)]
pub(crate) struct Repeated(AtomicUsize);

/// Reads the blobs of a batch.
pub(crate) fn read(batch: &Batch, path: &str, rules: Rules<'_>, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    for Piece { range, line } in &batch.pieces {
        let place = (batch.offset + range.start as u64, range.len());
        read_piece(&batch.text[range.clone()], (path, *line, place), batch.form, rules, each)?;
    }
    Ok(())
}

/// Path, line, and offset and length in the file.
type At<'a> = (&'a str, usize, (u64, usize));

/// Reads the blobs of one piece, whose bytes are given.
pub(crate) fn read_piece(bytes: &[u8], at: At<'_>, form: Form, rules: Rules<'_>, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    match form {
        Form::Json => found(&text_of(bytes), at, rules.limits, each),
        Form::Yaml => read_yaml(bytes, at, rules, each),
    }
}

/// The text of a JSON piece; bytes that are not UTF-8 become U+FFFD, as in Go's decoder.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

fn read_yaml(bytes: &[u8], at: At<'_>, rules: Rules<'_>, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    let (path, first_line, place) = at;
    let limits = rules.limits;
    if bytes.len() as u64 > limits.yaml_bytes {
        let path = format!("{path}:{first_line}");
        return Err(LoadError::Limit { path, what: "the size of the YAML document", limit: limits.yaml_bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| LoadError::Yaml {
        path: path.to_owned(),
        line: first_line + count_lines(&bytes[..error.valid_up_to()]),
        reason: "the file is not UTF-8 text; list it in .indexignore if it is not part of the catalog".to_owned(),
    })?;
    if let Some(at) = text_after_separator(bytes) {
        return Err(LoadError::Yaml {
            path: path.to_owned(),
            line: first_line + count_lines(&bytes[..at]),
            reason: "text after `---`; a separator of documents stands on a line of its own, or before a comment".to_owned(),
        });
    }
    let options = mainstay_yaml::Options { max_nodes: YAML_NODES, ..mainstay_yaml::Options::default() };
    let mut filled = false;
    let mut documents = mainstay_yaml::stream_with(text, options);
    let mut counted = 0;
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| LoadError::Yaml {
            path: path.to_owned(),
            line: first_line + error.line.max(1) - 1,
            reason: error.problem,
        })?;
        let line = first_line + document.line.max(1) - 1;
        let more = documents.repeated() - std::mem::replace(&mut counted, documents.repeated());
        if rules.repeated.0.fetch_add(more, Ordering::Relaxed) + more > REPEATED_BYTES {
            let path = format!("{path}:{line}");
            return Err(LoadError::Limit { path, what: "the bytes that YAML aliases of the catalog repeat", limit: REPEATED_BYTES as u64 });
        }
        if document.value.is_null() {
            continue;
        }
        filled = true;
        let json = document.value.to_string();
        drop(document);
        found(&json, (path, line, place), limits, each)?;
    }
    if rules.empty == Empty::Blob && !filled {
        return Err(LoadError::MissingSchema { path: path.to_owned(), line: first_line, object: String::new() });
    }
    Ok(())
}

/// Maximum number of values of one YAML document, those that aliases repeat included.
const YAML_NODES: usize = 2_000_000;
/// Maximum number of bytes that aliases repeat in all YAML documents of a catalog.
const REPEATED_BYTES: usize = 64 << 20;

/// Reads one blob from inside another text; `path` names that text.
pub(crate) fn read_json(json: &str, path: &str, limits: &Limits, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    found(json, (path, 1, (0, json.len())), limits, each)
}

/// Checks one blob and passes it on.
fn found(json: &str, (path, line, place): At<'_>, limits: &Limits, each: &mut EachFound<'_>) -> Result<(), LoadError> {
    let limit = || LoadError::Limit { path: format!("{path}:{line}"), what: "the size of the blob", limit: limits.blob_bytes };
    if json.len() as u64 > limits.blob_bytes {
        return Err(limit());
    }
    if !json.starts_with('{') {
        return Err(LoadError::NotAMapping { path: path.to_owned(), line, found: kind_of(json) });
    }
    let fields = Fields::checked(json).map_err(|syntax| json_error(path, line, json, syntax))?;
    unique_keys(path, line, &fields)?;
    let text = |name: &str, subject: &str| match fields.present(name).filter(|value| !value.get().starts_with('"')) {
        None => Ok(fields.text(name).unwrap_or_default()),
        Some(value) => {
            let shape = Shape { field: name.to_owned(), expected: "a string", found: kind_of(value.get()) };
            Err(LoadError::Shape {
                path: path.to_owned(),
                line,
                subject: subject.to_owned(),
                shape: shape.into(),
                upstream: not_text(name, value.get()),
            })
        }
    };
    let schema = text("schema", "blob")?;
    if schema.is_empty() {
        let mut object = Vec::new();
        Writer::new(&mut object, Layout::Line).value(&mut Cursor::new(json)).map_err(|syntax| json_error(path, line, json, syntax))?;
        return Err(LoadError::MissingSchema { path: path.to_owned(), line, object: shortened(&String::from_utf8_lossy(&object)) });
    }
    let package = text("package", &schema)?;
    let name = text("name", &schema)?;
    each(Found { path, line, place, json, fields: &fields, schema, package, name })
}

/// Checks that no two keys of a blob are equal apart from case (OLM1-FBC-06); a repeated key of the same spelling counts as one.
fn unique_keys(path: &str, line: usize, fields: &Fields<'_>) -> Result<(), LoadError> {
    let mut keys: Vec<(String, &str)> = fields.members().iter().map(|(key, _)| (key.to_lowercase(), key.as_ref())).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1) {
        None => Ok(()),
        Some(twice) => Err(LoadError::DuplicateKey {
            path: path.to_owned(),
            line,
            key: twice[0].0.clone(),
            first: twice[0].1.to_owned(),
            second: twice[1].1.to_owned(),
        }),
    }
}

/// A blob for a message, shortened if it is long.
fn shortened(json: &str) -> String {
    const MOST: usize = 2_000;
    if json.len() <= MOST {
        return json.to_owned();
    }
    let end = (0..=MOST).rev().find(|&at| json.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &json[..end])
}
