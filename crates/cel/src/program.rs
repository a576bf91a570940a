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
        let invalid = |mut issues: Vec<Issue>| {
            issues.sort_by_key(|issue| issue.at);
            let shown: Vec<String> = issues.iter().map(|issue| issue.show(text)).collect();
            CompileError::Invalid(shown.join("\n"))
        };
        let mut expr = parse(text).map_err(invalid)?;
        let mut issues = Vec::new();
        let kind = check(&mut expr, &env.variables, &mut issues);
        if !issues.is_empty() {
            return Err(invalid(issues));
        }
        let mut identifiers = BTreeSet::new();
        collect(&expr, &mut identifiers)?;
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

/// Collects the identifiers, and tries conversions of literals: one that can only fail makes the program useless.
fn collect(expr: &Expr, out: &mut BTreeSet<Arc<str>>) -> Result<(), CompileError> {
    let mut all = |expressions: &[&Expr]| expressions.iter().try_for_each(|expr| collect(expr, out));
    match &expr.node {
        Node::Literal(_) => Ok(()),
        Node::Ident(name) => {
            out.insert(name.clone());
            Ok(())
        }
        Node::Select(select) => all(&[&select.operand]),
        Node::Call { function, arguments, .. } => {
            if let ("bool" | "int" | "uint" | "double" | "string" | "bytes", [Expr { node: Node::Literal(_), .. }]) =
                (&**function, &arguments[..])
            {
                let tried = Evaluation::new([], MAX_STEPS).run(expr);
                tried.map_err(|error| CompileError::Instantiation(error.to_string()))?;
            }
            all(&arguments.iter().collect::<Vec<_>>())
        }
        Node::And(left, right) | Node::Or(left, right) => all(&[left, right]),
        Node::Conditional(condition, yes, no) => all(&[condition, yes, no]),
        Node::List(items) => all(&items.iter().map(|item| &item.value).collect::<Vec<_>>()),
        Node::Map(entries) => all(&entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect::<Vec<_>>()),
        Node::Macro(inner) => {
            // A macro's own variables may hide outer ones; naming such a one too many is harmless.
            all(&std::iter::once(&inner.range).chain(&inner.bodies).collect::<Vec<_>>())
        }
    }
}
