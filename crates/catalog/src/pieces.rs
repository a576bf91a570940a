//! Splitting of files into pieces of one blob each, read in bounded steps.
//!
//! JSON is cut after the closing bracket of an object, YAML at the lines that begin with `---`. Nothing is checked here: a piece may be
//! damaged, and its reader reports that. Memory holds the pieces of one step and the beginning of the next blob.

use std::ops::Range;

use crate::blob::{Limits, count_lines};
use crate::error::{LoadError, SourceError};
use crate::source::{Source, SourceFile};

/// Bytes that are read before each cut.
const STEP: usize = 256 << 10;
/// Bytes that are read first, since most files are small.
const FIRST_STEP: usize = 16 << 10;

/// Syntax of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON object.
    Json,
    /// A YAML document.
    Yaml,
}

/// Position of a piece in its batch, and its line in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) range: Range<usize>,
    /// Line where it begins, from 1.
    pub(crate) line: usize,
}

/// Pieces of one file that follow each other.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Position of the file among the paths.
    pub(crate) file: usize,
    /// Offset in the file of the first byte of `text`.
    pub(crate) offset: u64,
    pub(crate) form: Form,
    pub(crate) text: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
}

/// Iterator over the batches of all files, in the order of the paths.
pub(crate) struct Pieces<'s> {
    source: &'s dyn Source,
    paths: &'s [String],
    limits: &'s Limits,
    /// Bytes that are read before each cut.
    step: usize,
    next_file: usize,
    open: Option<Open<'s>>,
}

/// The file that is being split.
struct Open<'s> {
    file: Box<dyn SourceFile + 's>,
    number: usize,
    form: Form,
    /// Bytes that were read and not handed out yet.
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    offset: u64,
    /// Line of the first byte of the buffer.
    line: usize,
    at_end: bool,
    scan: Scan,
    /// Number of JSON objects found.
    objects: usize,
}

/// Progress in the buffer.
#[derive(Default, Clone, Copy)]
struct Scan {
    at: usize,
    /// Open brackets of the current JSON object.
    depth: usize,
    in_string: bool,
}

impl<'s> Pieces<'s> {
    pub(crate) fn new(source: &'s dyn Source, paths: &'s [String], limits: &'s Limits) -> Self {
        Self { source, paths, limits, step: STEP, next_file: 0, open: None }
    }

    /// Returns the next batch; `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, LoadError> {
        loop {
            let open = if let Some(open) = &mut self.open {
                open
            } else {
                let Some(path) = self.paths.get(self.next_file) else { return Ok(None) };
                let file = self.source.open(path)?;
                self.next_file += 1;
                self.open.insert(Open::new(file, self.next_file - 1))
            };
            let path = &self.paths[open.number];
            open.read(path, self.step, self.limits)?;
            match open.cut(path, self.limits)? {
                Some(batch) => return Ok(Some(batch)),
                None if open.at_end && open.buffer.is_empty() => self.open = None,
                None => {}
            }
        }
    }
}

impl<'s> Open<'s> {
    fn new(file: Box<dyn SourceFile + 's>, number: usize) -> Self {
        Self { file, number, form: Form::Json, buffer: Vec::new(), offset: 0, line: 1, at_end: false, scan: Scan::default(), objects: 0 }
    }

    /// Reads one more step, unless the file is at its end.
    fn read(&mut self, path: &str, step: usize, limits: &Limits) -> Result<(), LoadError> {
        if self.at_end {
            return Ok(());
        }
        let first = self.offset == 0 && self.buffer.is_empty();
        let wanted = self.buffer.len() + step;
        // Most files are small: do not make room for a whole step before it is needed.
        let mut more = FIRST_STEP.min(step);
        let mut filled = self.buffer.len();
        while filled < wanted && !self.at_end {
            self.buffer.resize((filled + more).min(wanted), 0);
            while filled < self.buffer.len() {
                let length = self.file.read_at(self.offset + filled as u64, &mut self.buffer[filled..]);
                match length.map_err(|error| SourceError { path: path.to_owned(), reason: error.to_string() })? {
                    0 => {
                        self.at_end = true;
                        break;
                    }
                    length => filled += length,
                }
            }
            self.buffer.truncate(filled);
            more = step;
        }
        if self.offset + filled as u64 > limits.file_bytes {
            return Err(LoadError::Limit { path: path.to_owned(), what: "the size of the file", limit: limits.file_bytes });
        }
        if first && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.forget(3);
        }
        Ok(())
    }

    /// Drops the first bytes of the buffer.
    fn forget(&mut self, length: usize) {
        self.line += count_lines(&self.buffer[..length]);
        self.buffer.drain(..length);
        self.offset += length as u64;
        self.scan.at = self.scan.at.saturating_sub(length);
    }

    /// Takes the complete blobs from the buffer.
    fn cut(&mut self, path: &str, limits: &Limits) -> Result<Option<Batch>, LoadError> {
        let before = self.form;
        let (ranges, end) = match before {
            Form::Json => self.cut_json(),
            Form::Yaml => self.cut_yaml(),
        };
        if before == Form::Json {
            self.objects += ranges.len();
        }
        if ranges.is_empty() {
            self.forget(end);
            // As in upstream: from the second object on, a file is JSON to its end.
            if self.form != before && self.objects > 1 {
                let reason = "text after JSON objects that is none itself".to_owned();
                return Err(LoadError::Json { path: path.to_owned(), line: self.line, reason });
            }
            let (most, what) = match self.form {
                Form::Json => (limits.blob_bytes, "the size of the blob"),
                Form::Yaml => (limits.yaml_bytes.min(limits.blob_bytes), "the size of the YAML document"),
            };
            if self.buffer.len() as u64 > most {
                return Err(LoadError::Limit { path: format!("{path}:{}", self.line), what, limit: most });
            }
            return Ok(None);
        }
        let mut line = self.line;
        let mut passed = 0;
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            line += count_lines(&self.buffer[passed..range.start]);
            passed = range.start;
            pieces.push(Piece { range, line });
        }
        self.line = line + count_lines(&self.buffer[passed..end]);
        let rest = self.buffer.split_off(end);
        let text = std::mem::replace(&mut self.buffer, rest);
        let batch = Batch { file: self.number, offset: self.offset, form: self.form, text, pieces };
        self.offset += end as u64;
        self.scan.at = self.scan.at.saturating_sub(end);
        Ok(Some(batch))
    }

    /// Finds complete objects, and the start of the unfinished one.
    fn cut_json(&mut self) -> (Vec<Range<usize>>, usize) {
        let mut ranges = Vec::new();
        let mut scan = self.scan;
        // An unfinished object is at the beginning of the buffer.
        let mut start = 0;
        let bytes = self.buffer.as_slice();
        loop {
            if scan.depth == 0 {
                while bytes.get(scan.at).is_some_and(u8::is_ascii_whitespace) {
                    scan.at += 1;
                }
                start = scan.at;
                match begins_json(&bytes[scan.at..], self.at_end) {
                    Begin::Json => {
                        scan.depth = 1;
                        scan.at += 1;
                    }
                    // The objects found before are handed out first.
                    Begin::Other if ranges.is_empty() => {
                        self.form = Form::Yaml;
                        break;
                    }
                    // A file of blanks alone is an empty document.
                    Begin::Unknown if self.at_end && scan.at > 0 && ranges.is_empty() && self.objects == 0 => {
                        self.form = Form::Yaml;
                        ranges.push(0..scan.at);
                        start = scan.at;
                        break;
                    }
                    // Before the first object, the form that blanks belong to is unknown.
                    Begin::Unknown if ranges.is_empty() && self.objects == 0 => {
                        start = 0;
                        break;
                    }
                    Begin::Other | Begin::Unknown => break,
                }
            }
            pass(bytes, &mut scan);
            if scan.depth > 0 {
                if !self.at_end {
                    break;
                }
                // The file ends inside of an object.
                scan = Scan { at: bytes.len(), ..Scan::default() };
            }
            ranges.push(start..scan.at);
        }
        self.scan = scan;
        (ranges, start)
    }

    /// Finds complete documents, and the start of the unfinished one.
    fn cut_yaml(&mut self) -> (Vec<Range<usize>>, usize) {
        let mut ranges = Vec::new();
        let bytes = self.buffer.as_slice();
        let mut start = 0;
        let mut at = self.scan.at;
        loop {
            let line_end = memchr::memchr(b'\n', &bytes[at..]).map(|length| at + length + 1);
            if line_end.is_none() && !self.at_end {
                break;
            }
            let line = &bytes[at..line_end.unwrap_or(bytes.len())];
            let next = line_end.unwrap_or(bytes.len());
            // A line that ends no document begins one, and is a part of it.
            if is_separator(line) && start < at {
                ranges.push(start..at);
                start = next;
            }
            at = next;
            if line_end.is_none() {
                if start < at {
                    ranges.push(start..at);
                    start = at;
                }
                break;
            }
        }
        self.scan.at = at;
        (ranges, start)
    }
}

/// Passes bytes of an object until it is closed or they end. Only the bytes that delimit strings and brackets are examined.
fn pass(bytes: &[u8], scan: &mut Scan) {
    let mut at = scan.at;
    loop {
        if scan.in_string {
            match memchr::memchr2(b'"', b'\\', &bytes[at.min(bytes.len())..]) {
                Some(length) if bytes[at + length] == b'"' => {
                    scan.in_string = false;
                    at += length + 1;
                }
                // If the escaped byte is not read yet, it is passed as soon as it is there.
                Some(length) => at += length + 2,
                None => {
                    at = at.max(bytes.len());
                    break;
                }
            }
            continue;
        }
        while at < bytes.len() && !BRACKETS[usize::from(bytes[at])] {
            at += 1;
        }
        match bytes.get(at) {
            Some(b'"') => scan.in_string = true,
            Some(b'{' | b'[') => scan.depth += 1,
            Some(_) => {
                scan.depth -= 1;
                if scan.depth == 0 {
                    at += 1;
                    break;
                }
            }
            None => break,
        }
        at += 1;
    }
    scan.at = at;
}

static BRACKETS: [bool; 256] = brackets();

const fn brackets() -> [bool; 256] {
    let mut table = [false; 256];
    table[b'"' as usize] = true;
    table[b'{' as usize] = true;
    table[b'[' as usize] = true;
    table[b']' as usize] = true;
    table[b'}' as usize] = true;
    table
}

enum Begin {
    Json,
    Other,
    /// More of the file must be read, or nothing is left.
    Unknown,
}

/// Detects JSON: a brace and a quoted key. YAML's flow style begins with a brace too, but is more forgiving than JSON should be: a value
/// left out by mistake would be read as null.
fn begins_json(text: &[u8], at_end: bool) -> Begin {
    let Some(inside) = text.strip_prefix(b"{") else { return if text.is_empty() { Begin::Unknown } else { Begin::Other } };
    match inside.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'"' | b'}') => Begin::Json,
        Some(_) => Begin::Other,
        None if at_end => Begin::Json,
        None => Begin::Unknown,
    }
}

/// Returns true if a line is `---`, alone or with a comment.
fn is_separator(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"---") else { return false };
    match rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
        None => true,
        Some(at) => at > 0 && rest[at] == b'#',
    }
}

/// Position in a YAML document of a line that begins with `---` and is not a separator. Upstream refuses such a line. Here it would also
/// hide one document behind another, and a reader that looks for one of them in a piece would read all of them.
pub(crate) fn text_after_separator(document: &[u8]) -> Option<usize> {
    let begins = |at: &usize| {
        let line = &document[*at..];
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        line.starts_with(b"---") && !is_separator(line)
    };
    std::iter::once(0).chain(memchr::memmem::find_iter(document, b"\n---").map(|at| at + 1)).find(begins)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::source::MemorySource;

    /// Offset, line, form and text of a piece.
    type Found = (u64, usize, Form, String);

    fn pieces(text: &str, step: usize) -> Result<Vec<Found>, String> {
        let source = MemorySource::of("f", text);
        let (paths, limits) = ([String::from("f")], Limits::default());
        let mut reader = Pieces { step, ..Pieces::new(&source, &paths, &limits) };
        let mut found = Vec::new();
        while let Some(batch) = reader.next().map_err(|error| error.to_string())? {
            for Piece { range, line } in batch.pieces {
                let piece = String::from_utf8(batch.text[range.clone()].to_vec()).unwrap();
                found.push((batch.offset + range.start as u64, line, batch.form, piece));
            }
        }
        Ok(found)
    }

    /// CATLG-07: objects follow one another, documents are separated by lines, one kind may follow the other.
    #[test]
    fn cuts() {
        let json = |offset, line, text: &str| (offset, line, Form::Json, text.to_owned());
        let yaml = |offset, line, text: &str| (offset, line, Form::Yaml, text.to_owned());
        let cases: [(&str, Vec<Found>); 12] = [
            ("", vec![]),
            (" \n\t", vec![yaml(0, 1, " \n\t")]),
            ("{} \n\t", vec![json(0, 1, "{}")]),
            ("{\"a\":\"}\\\"{\"}\n\n{}", vec![json(0, 1, "{\"a\":\"}\\\"{\"}"), json(14, 3, "{}")]),
            ("{\"a\":[{}", vec![json(0, 1, "{\"a\":[{}")]),
            ("{", vec![json(0, 1, "{")]),
            ("{a: b}", vec![yaml(0, 1, "{a: b}")]),
            ("a: 1\n---\n--- # c\nb: 2\n---x", vec![yaml(0, 1, "a: 1\n"), yaml(9, 3, "--- # c\nb: 2\n---x")]),
            ("---\na: 1\n---\nb: 1\n---\n", vec![yaml(0, 1, "---\na: 1\n"), yaml(13, 4, "b: 1\n")]),
            ("---\n---\n---\n", vec![yaml(0, 1, "---\n"), yaml(8, 3, "---\n")]),
            ("{\"a\":1}\n---\nb: 2\n", vec![json(0, 1, "{\"a\":1}"), yaml(8, 2, "---\nb: 2\n")]),
            ("\u{feff}{\"a\":1}", vec![json(3, 1, "{\"a\":1}")]),
        ];
        for (text, expected) in cases {
            assert_eq!(pieces(text, STEP), Ok(expected), "{text:?}");
        }
        assert!(pieces("{}{} x", STEP).unwrap_err().starts_with("f:1: not valid JSON"));
    }

    proptest! {
        /// CATLG-07: how much is read at a time changes nothing.
        #[test]
        fn steps_change_nothing(
            text in "(\\{\"a\":(\"[{}\\[\\]é]\"|\\[1,\\{\\}\\]|\"\\\\\"\")\\}|---\n|b: 2\n|[ \n]|\\{|\"|x){0,10}",
            step in 1_usize..40,
        ) {
            prop_assert_eq!(pieces(&text, step), pieces(&text, STEP));
        }
    }
}
