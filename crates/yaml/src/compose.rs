//! Values from parser events: anchors, aliases, merges, keys, duplicates, limits.

use std::collections::HashMap;
use std::fmt::Write as _;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Value};

use crate::resolve::{Kind, Scalar, resolve};
use crate::{Document, Duplicate, Error, Options};

/// Below so many values aliases may make up nearly all of a document; towards the upper count, a tenth.
const ALIASES_FREE: usize = 400_000;
const ALIASES_SCARCE: usize = 4_000_000;

/// Composes one document after the other.
pub(crate) struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    options: Options,
    anchors: HashMap<usize, Anchor>,
    duplicates: Vec<Duplicate>,
    nodes: usize,
    alias_nodes: usize,
}

enum Anchor {
    /// Its node is still being read: an alias to it would contain itself.
    Open,
    Done(Node),
}

/// A value with what limits need to know about it.
#[derive(Clone)]
struct Node {
    value: Value,
    nodes: usize,
    height: usize,
}

/// A place in the document, linked towards its root.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.write(out);
                // Writing to a string cannot fail.
                let _ = write!(out, "[{index}]");
            }
        }
    }

    pub(crate) fn duplicate(&self, key: &str, line: usize) -> Duplicate {
        let mut path = String::new();
        Path::Field(self, key).write(&mut path);
        Duplicate { path, key: key.to_owned(), line }
    }
}

fn error_at(mark: &Marker, problem: impl Into<String>) -> Error {
    Error { line: mark.line().max(1), column: mark.col() + 1, problem: problem.into() }
}

impl From<ScanError> for Error {
    fn from(error: ScanError) -> Self {
        error_at(error.marker(), error.info())
    }
}

impl<'a> Composer<'a> {
    pub(crate) fn new(text: &'a str, options: Options) -> Self {
        let mut parsing = granit_parser::Options::default();
        let depth = options.max_depth.min(250);
        parsing.block_nesting_limit = depth;
        parsing.flow_nesting_limit = depth;
        Self {
            parser: Parser::new_from_str_with_options(text, parsing),
            options,
            anchors: HashMap::new(),
            duplicates: Vec::new(),
            nodes: 0,
            alias_nodes: 0,
        }
    }

    /// The next document, `None` after the last.
    pub(crate) fn document(&mut self) -> Result<Option<Document>, Error> {
        loop {
            match self.next()? {
                Some((Event::DocumentStart(..), _)) => break,
                None | Some((Event::StreamEnd, _)) => return Ok(None),
                Some(_) => {}
            }
        }
        self.anchors.clear();
        self.nodes = 0;
        self.alias_nodes = 0;
        let Some((event, span)) = self.next()? else { return Ok(None) };
        let line = span.start.line().max(1);
        let node = self.node(event, &span, 0, &Path::Root)?;
        Ok(Some(Document { value: node.value, line, duplicates: std::mem::take(&mut self.duplicates) }))
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Error> {
        loop {
            match self.parser.next_event() {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(event)) => return Ok(Some(event)),
            }
        }
    }

    fn required(&mut self) -> Result<(Event<'a>, Span), Error> {
        match self.next()? {
            Some(event) => Ok(event),
            None => Err(Error { line: 1, column: 1, problem: "unexpected end of the document".into() }),
        }
    }

    fn count(&mut self, nodes: usize, mark: &Marker) -> Result<(), Error> {
        self.nodes += nodes;
        if self.nodes > self.options.max_nodes {
            return Err(error_at(mark, format!("the document has more than {} values", self.options.max_nodes)));
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize, path: &Path<'_>) -> Result<Node, Error> {
        if depth > self.options.max_depth {
            return Err(error_at(&span.start, format!("nested deeper than {} levels", self.options.max_depth)));
        }
        if !matches!(event, Event::Alias(_)) {
            self.count(1, &span.start)?;
        }
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref(), &span.start)?;
                (anchor, Node { value, nodes: 1, height: 0 })
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(anchor);
                (anchor, self.sequence(depth, path)?)
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(anchor);
                (anchor, self.mapping(depth, path)?)
            }
            Event::Alias(id) => return self.alias(id, span, depth),
            _ => return Err(error_at(&span.start, "a value is missing here")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, Anchor::Done(node.clone()));
        }
        Ok(node)
    }

    fn open(&mut self, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, Anchor::Open);
        }
    }

    fn alias(&mut self, id: usize, span: &Span, depth: usize) -> Result<Node, Error> {
        let (nodes, height) = match self.anchors.get(&id) {
            Some(Anchor::Done(node)) => (node.nodes, node.height),
            Some(Anchor::Open) => return Err(error_at(&span.start, "an anchor's value contains itself")),
            None => return Err(error_at(&span.start, "unknown anchor")),
        };
        if depth + height > self.options.max_depth {
            return Err(error_at(&span.start, format!("nested deeper than {} levels", self.options.max_depth)));
        }
        self.alias_nodes += nodes;
        self.count(nodes, &span.start)?;
        if self.alias_nodes > 100 && self.nodes > 1000 && self.alias_nodes as f64 / self.nodes as f64 > alias_share(self.nodes) {
            return Err(error_at(&span.start, "document contains excessive aliasing"));
        }
        match self.anchors.get(&id) {
            Some(Anchor::Done(node)) => Ok(node.clone()),
            _ => Err(error_at(&span.start, "unknown anchor")),
        }
    }

    fn sequence(&mut self, depth: usize, path: &Path<'_>) -> Result<Node, Error> {
        let mut items = Vec::new();
        let (mut nodes, mut height) = (1, 0);
        loop {
            let (event, span) = self.required()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Node { value: Value::Array(items), nodes, height });
            }
            let item = self.node(event, &span, depth + 1, &Path::Item(path, items.len()))?;
            nodes += item.nodes;
            height = height.max(item.height + 1);
            items.push(item.value);
        }
    }

    fn mapping(&mut self, depth: usize, path: &Path<'_>) -> Result<Node, Error> {
        let mut map = Map::new();
        let (mut nodes, mut height) = (1, 0);
        loop {
            let (event, span) = self.required()?;
            let key = match event {
                Event::MappingEnd => return Ok(Node { value: Value::Object(map), nodes, height }),
                Event::Scalar(text, ScalarStyle::Plain, _, tag) if text == "<<" && tag.as_deref().is_none_or(is_merge) => {
                    let (event, span) = self.required()?;
                    let source = self.node(event, &span, depth + 1, path)?;
                    nodes += source.nodes;
                    height = height.max(source.height + 1);
                    merge(&mut map, source.value, &span.start)?;
                    continue;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let value = key_scalar(&text, style, tag.as_deref(), &span.start)?;
                    if anchor != 0 {
                        let value = scalar(&text, style, tag.as_deref(), &span.start)?;
                        self.anchors.insert(anchor, Anchor::Done(Node { value, nodes: 1, height: 0 }));
                    }
                    value
                }
                Event::Alias(id) => {
                    let node = self.alias(id, &span, depth)?;
                    match node.value {
                        Value::String(text) => text,
                        Value::Bool(flag) => flag.to_string(),
                        Value::Number(number) => number.to_string(),
                        Value::Null => return Err(null_key(&span.start)),
                        Value::Array(_) | Value::Object(_) => return Err(error_at(&span.start, "a mapping key must be a scalar")),
                    }
                }
                _ => return Err(error_at(&span.start, "a mapping key must be a scalar")),
            };
            let (event, value_span) = self.required()?;
            let value = self.node(event, &value_span, depth + 1, &Path::Field(path, &key))?;
            nodes += value.nodes;
            height = height.max(value.height + 1);
            if map.contains_key(&key) {
                if self.options.strict {
                    return Err(error_at(&span.start, format!("key {key:?} already set in map")));
                }
                self.duplicates.push(path.duplicate(&key, span.start.line()));
            }
            map.insert(key, value.value);
        }
    }
}

fn alias_share(nodes: usize) -> f64 {
    match nodes {
        0..=ALIASES_FREE => 0.99,
        ALIASES_SCARCE.. => 0.10,
        _ => 0.99 - 0.89 * ((nodes - ALIASES_FREE) as f64 / (ALIASES_SCARCE - ALIASES_FREE) as f64),
    }
}

/// `!!merge <<`, as some programs write the merge key.
fn is_merge(tag: &Tag) -> bool {
    is_of_yaml(tag, "merge")
}

/// Whether a tag is one of YAML's own, also one that the core schema does not have.
fn is_of_yaml(tag: &Tag, name: &str) -> bool {
    let (handle, suffix) = tag.parts();
    format!("{handle}{suffix}").strip_prefix("tag:yaml.org,2002:") == Some(name)
}

/// `<<`: keys of a mapping, or of several of which the earlier one wins, as if they stood here.
fn merge(map: &mut Map<String, Value>, source: Value, mark: &Marker) -> Result<(), Error> {
    let problem = "map merge requires map or sequence of maps as the value";
    match source {
        Value::Object(fields) => map.extend(fields),
        Value::Array(items) => {
            for item in items.into_iter().rev() {
                let Value::Object(fields) = item else { return Err(error_at(mark, problem)) };
                map.extend(fields);
            }
        }
        _ => return Err(error_at(mark, problem)),
    }
    Ok(())
}

fn null_key(mark: &Marker) -> Error {
    error_at(mark, "unsupported map key: null")
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: &Marker) -> Result<Value, Error> {
    let Some(scalar) = tagged(text, style, tag, mark)? else {
        return Ok(Value::String(text.to_owned()));
    };
    scalar.into_value(text).ok_or_else(|| error_at(mark, format!("{text} has no JSON value")))
}

/// A key is always text: scalars of other types are written out.
fn key_scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: &Marker) -> Result<String, Error> {
    Ok(match tagged(text, style, tag, mark)? {
        None | Some(Scalar::Text) => text.to_owned(),
        Some(Scalar::Null) => return Err(null_key(mark)),
        Some(Scalar::Bool(flag)) => flag.to_string(),
        Some(Scalar::Int(number)) => number.to_string(),
        Some(Scalar::Unsigned(_)) => return Err(error_at(mark, format!("unsupported map key: {text} is out of range"))),
        Some(Scalar::Float(number)) => float_key(number),
    })
}

/// Floats as keys are written with single precision, as kubectl does.
fn float_key(number: f64) -> String {
    let short = number as f32;
    if short.is_nan() {
        return ".nan".into();
    }
    if short.is_infinite() {
        return if short > 0.0 { ".inf".into() } else { "-.inf".into() };
    }
    crate::emit::float_text(&format!("{short:e}"), || format!("{short}"))
}

/// The scalar a node resolves to; `None` where it is text by its style or tag.
fn tagged(text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: &Marker) -> Result<Option<Scalar>, Error> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { Some(resolve(text)) } else { None });
    };
    let wanted = match tag.core_suffix() {
        Some("null") => Kind::Null,
        Some("bool") => Kind::Bool,
        Some("int") => Kind::Int,
        Some("float") => Kind::Float,
        _ if is_of_yaml(tag, "binary") => {
            return Err(error_at(mark, "binary scalars are not supported: write the text itself, without a tag"));
        }
        _ => return Ok(None),
    };
    let found = resolve(text);
    match (wanted, found) {
        (Kind::Float, Scalar::Int(number)) => Ok(Some(Scalar::Float(number as f64))),
        (wanted, found) if found.kind() == wanted => Ok(Some(found)),
        (wanted, _) => Err(error_at(mark, format!("cannot decode {text:?} as a {}", format!("{wanted:?}").to_lowercase()))),
    }
}
