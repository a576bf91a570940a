//! Expressions, compiled once and run often.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::{Expr, Node};
use crate::check::check;
use crate::error::{CompileError, EvalError, Issue};
use crate::eval::Evaluation;
use crate::parser::parse;
use crate::types::Type;
use crate::value::Value;

/// The longest expression that is read.
const MAX_BYTES: usize = 100_000;

/// The most steps of one evaluation, about a second's worth.
const MAX_STEPS: u64 = 5_000_000;

/// The variables that an expression may use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<(Arc<str>, Type)>,
}

impl Env {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
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
}

impl Program {
    /// Compiles an expression of any type.
    pub fn compile(text: &str, env: &Env) -> Result<Self, CompileError> {
        if text.len() > MAX_BYTES {
            return Err(CompileError::TooLong { length: text.len(), limit: MAX_BYTES });
        }
        let mut expr = parse(text).map_err(|issue| CompileError::Invalid(issue.show(text)))?;
        let mut issues: Vec<Issue> = Vec::new();
        let kind = check(&mut expr, &env.variables, &mut issues);
        if !issues.is_empty() {
            issues.sort_by_key(|issue| issue.at);
            let shown: Vec<String> = issues.iter().map(|issue| issue.show(text)).collect();
            return Err(CompileError::Invalid(shown.join("\n")));
        }
        let mut identifiers = BTreeSet::new();
        collect(&expr, &mut identifiers);
        Ok(Self { expr, kind, identifiers })
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

    /// Whether it mentions a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.identifiers.contains(variable)
    }

    /// Runs it.
    pub fn eval(&self, activation: &Activation) -> Result<Value, EvalError> {
        Evaluation::new(activation.variables.iter().cloned(), MAX_STEPS).run(&self.expr)
    }
}

fn collect(expr: &Expr, out: &mut BTreeSet<Arc<str>>) {
    match &expr.node {
        Node::Literal(_) => {}
        Node::Ident(name) => {
            out.insert(name.clone());
        }
        Node::Select(select) => collect(&select.operand, out),
        Node::Call { arguments, .. } => arguments.iter().for_each(|argument| collect(argument, out)),
        Node::And(left, right) | Node::Or(left, right) => [left, right].into_iter().for_each(|side| collect(side, out)),
        Node::Conditional(condition, yes, no) => [condition, yes, no].into_iter().for_each(|part| collect(part, out)),
        Node::List(items) => items.iter().for_each(|item| collect(&item.value, out)),
        Node::Map(entries) => entries.iter().for_each(|entry| {
            collect(&entry.key, out);
            collect(&entry.value, out);
        }),
        Node::Macro(inner) => {
            collect(&inner.range, out);
            // A macro's own variables may hide outer ones; naming such a one too many is harmless.
            inner.bodies.iter().for_each(|body| collect(body, out));
        }
    }
}
