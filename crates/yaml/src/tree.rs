//! A document as a tree. Only the first document of a text is read, as by Go's library.
//!
//! The tree is one list in which each collection is followed by its content. Aliases only point: nothing is repeated here.

use crate::input::{Mark, first_forbidden};
use crate::parse::Parser;
use crate::scan::error_at;
use crate::{Error, Options};

/// Bytes that Go's library reads at once: within them it sees a forbidden character after the end of a document.
const READ_AHEAD: usize = 512;
/// The longest tag with a meaning.
const TAG_LENGTH: usize = 32;

/// A document.
pub(crate) struct Tree<'a> {
    text: &'a str,
    /// Texts that differ from their form in the document.
    made: String,
    pub(crate) nodes: Vec<Node>,
}

/// A value, a key, or an alias. A document has many of them, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    pub(crate) tag: Tag,
    /// True if the text of a scalar decides its type, and not its style or tag.
    pub(crate) implicit: bool,
    line: u32,
    column: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Offset and length in the document.
    Written(u32, u32),
    /// Offset and length in the texts that were put together.
    Made(u32, u32),
    /// The node after its last one.
    Sequence(u32),
    /// The node after its last one.
    Mapping(u32),
    /// The node that it stands for.
    Alias(u32),
}

/// A tag, reduced to the ones with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    None,
    /// `!`.
    NonSpecific,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Any other tag; the text is just text.
    Other,
}

impl Node {
    pub(crate) fn new(shape: Shape, tag: Tag, implicit: bool, mark: Mark) -> Self {
        Self { shape, tag, implicit, line: narrow(mark.line), column: narrow(mark.column) }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { line: self.line as usize, column: self.column as usize, index: 0 }
    }
}

impl<'a> Tree<'a> {
    /// Reads the first document; `None` when there is none.
    pub(crate) fn read(text: &'a str, options: &Options) -> Result<Option<Self>, Error> {
        // Offsets and counts of nodes are 32 bits wide.
        if u32::try_from(text.len()).is_err() {
            return Err(error_at(Mark::default(), format!("the text has {} bytes, more than the limit of {}", text.len(), u32::MAX)));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let forbidden = first_forbidden(text);
        let mut parser = Parser::new(&text[..forbidden.unwrap_or(text.len())], options);
        let found = parser.document();
        if let Some(at) = forbidden.filter(|at| sees(text, parser.offset(), *at)) {
            return Err(not_allowed(text, at));
        }
        let (nodes, made) = parser.finish();
        Ok(found?.then_some(Self { text, made, nodes }))
    }

    /// The text of a scalar.
    pub(crate) fn scalar(&self, node: &Node) -> &str {
        let (all, from, length) = match node.shape {
            Shape::Written(from, length) => (self.text, from, length),
            Shape::Made(from, length) => (self.made.as_str(), from, length),
            _ => return "",
        };
        all.get(from as usize..(from + length) as usize).unwrap_or_default()
    }

    /// Returns the node after this one and its content.
    pub(crate) fn after(&self, at: usize) -> usize {
        match self.nodes[at].shape {
            Shape::Sequence(end) | Shape::Mapping(end) => end as usize,
            _ => at + 1,
        }
    }
}

/// Returns whether Go's library, which reads in blocks, has seen an offset when it has read up to `reached`.
fn sees(text: &str, reached: usize, at: usize) -> bool {
    let mut block = 0;
    loop {
        let mut end = block + READ_AHEAD;
        if end >= text.len() {
            return true;
        }
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if at < end {
            return true;
        }
        if reached + 1 < end {
            return false;
        }
        block = end;
    }
}

fn not_allowed(text: &str, at: usize) -> Error {
    let before = &text[..at];
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let mark = Mark { line: before.matches('\n').count(), column: before[line..].chars().count(), index: 0 };
    let letter = text[at..].chars().next().unwrap_or_default();
    error_at(mark, format!("control characters are not allowed: found U+{:04X}", u32::from(letter)))
}

impl Tag {
    /// The tag of a handle's prefix and a suffix, which are not joined if they are longer than every known tag.
    pub(crate) fn of(prefix: &[u8], suffix: &[u8]) -> Self {
        if prefix.len() + suffix.len() > TAG_LENGTH {
            return Self::Other;
        }
        let tag = [prefix, suffix].concat();
        match tag.strip_prefix(b"tag:yaml.org,2002:") {
            None if tag == b"!" => Self::NonSpecific,
            Some(b"str") => Self::Str,
            Some(b"bool") => Self::Bool,
            Some(b"int") => Self::Int,
            Some(b"float") => Self::Float,
            Some(b"null") => Self::Null,
            Some(b"timestamp") => Self::Timestamp,
            Some(b"binary") => Self::Binary,
            Some(b"merge") => Self::Merge,
            _ => Self::Other,
        }
    }
}

/// Narrows lines, columns and numbers of nodes, which a text below 4 GiB does not exceed.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Shortens a text for a message.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
