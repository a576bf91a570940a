//! Values from a tree: aliases, merges, keys, duplicates, and the limits of the result.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::input::Mark;
use crate::path::{Duplicates, Path};
use crate::resolve::{Kind, Scalar, is_timestamp, resolve};
use crate::scan::error_at;
use crate::tree::{Node, Shape, Tag, Tree, shortened};
use crate::{Document, Error, Options, binary};

/// Up to this number of values, aliases may make up nearly all of a document; towards the upper number, a tenth.
const ALIASES_FREE: usize = 400_000;
const ALIASES_SCARCE: usize = 4_000_000;

/// Bytes of memory that a value takes beside its text.
const VALUE_BYTES: usize = size_of::<Value>();
/// Bytes of memory that a key takes beside its text.
const KEY_BYTES: usize = size_of::<String>();

/// The bytes that aliases have repeated, and their limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub(crate) spent: usize,
    pub(crate) limit: usize,
}

impl Budget {
    pub(crate) fn new(text: &str, options: &Options) -> Self {
        Self { spent: 0, limit: options.max_repeated.max(text.len()) }
    }
}

/// The composer of a document.
pub(crate) struct Composer<'t, 'a> {
    tree: &'t Tree<'a>,
    options: &'t Options,
    budget: &'t mut Budget,
    duplicates: Duplicates,
    /// Values so far, counted as Go's library counts them.
    nodes: usize,
    /// Values among them that aliases repeated.
    repeated: usize,
    /// The outermost alias that is being followed.
    following: Option<Mark>,
}

/// A value, or the reason why JSON has no such value. The reason is an error only if no later key replaces the value.
struct Built {
    value: Value,
    problem: Option<Box<Error>>,
}

/// A mapping under construction.
#[derive(Default)]
struct Fields {
    map: Map<String, Value>,
    problems: BTreeMap<String, Box<Error>>,
    /// A problem that no later key removes.
    problem: Option<Box<Error>>,
}

impl<'t, 'a> Composer<'t, 'a> {
    pub(crate) fn new(tree: &'t Tree<'a>, options: &'t Options, budget: &'t mut Budget) -> Self {
        Self { tree, options, budget, duplicates: Duplicates::default(), nodes: 1, repeated: 0, following: None }
    }

    pub(crate) fn document(mut self) -> Result<Document, Error> {
        let Some(root) = self.tree.nodes.first() else {
            return Ok(Document::empty(1));
        };
        let built = self.value(0, 0, &Path::Root)?;
        match built.problem {
            Some(problem) => Err(*problem),
            None => Ok(Document { value: built.value, line: root.mark().line + 1, duplicates: self.duplicates.list }),
        }
    }

    /// Counts one value more.
    fn count(&mut self, node: &Node, bytes: usize) -> Result<(), Error> {
        self.nodes += 1;
        let refused = |problem: String| Err(error_at(self.following.unwrap_or(node.mark()), problem));
        if self.nodes > self.options.max_nodes {
            return refused(format!("the document has more than {} values: split it", self.options.max_nodes));
        }
        if self.following.is_some() {
            self.repeated += 1;
            self.budget.spent += bytes;
            if self.budget.spent > self.budget.limit {
                return refused(format!(
                    "aliases repeat more than {} bytes: write what they stand for where it is needed, or split the document",
                    self.budget.limit
                ));
            }
        }
        if self.repeated > 100 && self.nodes > 1000 && self.repeated as f64 / self.nodes as f64 > alias_share(self.nodes) {
            return refused("document contains excessive aliasing: write what the aliases stand for where it is needed".to_owned());
        }
        Ok(())
    }

    fn value(&mut self, at: usize, depth: usize, path: &Path<'_>) -> Result<Built, Error> {
        let tree = self.tree;
        let node = &tree.nodes[at];
        self.check_depth(node, depth)?;
        match node.shape {
            Shape::Written(..) | Shape::Made(..) => {
                let text = tree.scalar(node);
                self.count(node, VALUE_BYTES + text.len())?;
                scalar(text, node)
            }
            Shape::Alias(target) => {
                self.count(node, 0)?;
                let target = self.target(at, target)?;
                let outer = self.follow(node);
                let built = self.value(target, depth, path)?;
                self.following = outer;
                Ok(built)
            }
            Shape::Sequence(end) => {
                self.count(node, VALUE_BYTES)?;
                let (mut items, mut problem, mut item) = (Vec::new(), None, at + 1);
                while item < end as usize {
                    let built = self.value(item, depth + 1, &Path::Item(path, items.len()))?;
                    items.push(built.value);
                    problem = problem.or(built.problem);
                    item = tree.after(item);
                }
                Ok(Built { value: Value::Array(items), problem })
            }
            Shape::Mapping(_) => {
                let mut fields = Fields::default();
                self.mapping(at, depth, path, &mut fields)?;
                let problem = fields.problem.or(fields.problems.into_values().next());
                Ok(Built { value: Value::Object(fields.map), problem })
            }
        }
    }

    /// Begins to follow an alias; returns the one followed before.
    fn follow(&mut self, alias: &Node) -> Option<Mark> {
        let outer = self.following;
        self.following = outer.or(Some(alias.mark()));
        outer
    }

    /// Returns the node that an alias stands for.
    fn target(&self, at: usize, target: u32) -> Result<usize, Error> {
        let target = target as usize;
        if target < at && at < self.tree.after(target) {
            return Err(error_at(self.tree.nodes[at].mark(), "an anchor's value contains itself"));
        }
        Ok(target)
    }

    /// Sets the keys of a mapping, in their written order.
    fn mapping(&mut self, at: usize, depth: usize, path: &Path<'_>, fields: &mut Fields) -> Result<(), Error> {
        let tree = self.tree;
        let node = &tree.nodes[at];
        self.check_depth(node, depth)?;
        self.count(node, VALUE_BYTES)?;
        let (mut key, end) = (at + 1, tree.after(at));
        while key < end {
            let value = tree.after(key);
            let written = &tree.nodes[key];
            if (written.implicit || written.tag == Tag::Merge) && tree.scalar(written) == "<<" {
                self.merge(value, depth, path, fields)?;
            } else {
                let name = self.key(key, depth, fields)?;
                let built = self.value(value, depth + 1, &Path::Field(path, &name))?;
                if fields.map.contains_key(&name) {
                    if self.options.strict {
                        return Err(error_at(written.mark(), format!("key {:?} already set in map", shortened(&name))));
                    }
                    self.duplicates.add(path, &name, written.mark().line + 1);
                }
                fields.set(name, built);
            }
            key = tree.after(value);
        }
        Ok(())
    }

    /// Returns a key, which is always text: scalars of other types are written out.
    fn key(&mut self, at: usize, depth: usize, fields: &mut Fields) -> Result<String, Error> {
        let tree = self.tree;
        let written = &tree.nodes[at];
        let node = match written.shape {
            Shape::Alias(target) => &tree.nodes[self.target(at, target)?],
            _ => written,
        };
        let text = match node.shape {
            Shape::Written(..) | Shape::Made(..) => tree.scalar(node),
            _ => {
                let built = self.value(at, depth + 1, &Path::Root)?;
                let mut shown = String::new();
                go_syntax(&mut shown, &built.value);
                return Err(error_at(written.mark(), format!("invalid map key: {shown}")));
            }
        };
        let is_alias = !std::ptr::eq(node, written);
        if is_alias {
            self.count(written, 0)?;
        }
        let outer = if is_alias { self.follow(written) } else { self.following };
        self.count(node, KEY_BYTES + text.len())?;
        self.following = outer;
        let (name, problem) = key_text(text, node)?;
        if let Some(problem) = problem {
            fields.problem.get_or_insert_with(|| Box::new(error_at(written.mark(), problem)));
        }
        Ok(name)
    }

    /// Merges `<<`: the keys of a mapping, or of several of which the earlier one wins, as if they were written here.
    fn merge(&mut self, at: usize, depth: usize, path: &Path<'_>, fields: &mut Fields) -> Result<(), Error> {
        let tree = self.tree;
        let Shape::Sequence(end) = tree.nodes[at].shape else { return self.merge_one(at, depth, path, fields) };
        self.check_depth(&tree.nodes[at], depth + 1)?;
        let mut items = Vec::new();
        let mut item = at + 1;
        while item < end as usize {
            items.push(item);
            item = tree.after(item);
        }
        items.into_iter().rev().try_for_each(|item| self.merge_one(item, depth, path, fields))
    }

    fn merge_one(&mut self, at: usize, depth: usize, path: &Path<'_>, fields: &mut Fields) -> Result<(), Error> {
        let tree = self.tree;
        let node = &tree.nodes[at];
        let (source, is_alias) = match node.shape {
            Shape::Alias(target) => (self.target(at, target)?, true),
            _ => (at, false),
        };
        if !matches!(tree.nodes[source].shape, Shape::Mapping(_)) {
            return Err(error_at(node.mark(), "map merge requires map or sequence of maps as the value"));
        }
        if is_alias {
            self.count(node, 0)?;
        }
        let outer = if is_alias { self.follow(node) } else { self.following };
        self.mapping(source, depth + 1, path, fields)?;
        self.following = outer;
        Ok(())
    }

    fn check_depth(&self, node: &Node, depth: usize) -> Result<(), Error> {
        if depth > self.options.max_depth {
            return Err(error_at(node.mark(), format!("nested deeper than {} levels", self.options.max_depth)));
        }
        Ok(())
    }
}

impl Fields {
    fn set(&mut self, name: String, built: Built) {
        if let Some(problem) = built.problem {
            self.problems.insert(name.clone(), problem);
        } else if !self.problems.is_empty() {
            self.problems.remove(&name);
        }
        self.map.insert(name, built.value);
    }
}

fn alias_share(nodes: usize) -> f64 {
    match nodes {
        0..=ALIASES_FREE => 0.99,
        ALIASES_SCARCE.. => 0.10,
        _ => 0.99 - 0.89 * ((nodes - ALIASES_FREE) as f64 / (ALIASES_SCARCE - ALIASES_FREE) as f64),
    }
}

fn scalar(text: &str, node: &Node) -> Result<Built, Error> {
    let value = match tagged(text, node)? {
        Resolved::Text => Value::String(text.to_owned()),
        Resolved::Bytes(text) => Value::String(text),
        Resolved::Scalar(scalar) => {
            let Some(value) = scalar.into_value(text) else {
                let problem = error_at(node.mark(), format!("{} has no JSON value", shortened(text)));
                return Ok(Built { value: Value::Null, problem: Some(Box::new(problem)) });
            };
            value
        }
    };
    Ok(Built { value, problem: None })
}

/// Writes a text in quotes.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    out.extend(text.escape_debug());
    out.push('"');
}

/// Writes a value as the message of Go's library has it. More than a screen of it is of no use.
fn go_syntax(out: &mut String, value: &Value) {
    const MOST: usize = 1000;
    match value {
        _ if out.len() > MOST => {}
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) => quoted(out, text),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                go_syntax(out, item);
            }
            out.push('}');
        }
        Value::Object(fields) => {
            out.push_str("map[interface {}]interface {}{");
            for (number, (key, item)) in fields.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                quoted(out, key);
                out.push(':');
                go_syntax(out, item);
            }
            out.push('}');
        }
    }
}

/// A key's text, and the reason if it is not allowed as a key.
fn key_text(text: &str, node: &Node) -> Result<(String, Option<String>), Error> {
    let scalar = match tagged(text, node)? {
        Resolved::Text | Resolved::Scalar(Scalar::Text) => return Ok((text.to_owned(), None)),
        Resolved::Bytes(text) => return Ok((text, None)),
        Resolved::Scalar(scalar) => scalar,
    };
    Ok(match scalar {
        Scalar::Null => (text.to_owned(), Some("unsupported map key: null".to_owned())),
        Scalar::Unsigned(_) => (text.to_owned(), Some(format!("unsupported map key: {} is out of range", shortened(text)))),
        Scalar::Bool(flag) => (flag.to_string(), None),
        Scalar::Int(number) => (number.to_string(), None),
        Scalar::Float(number) => (float_key(number), None),
        Scalar::Text => (text.to_owned(), None),
    })
}

/// Writes a float as a key, with single precision as kubectl does.
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

/// The meaning of a scalar by its text, style and tag.
enum Resolved {
    Text,
    /// Text that was written as base64.
    Bytes(String),
    Scalar(Scalar),
}

fn tagged(text: &str, node: &Node) -> Result<Resolved, Error> {
    let wanted = match node.tag {
        Tag::None if node.implicit => return Ok(Resolved::Scalar(resolve(text))),
        Tag::None | Tag::NonSpecific | Tag::Str | Tag::Merge | Tag::Other => return Ok(Resolved::Text),
        Tag::Binary => {
            return binary::decode(text)
                .map(Resolved::Bytes)
                .ok_or_else(|| error_at(node.mark(), "!!binary value contains invalid base64 data"));
        }
        Tag::Timestamp if is_timestamp(text) => return Ok(Resolved::Text),
        Tag::Timestamp => None,
        Tag::Null => Some(Kind::Null),
        Tag::Bool => Some(Kind::Bool),
        Tag::Int => Some(Kind::Int),
        Tag::Float => Some(Kind::Float),
    };
    match (wanted, resolve(text)) {
        (Some(Kind::Float), Scalar::Int(number)) => Ok(Resolved::Scalar(Scalar::Float(number as f64))),
        (Some(wanted), found) if found.kind() == wanted => Ok(Resolved::Scalar(found)),
        _ => {
            let kind = format!("{:?}", node.tag).to_lowercase();
            Err(error_at(node.mark(), format!("cannot decode {:?} as a {kind}", shortened(text))))
        }
    }
}
