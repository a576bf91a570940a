//! A document with the place of each value, for readers that say where something is wrong, or that decide types themselves.

use crate::tree::{Shape as TreeShape, Tag, Tree};
use crate::{Error, Options};

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The value.
    pub shape: Shape,
}

/// A value without a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text; `plain` if it is neither quoted nor tagged, so that its words decide its type.
    Scalar {
        /// The text.
        text: String,
        /// True if its words decide its type.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Marked>),
    /// Keys and values, as they stand.
    Mapping(Vec<(Marked, Marked)>),
    /// Another name for a value that stands elsewhere.
    Alias(Box<Marked>),
}

/// The first document of a text; none if there is none. Values behind aliases are repeated, within `options`' limit on values.
pub fn read_marked(text: &str, options: &Options) -> Result<Option<Marked>, Error> {
    let Some(tree) = Tree::read(text, options)? else { return Ok(None) };
    if tree.nodes.is_empty() {
        return Ok(None);
    }
    let mut builder = Builder { tree: &tree, count: 0, options };
    builder.value(0, 0).map(Some)
}

struct Builder<'t, 'a> {
    tree: &'t Tree<'a>,
    count: usize,
    options: &'t Options,
}

impl Builder<'_, '_> {
    fn value(&mut self, at: usize, depth: usize) -> Result<Marked, Error> {
        let node = &self.tree.nodes[at];
        let mark = node.mark();
        let (line, column) = (mark.line + 1, mark.column + 1);
        self.count += 1;
        if self.count > self.options.max_nodes || depth > self.options.max_depth {
            return Err(Error { line, column, problem: "too many values, or values too deep inside each other".to_owned() });
        }
        let shape = match node.shape {
            TreeShape::Written(..) | TreeShape::Made(..) => {
                let plain = node.implicit && node.tag == Tag::None;
                Shape::Scalar { text: self.tree.scalar(node).to_owned(), plain }
            }
            TreeShape::Sequence(_) => {
                let mut items = Vec::new();
                self.each(at, depth, &mut |item| items.push(item))?;
                Shape::Sequence(items)
            }
            TreeShape::Mapping(_) => {
                let mut members = Vec::new();
                let mut key = None;
                self.each(at, depth, &mut |item| match key.take() {
                    None => key = Some(item),
                    Some(key) => members.push((key, item)),
                })?;
                Shape::Mapping(members)
            }
            TreeShape::Alias(target) => Shape::Alias(Box::new(self.value(target as usize, depth + 1)?)),
        };
        Ok(Marked { line, column, shape })
    }

    fn each(&mut self, at: usize, depth: usize, give: &mut dyn FnMut(Marked)) -> Result<(), Error> {
        let end = self.tree.after(at);
        let mut inner = at + 1;
        while inner < end {
            give(self.value(inner, depth + 1)?);
            inner = self.tree.after(inner);
        }
        Ok(())
    }
}
