//! Expressions, compiled once and run often.

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_schema::SchemaRef;

use crate::ast::{Expr, Macro, MacroKind, Node};
use crate::check::check;
use crate::cost::PER_CALL_LIMIT;
use crate::cost::decl::Decl;
use crate::cost::estimate::estimate;
use crate::cost::range::Range;
use crate::error::{CompileError, EvalError, Issue};
use crate::eval::Evaluation;
use crate::fold::fold;
use crate::parser::parse;
use crate::types::Type;
use crate::value::Value;

/// The longest expression that is read.
const MAX_BYTES: usize = 100_000;

/// The variables that an expression may use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<(Arc<str>, Type)>,
    sizes: Option<Arc<Decl>>,
    catalogs: bool,
    bindings: bool,
}

impl Env {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows how large values under a schema get, so that programs are estimated. Every variable is taken to hold such a value.
    #[must_use]
    pub fn sized(mut self, schema: &SchemaRef) -> Self {
        self.sizes = Decl::of_schema(schema, false);
        self
    }

    /// Knows the function that constraints in catalogs have besides: `semver_compare(a, b)`, -1, 0 or 1 (OLM0-RES-10).
    #[must_use]
    pub fn with_catalog_functions(mut self) -> Self {
        self.catalogs = true;
        self
    }

    /// Knows `cel.bind(name, value, expression)`.
    pub(crate) fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    pub(crate) fn with_sizes(mut self, sizes: Option<Arc<Decl>>) -> Self {
        self.sizes = sizes;
        self
    }

    /// Adds a field to a variable that is a record. Copies the record only when something else holds it.
    pub(crate) fn add_field(&mut self, variable: &str, name: Arc<str>, kind: Type) {
        let known = self.variables.iter_mut().rev().find(|(known, _)| &**known == variable);
        if let Some((_, Type::Record(record))) = known {
            Arc::make_mut(record).add(name, kind);
        }
    }

    /// Declares a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, kind: Type) -> Self {
        self.variables.push((name.into(), kind));
        self
    }
}

/// The values of variables for one evaluation.
#[derive(Clone, Debug, Default)]
pub struct Activation {
    variables: Vec<(Arc<str>, Value)>,
}

impl Activation {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a variable its value.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.variables.push((name.into(), value));
        self
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    expr: Expr,
    kind: Type,
    identifiers: BTreeSet<Arc<str>>,
    estimate: Option<Range>,
    height: usize,
}

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its value, or the reason why there is none.
    pub result: Result<Value, EvalError>,
    /// The cost of the run; more than the limit when it was stopped.
    pub cost: u64,
}

impl Program {
    /// Compiles an expression of any type.
    pub fn compile(text: &str, env: &Env) -> Result<Self, CompileError> {
        if text.len() > MAX_BYTES {
            return Err(CompileError::TooLong { length: text.len(), limit: MAX_BYTES });
        }
        let invalid = |mut issues: Vec<Issue>| {
            issues.sort_by_key(|issue| issue.at);
            let shown: Vec<String> = issues.iter().map(|issue| issue.show(text)).collect();
            CompileError::Invalid(shown.join("\n"))
        };
        let mut expr = parse(text).map_err(invalid)?;
        if env.catalogs {
            name_catalog_functions(&mut expr);
        }
        let mut issues = Vec::new();
        if env.bindings {
            name_values(&mut expr, &mut issues);
            if !issues.is_empty() {
                return Err(invalid(issues));
            }
        }
        let kind = check(&mut expr, &env.variables, &mut issues);
        if !issues.is_empty() {
            return Err(invalid(issues));
        }
        let mut identifiers = BTreeSet::new();
        names(&expr, &mut |name| {
            identifiers.insert(name.clone());
        });
        let estimate = env.sizes.as_ref().map(|sizes| estimate(&expr, sizes));
        fold(&mut expr)?;
        let height = height(&expr);
        Ok(Self { expr, kind, identifiers, estimate, height })
    }

    /// Compiles an expression that must be a bool.
    pub fn compile_bool(text: &str, env: &Env) -> Result<Self, CompileError> {
        let program = Self::compile(text, env)?;
        match program.kind {
            Type::Bool => Ok(program),
            _ => Err(CompileError::WrongType("bool")),
        }
    }

    /// Compiles an expression that must be text.
    pub fn compile_string(text: &str, env: &Env) -> Result<Self, CompileError> {
        let program = Self::compile(text, env)?;
        match program.kind {
            Type::String => Ok(program),
            _ => Err(CompileError::WrongType("string")),
        }
    }

    /// The type of its result.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// Returns true if the program mentions a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.identifiers.contains(variable)
    }

    /// Returns the depth of its nested expressions, which is the stack that running it takes.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Returns the least and most that it can cost, if the environment knows the sizes of its values ([`Env::sized`]).
    pub fn estimate(&self) -> Option<Range> {
        self.estimate
    }

    /// Runs the program, and returns what that cost. Stopped at [`PER_CALL_LIMIT`].
    pub fn run(&self, activation: &Activation) -> Run {
        let mut evaluation = Evaluation::new(activation.variables.iter().cloned(), PER_CALL_LIMIT);
        let result = evaluation.run(&self.expr);
        Run { result, cost: evaluation.cost() }
    }

    /// Runs the program, for callers that have no budget to keep.
    pub fn eval(&self, activation: &Activation) -> Result<Value, EvalError> {
        self.run(activation).result
    }
}

/// Gives the functions of catalogs the names that they have in the table, which no expression can write.
fn name_catalog_functions(expr: &mut Expr) {
    if let Node::Call { function, member: false, .. } = &mut expr.node
        && &**function == "semver_compare"
    {
        *function = "@semver_compare".into();
    }
    for part in parts_mut(expr) {
        name_catalog_functions(part);
    }
}

/// Makes macros of the calls of `cel.bind`.
fn name_values(expr: &mut Expr, issues: &mut Vec<Issue>) {
    if let Node::Call { function, member: true, arguments, .. } = &mut expr.node
        && &**function == "bind"
        && let [target, name, _, _] = &arguments[..]
        && matches!(&target.node, Node::Ident(library) if &**library == "cel")
    {
        if let Node::Ident(name) = &name.node {
            let variables = vec![name.clone()];
            let bodies = arguments.split_off(3);
            if let Some(range) = arguments.pop() {
                expr.node = Node::Macro(Box::new(Macro { kind: MacroKind::Bind, range, variables, bodies }));
            }
        } else {
            issues.push(Issue::new(name.at, "cel.bind() variable names must be simple identifiers"));
        }
    }
    for part in parts_mut(expr) {
        name_values(part, issues);
    }
}

/// Every identifier of an expression. A macro's own variables may hide outer ones; naming such a one too many is harmless.
pub(crate) fn names(expr: &Expr, found: &mut dyn FnMut(&Arc<str>)) {
    if let Node::Ident(name) = &expr.node {
        found(name);
    }
    for part in parts(expr) {
        names(part, found);
    }
}

fn height(expr: &Expr) -> usize {
    1 + parts(expr).into_iter().map(height).max().unwrap_or(0)
}

/// The expressions directly within one.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match &expr.node {
        Node::Literal(_) | Node::Constant(_) | Node::Ident(_) => Vec::new(),
        Node::Select(select) => vec![&select.operand],
        Node::Call { arguments, .. } => arguments.iter().collect(),
        Node::And(left, right) | Node::Or(left, right) => vec![left, right],
        Node::Conditional(condition, yes, no) => vec![condition, yes, no],
        Node::List(items) => items.iter().map(|item| &item.value).collect(),
        Node::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
        Node::Macro(inner) => std::iter::once(&inner.range).chain(&inner.bodies).collect(),
    }
}

/// The same, to change them.
fn parts_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    match &mut expr.node {
        Node::Literal(_) | Node::Constant(_) | Node::Ident(_) => Vec::new(),
        Node::Select(select) => vec![&mut select.operand],
        Node::Call { arguments, .. } => arguments.iter_mut().collect(),
        Node::And(left, right) | Node::Or(left, right) => vec![left, right],
        Node::Conditional(condition, yes, no) => vec![condition, yes, no],
        Node::List(items) => items.iter_mut().map(|item| &mut item.value).collect(),
        Node::Map(entries) => entries.iter_mut().flat_map(|entry| [&mut entry.key, &mut entry.value]).collect(),
        Node::Macro(inner) => std::iter::once(&mut inner.range).chain(&mut inner.bodies).collect(),
    }
}
