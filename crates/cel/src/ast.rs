//! The syntax tree. Macros are nodes of their own instead of folds, so that evaluation and messages stay simple.

use std::sync::Arc;

use crate::cost::charge::Charge;
use crate::types::Type;
use crate::value::Value;

/// An expression and where it stands: the byte offset that messages point at (of an operator, a dot, an opening parenthesis).
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) at: usize,
    pub(crate) node: Node,
    /// Set by the checker.
    pub(crate) kind: Type,
}

impl Expr {
    pub(crate) fn new(at: usize, node: Node) -> Self {
        Self { at, node, kind: Type::Dyn }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Literal(Literal),
    /// A value that is known before the expression runs: a type's name, a list of literals.
    Constant(Value),
    Ident(Arc<str>),
    Select(Select),
    /// A function or an operator; a member call has its target as first argument.
    Call {
        function: Arc<str>,
        member: bool,
        arguments: Vec<Expr>,
        /// The price of running it, set by the checker.
        charge: Charge,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<Item>),
    Map(Vec<Entry>),
    Macro(Box<Macro>),
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Box<Expr>,
    pub(crate) field: Arc<str>,
    /// `has(operand.field)`
    pub(crate) test: bool,
    /// `operand.?field`
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    /// One body, or a condition and a body.
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
    /// `cel.bind`: the value of the range by a name.
    Bind,
}

/// A macro with variables of its own.
#[derive(Clone, Debug)]
pub(crate) struct Macro {
    pub(crate) kind: MacroKind,
    pub(crate) range: Expr,
    pub(crate) variables: Vec<Arc<str>>,
    pub(crate) bodies: Vec<Expr>,
}
