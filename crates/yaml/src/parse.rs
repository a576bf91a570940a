//! The parser: from tokens to the nodes of a tree, by libyaml's grammar.

use std::collections::HashMap;
use std::mem::discriminant;

use crate::input::Mark;
use crate::scan::{Scanner, error_at};
use crate::token::{Kind, Style, Text, Token};
use crate::tree::{Node, Shape, Tag, narrow, shortened};
use crate::{Error, Options};

/// The parser of a document's tokens.
pub(crate) struct Parser<'a> {
    scanner: Scanner<'a>,
    nodes: Vec<Node>,
    anchors: HashMap<&'a str, u32>,
    /// Prefixes of tags by their handles.
    handles: HashMap<&'a str, Vec<u8>>,
    /// The beginning of the innermost flow collection.
    flow_start: Mark,
    max_depth: usize,
    max_nodes: usize,
}

/// The place of a node, which decides the forms it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Flow,
    Block,
    /// As the value of a block mapping, whose sequences need no indentation.
    MappingValue,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, options: &Options) -> Self {
        Self {
            scanner: Scanner::new(text),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            handles: HashMap::new(),
            flow_start: Mark::default(),
            max_depth: options.max_depth,
            max_nodes: options.max_nodes,
        }
    }

    /// Returns the offset up to which the text was read.
    pub(crate) fn offset(&self) -> usize {
        self.scanner.offset()
    }

    /// Returns the nodes, and the texts that were put together.
    pub(crate) fn finish(self) -> (Vec<Node>, String) {
        (self.nodes, self.scanner.made)
    }

    /// Reads a document; returns whether there was one.
    pub(crate) fn document(&mut self) -> Result<bool, Error> {
        match self.scanner.peek()?.kind {
            Kind::StreamEnd => return Ok(false),
            Kind::Version(..) | Kind::TagHandle(..) | Kind::DocumentStart => {
                self.directives()?;
                if self.scanner.peek()?.kind != Kind::DocumentStart {
                    return Err(error_at(self.scanner.peek()?.mark, "did not find expected <document start>"));
                }
                let start = self.scanner.next()?;
                match self.scanner.peek()?.kind {
                    Kind::Version(..) | Kind::TagHandle(..) | Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd => {
                        self.empty(start.mark)?;
                    }
                    _ => self.node(Place::Block, 0)?,
                }
            }
            _ => {
                self.directives()?;
                self.node(Place::Block, 0)?;
            }
        }
        // Go's library reads the token after the document, and nothing after that.
        self.scanner.peek()?;
        Ok(true)
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut version = false;
        loop {
            let token = self.scanner.peek()?;
            let mark = token.mark;
            match token.kind {
                Kind::Version(..) if version => return Err(error_at(mark, "found duplicate %YAML directive")),
                Kind::Version(1, 1) => version = true,
                Kind::Version(..) => return Err(error_at(mark, "found incompatible YAML document: %YAML 1.1 is read")),
                Kind::TagHandle(handle, ref prefix) => {
                    if self.handles.insert(handle, prefix.to_vec()).is_some() {
                        return Err(error_at(mark, "found duplicate %TAG directive"));
                    }
                }
                _ => break,
            }
            self.scanner.next()?;
        }
        self.handles.entry("!").or_insert_with(|| b"!".to_vec());
        self.handles.entry("!!").or_insert_with(|| b"tag:yaml.org,2002:".to_vec());
        Ok(())
    }

    fn push(&mut self, shape: Shape, tag: Tag, implicit: bool, mark: Mark) -> Result<u32, Error> {
        if self.nodes.len() >= self.max_nodes {
            return Err(error_at(mark, format!("the document has more than {} values: split it", self.max_nodes)));
        }
        self.nodes.push(Node::new(shape, tag, implicit, mark));
        Ok(narrow(self.nodes.len() - 1))
    }

    /// Adds an empty value.
    fn empty(&mut self, mark: Mark) -> Result<(), Error> {
        self.push(Shape::Made(0, 0), Tag::None, true, mark)?;
        Ok(())
    }

    fn node(&mut self, place: Place, depth: usize) -> Result<(), Error> {
        let mut token = self.scanner.peek()?;
        let start = token.mark;
        if let Kind::Alias(name) = token.kind {
            self.scanner.next()?;
            let Some(target) = self.anchors.get(name).copied() else {
                return Err(error_at(start, format!("unknown anchor '{}' referenced", shortened(name))));
            };
            self.push(Shape::Alias(target), Tag::None, false, start)?;
            return Ok(());
        }
        let (mut anchor, mut tag) = (None, None);
        loop {
            match &token.kind {
                Kind::Anchor(name) if anchor.is_none() => anchor = Some(*name),
                Kind::Tag(handle, suffix) if tag.is_none() => tag = Some((*handle, suffix.clone(), token.mark)),
                _ => break,
            }
            self.scanner.next()?;
            token = self.scanner.peek()?;
        }
        let at_end = token.kind == Kind::StreamEnd;
        let (mark, kind) = (token.mark, discriminant(&token.kind));
        let tag = match tag {
            None => Tag::None,
            Some(("", suffix, _)) => Tag::of(b"", &suffix),
            Some((handle, suffix, mark)) => match self.handles.get(handle) {
                Some(prefix) => Tag::of(prefix, &suffix),
                None => return Err(error_at(mark, "while parsing a node: found undefined tag handle")),
            },
        };
        let number = narrow(self.nodes.len());
        if let Some(name) = anchor {
            self.anchors.insert(name, number);
        }
        if kind == discriminant(&Kind::Scalar(Text::Made(0..0), Style::Plain)) {
            let Token { kind: Kind::Scalar(text, style), .. } = self.scanner.next()? else { return Ok(()) };
            let shape = match text {
                Text::Written(range) => Shape::Written(narrow(range.start), narrow(range.len())),
                Text::Made(range) => Shape::Made(narrow(range.start), narrow(range.len())),
            };
            let implicit = tag == Tag::NonSpecific || (tag == Tag::None && style == Style::Plain);
            self.push(shape, tag, implicit, start)?;
            return Ok(());
        }
        let collection = match &token.kind {
            Kind::Entry if place == Place::MappingValue => Some((Shape::Sequence(0), Self::entries as Rest<'a>)),
            Kind::FlowSequence => Some((Shape::Sequence(0), Self::flow_sequence as Rest<'a>)),
            Kind::FlowMapping => Some((Shape::Mapping(0), Self::flow_mapping as Rest<'a>)),
            Kind::BlockSequence if place != Place::Flow => Some((Shape::Sequence(0), Self::block_sequence as Rest<'a>)),
            Kind::BlockMapping if place != Place::Flow => Some((Shape::Mapping(0), Self::block_mapping as Rest<'a>)),
            _ => None,
        };
        if let Some((shape, rest)) = collection {
            if depth >= self.max_depth {
                return Err(error_at(mark, format!("nested deeper than {} levels", self.max_depth)));
            }
            self.push(shape, tag, true, start)?;
            return self.collection(number, rest, depth);
        }
        if anchor.is_some() || tag != Tag::None {
            self.push(Shape::Made(0, 0), tag, tag == Tag::None, start)?;
            return Ok(());
        }
        if place == Place::Flow && at_end {
            return Err(error_at(self.flow_start, "while parsing a flow collection: did not find its end before that of the text"));
        }
        let what = if place == Place::Flow { "a flow node" } else { "a block node" };
        Err(error_at(mark, format!("while parsing {what}: did not find expected node content")))
    }

    fn collection(&mut self, number: u32, rest: Rest<'a>, depth: usize) -> Result<(), Error> {
        rest(self, depth + 1)?;
        let end = narrow(self.nodes.len());
        if let Some(node) = self.nodes.get_mut(number as usize) {
            node.shape = match node.shape {
                Shape::Mapping(_) => Shape::Mapping(end),
                _ => Shape::Sequence(end),
            };
        }
        Ok(())
    }

    /// Reads a node, unless one of `ends` comes: then it is empty.
    fn node_unless(&mut self, ends: &[Kind<'static>], place: Place, mark: Mark, depth: usize) -> Result<(), Error> {
        if ends.contains(&self.scanner.peek()?.kind) { self.empty(mark) } else { self.node(place, depth) }
    }

    /// Reads a sequence that is not indented.
    fn entries(&mut self, depth: usize) -> Result<(), Error> {
        while self.scanner.peek()?.kind == Kind::Entry {
            let mark = self.scanner.next()?.mark;
            self.node_unless(&[Kind::Entry, Kind::Key, Kind::Value, Kind::BlockEnd], Place::Block, mark, depth)?;
        }
        Ok(())
    }

    fn block_sequence(&mut self, depth: usize) -> Result<(), Error> {
        let start = self.scanner.next()?.mark;
        loop {
            let Token { kind, mark } = self.scanner.peek()?;
            let mark = *mark;
            match kind {
                Kind::Entry => {
                    self.scanner.next()?;
                    self.node_unless(&[Kind::Entry, Kind::BlockEnd], Place::Block, mark, depth)?;
                }
                Kind::BlockEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                _ => return Err(unexpected(mark, start, "a block collection", "'-' indicator")),
            }
        }
    }

    fn block_mapping(&mut self, depth: usize) -> Result<(), Error> {
        const ENDS: [Kind<'static>; 3] = [Kind::Key, Kind::Value, Kind::BlockEnd];
        let start = self.scanner.next()?.mark;
        loop {
            let Token { kind, mark } = self.scanner.peek()?;
            let mark = *mark;
            match kind {
                Kind::Key => {
                    self.scanner.next()?;
                    self.node_unless(&ENDS, Place::MappingValue, mark, depth)?;
                }
                Kind::BlockEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                _ => return Err(unexpected(mark, start, "a block mapping", "key")),
            }
            let Token { kind, mark } = self.scanner.peek()?;
            let mark = *mark;
            if *kind == Kind::Value {
                self.scanner.next()?;
                self.node_unless(&ENDS, Place::MappingValue, mark, depth)?;
            } else {
                self.empty(mark)?;
            }
        }
    }

    /// Reads the comma between two entries, or the end; returns whether it was the end.
    fn flow_ends(&mut self, end: &Kind<'static>, first: bool, unexpected: impl FnOnce(&Token<'a>) -> Error) -> Result<bool, Error> {
        if self.scanner.peek()?.kind != *end && !first {
            if self.scanner.peek()?.kind != Kind::Comma {
                return Err(unexpected(self.scanner.peek()?));
            }
            self.scanner.next()?;
        }
        let ended = self.scanner.peek()?.kind == *end;
        if ended {
            self.scanner.next()?;
        }
        Ok(ended)
    }

    fn flow_sequence(&mut self, depth: usize) -> Result<(), Error> {
        let start = self.scanner.next()?.mark;
        let outer = std::mem::replace(&mut self.flow_start, start);
        let mut first = true;
        while !self.flow_ends(&Kind::FlowSequenceEnd, first, |token| unclosed(token, start, "a flow sequence", "',' or ']'"))? {
            first = false;
            if self.scanner.peek()?.kind != Kind::Key {
                self.node(Place::Flow, depth)?;
                continue;
            }
            // A pair inside a sequence is a mapping of its own.
            if depth >= self.max_depth {
                return Err(error_at(self.scanner.peek()?.mark, format!("nested deeper than {} levels", self.max_depth)));
            }
            let mark = self.scanner.next()?.mark;
            let number = self.push(Shape::Mapping(0), Tag::None, true, mark)?;
            self.collection(number, Self::pair, depth)?;
        }
        self.flow_start = outer;
        Ok(())
    }

    fn pair(&mut self, depth: usize) -> Result<(), Error> {
        const ENDS: [Kind<'static>; 2] = [Kind::Comma, Kind::FlowSequenceEnd];
        let Token { kind, mark } = self.scanner.peek()?;
        let mark = *mark;
        if *kind == Kind::Value || ENDS.contains(kind) {
            // libyaml skips the token, whatever it is.
            self.scanner.next()?;
            self.empty(mark)?;
        } else {
            self.node(Place::Flow, depth)?;
        }
        let Token { kind, mark } = self.scanner.peek()?;
        let mark = *mark;
        if *kind != Kind::Value {
            return self.empty(mark);
        }
        self.scanner.next()?;
        self.node_unless(&ENDS, Place::Flow, mark, depth)
    }

    fn flow_mapping(&mut self, depth: usize) -> Result<(), Error> {
        const ENDS: [Kind<'static>; 2] = [Kind::Comma, Kind::FlowMappingEnd];
        let start = self.scanner.next()?.mark;
        let outer = std::mem::replace(&mut self.flow_start, start);
        let mut first = true;
        while !self.flow_ends(&Kind::FlowMappingEnd, first, |token| unclosed(token, start, "a flow mapping", "',' or '}'"))? {
            first = false;
            let mark = self.scanner.peek()?.mark;
            if self.scanner.peek()?.kind != Kind::Key {
                self.node(Place::Flow, depth)?;
                self.empty(mark)?;
                continue;
            }
            self.scanner.next()?;
            self.node_unless(&[Kind::Value, Kind::Comma, Kind::FlowMappingEnd], Place::Flow, mark, depth)?;
            let mark = self.scanner.peek()?.mark;
            if self.scanner.peek()?.kind == Kind::Value {
                self.scanner.next()?;
                self.node_unless(&ENDS, Place::Flow, mark, depth)?;
            } else {
                self.empty(mark)?;
            }
        }
        self.flow_start = outer;
        Ok(())
    }
}

/// A function that reads the content of a collection.
type Rest<'a> = fn(&mut Parser<'a>, usize) -> Result<(), Error>;

fn unexpected(mark: Mark, start: Mark, what: &str, expected: &str) -> Error {
    error_at(mark, format!("while parsing {what} that begins in line {}: did not find expected {expected}", start.line + 1))
}

/// The error of a collection that is not closed; if the text ends in it, the error is at its beginning.
fn unclosed(token: &Token<'_>, start: Mark, what: &str, expected: &str) -> Error {
    if token.kind == Kind::StreamEnd {
        return error_at(start, format!("while parsing {what}: did not find expected {expected} before the end of the text"));
    }
    unexpected(token.mark, start, what, expected)
}
