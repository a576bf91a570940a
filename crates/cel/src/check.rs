//! The type checker. It also turns qualified calls (`sets.contains(...)`) into plain ones.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Expr, Literal, Macro, MacroKind, Node, Select};
use crate::cost::charge::Charge;
use crate::error::Issue;
use crate::library::{self, regex_of};
use crate::signatures::{comparison, overloads};
use crate::types::Type;
use crate::value::Value;

/// Names of types that are values.
pub(crate) const TYPE_NAMES: [&str; 13] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
];

/// The parameter in place of a type that nothing has fixed yet: that of the items of `[]`.
const OPEN: char = '_';

pub(crate) struct Checker<'a> {
    scopes: Vec<(Arc<str>, Type)>,
    issues: &'a mut Vec<Issue>,
    /// Within the arguments of `format()` a list may be mixed.
    mixed: bool,
}

pub(crate) type Bindings = HashMap<char, Type>;

/// Checks an expression in place; the type is of use only when there are no issues.
pub(crate) fn check(expr: &mut Expr, variables: &[(Arc<str>, Type)], issues: &mut Vec<Issue>) -> Type {
    Checker { scopes: variables.to_vec(), issues, mixed: false }.expr(expr)
}

impl Checker<'_> {
    fn issue(&mut self, at: usize, problem: impl Into<String>) -> Type {
        self.issues.push(Issue::new(at, problem));
        Type::Wrong
    }

    fn variable(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find(|(known, _)| &**known == name).map(|(_, kind)| kind)
    }

    fn expr(&mut self, expr: &mut Expr) -> Type {
        let kind = self.infer(expr);
        expr.kind = kind.clone();
        kind
    }

    fn infer(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        match &mut expr.node {
            Node::Literal(literal) => literal_type(literal),
            Node::Constant(_) => Type::Type,
            Node::Ident(name) => {
                if let Some(kind) = self.variable(name) {
                    return kind.clone();
                }
                if let Some(known) = TYPE_NAMES.into_iter().find(|known| *known == &**name) {
                    expr.node = Node::Constant(Value::Type(known));
                    return Type::Type;
                }
                let problem = format!("undeclared reference to '{name}' (in container '')");
                self.issue(at, problem)
            }
            Node::Select(select) => {
                if let Some(name) = qualified(select, &self.scopes)
                    && let Some(known) = TYPE_NAMES.into_iter().find(|known| *known == name)
                {
                    expr.node = Node::Constant(Value::Type(known));
                    return Type::Type;
                }
                // The longest name wins: `authorizer.requestResource` is a variable beside `authorizer`.
                if let Some(name) = dotted(select)
                    && let Some(kind) = self.variable(&name).cloned()
                {
                    expr.node = Node::Ident(name.into());
                    return kind;
                }
                self.select(at, select)
            }
            Node::And(left, right) | Node::Or(left, right) => self.logic(left, right),
            Node::Conditional(condition, yes, no) => {
                let types = vec![self.expr(condition), self.expr(yes), self.expr(no)];
                let mut bindings = Bindings::new();
                if !assignable(&Type::Bool, &types[0], &mut bindings) {
                    return self.no_overload(at, "_?_:_", false, &types);
                }
                match join(&types[1], &types[2]) {
                    Some(kind) => kind,
                    None => self.no_overload(at, "_?_:_", false, &types),
                }
            }
            Node::List(items) => {
                let mut kind: Option<Type> = None;
                for item in items {
                    let mut found = self.expr(&mut item.value);
                    if item.optional {
                        found = self.unwrapped(item.value.at, found);
                    }
                    kind = Some(self.joined(item.value.at, kind, found));
                }
                Type::List(Arc::new(kind.unwrap_or(Type::Parameter(OPEN))))
            }
            Node::Map(entries) => {
                let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
                for entry in entries {
                    let key = self.expr(&mut entry.key);
                    keys = Some(self.joined(entry.key.at, keys, key));
                    let mut value = self.expr(&mut entry.value);
                    if entry.optional {
                        value = self.unwrapped(entry.value.at, value);
                    }
                    values = Some(self.joined(entry.value.at, values, value));
                }
                Type::Map(Arc::new(keys.unwrap_or(Type::Parameter(OPEN))), Arc::new(values.unwrap_or(Type::Parameter(OPEN))))
            }
            Node::Macro(inner) => self.comprehension(at, inner),
            Node::Call { .. } => self.call(expr),
        }
    }

    fn joined(&mut self, at: usize, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        match join(&before, &found) {
            Some(kind) if self.mixed || homogeneous(&before, &found) => kind,
            None if self.mixed => Type::Dyn,
            _ => {
                self.issue(at, format!("expected type '{before}' but found '{found}'"));
                Type::Dyn
            }
        }
    }

    fn unwrapped(&mut self, at: usize, kind: Type) -> Type {
        match kind {
            Type::Optional(inner) => Type::clone(&inner),
            Type::Dyn | Type::Wrong => kind,
            other => self.issue(at, format!("expected type 'optional_type' but found '{other}'")),
        }
    }

    fn logic(&mut self, left: &mut Expr, right: &mut Expr) -> Type {
        for side in [left, right] {
            let kind = self.expr(side);
            self.boolean(side.at, &kind);
        }
        Type::Bool
    }

    fn boolean(&mut self, at: usize, kind: &Type) {
        if !assignable(&Type::Bool, kind, &mut Bindings::new()) {
            self.issue(at, format!("expected type 'bool' but found '{kind}'"));
        }
    }

    fn select(&mut self, at: usize, select: &mut Select) -> Type {
        let operand = self.expr(&mut select.operand);
        let (operand, mut optional) = match operand {
            Type::Optional(inner) => (Type::clone(&inner), true),
            other => (other, false),
        };
        optional |= select.optional;
        let found = match &operand {
            Type::Dyn | Type::Parameter(_) => Type::Dyn,
            Type::Wrong => return Type::Wrong,
            Type::Map(_, values) => Type::clone(values),
            Type::Object(schema) => match Type::field(schema, &select.field) {
                Some(kind) => kind,
                None => return self.issue(at, format!("undefined field '{}'", select.field)),
            },
            Type::Record(record) => match record.field(&select.field) {
                Some(kind) => kind.clone(),
                None => return self.issue(at, format!("undefined field '{}'", select.field)),
            },
            other => return self.issue(at, format!("type '{other}' does not support field selection")),
        };
        match (select.test, optional, found) {
            (true, ..) => Type::Bool,
            (false, true, found @ Type::Optional(_)) | (false, false, found) => found,
            (false, true, found) => Type::Optional(Arc::new(found)),
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        let Node::Call { function, member, arguments, charge } = &mut expr.node else { return Type::Wrong };
        if *member && let Some(prefix) = arguments.first().and_then(|target| qualified_target(target, &self.scopes)) {
            let name = format!("{prefix}.{function}");
            if !overloads(&name).is_empty() {
                *function = name.into();
                *member = false;
                arguments.remove(0);
            }
        }
        let name = function.clone();
        let member = *member;
        let candidates = overloads(comparison(&name));
        if candidates.is_empty() {
            for argument in arguments {
                self.expr(argument);
            }
            return self.issue(at, format!("undeclared reference to '{name}' (in container '')"));
        }
        let outer = self.mixed;
        self.mixed = outer || &*name == "format";
        let types: Vec<Type> = arguments.iter_mut().map(|argument| self.expr(argument)).collect();
        self.mixed = outer;
        if types.iter().any(|kind| matches!(kind, Type::Wrong)) {
            return Type::Wrong;
        }
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for candidate in candidates.iter().filter(|one| one.member == member && one.arguments.len() == types.len()) {
            let mut bindings = Bindings::new();
            if candidate.arguments.iter().zip(&types).all(|(wanted, given)| assignable(wanted, given, &mut bindings)) {
                let found = substitute(&candidate.result, &bindings);
                fitting.push(candidate);
                result = Some(match result {
                    None => found,
                    Some(before) => {
                        if same(&before, &found) {
                            before
                        } else {
                            Type::Dyn
                        }
                    }
                });
            }
        }
        // Which of several overloads is meant shows only when it runs; its price is then that of the simplest.
        *charge = Charge::of(&name, if let [only] = fitting[..] { Some(only) } else { None });
        self.literals(&name, expr);
        match result {
            Some(kind) => kind,
            None => self.no_overload(at, &name, member, &types),
        }
    }

    /// Literals that can only fail are refused early.
    fn literals(&mut self, name: &str, expr: &Expr) {
        let Node::Call { arguments, .. } = &expr.node else { return };
        let literal = |index: usize| match arguments.get(index) {
            Some(Expr { at, node: Node::Literal(Literal::Text(text)), .. }) => Some((*at, text.clone())),
            _ => None,
        };
        let (found, valid): (_, fn(&str) -> bool) = match name {
            "matches" => (literal(1), |text| regex_of(text).is_ok()),
            "duration" => (literal(0), |text| library::time::parse_duration(text).is_some()),
            "timestamp" => (literal(0), |text| library::time::parse_timestamp(text).is_some()),
            _ => return,
        };
        if let Some((at, text)) = found
            && !valid(&text)
        {
            self.issue(at, format!("invalid {name} argument"));
        }
    }

    fn no_overload(&mut self, at: usize, name: &str, member: bool, types: &[Type]) -> Type {
        if types.iter().any(|kind| matches!(kind, Type::Wrong)) {
            return Type::Wrong;
        }
        let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        let applied = match types.split_first() {
            Some((target, rest)) if member => format!("{target}.({})", list(rest)),
            _ => format!("({})", list(types)),
        };
        self.issue(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    fn comprehension(&mut self, at: usize, inner: &mut Macro) -> Type {
        use MacroKind as Kind;
        let range = self.expr(&mut inner.range);
        let two = inner.variables.len() == 2;
        let variables: Vec<Type> = match (inner.kind, &range) {
            (Kind::OptMap | Kind::OptFlatMap, Type::Optional(kind)) => vec![Type::clone(kind)],
            (Kind::OptMap | Kind::OptFlatMap, Type::Dyn) => vec![Type::Dyn],
            (Kind::Bind, kind) => vec![Type::clone(kind)],
            (Kind::OptMap | Kind::OptFlatMap, kind) => {
                let types = [kind.clone()];
                let name = if inner.kind == Kind::OptMap { "optMap" } else { "optFlatMap" };
                return self.no_overload(at, name, true, &types);
            }
            (_, Type::Dyn | Type::Parameter(_)) => vec![Type::Dyn; inner.variables.len()],
            (_, Type::Wrong) => vec![Type::Wrong; inner.variables.len()],
            (_, Type::List(items)) if two => vec![Type::Int, Type::clone(items)],
            (_, Type::Map(keys, values)) if two => vec![Type::clone(keys), Type::clone(values)],
            (_, Type::List(items)) => vec![Type::clone(items)],
            (kind, Type::Map(keys, _)) if kind != Kind::SortBy => vec![Type::clone(keys)],
            (_, kind) => {
                let problem = format!("expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)");
                return self.issue(inner.range.at, problem);
            }
        };
        let variables_first = variables.first().cloned().unwrap_or(Type::Dyn);
        let depth = self.scopes.len();
        self.scopes.extend(inner.variables.iter().cloned().zip(variables));
        let types: Vec<Type> = inner.bodies.iter_mut().map(|body| self.expr(body)).collect();
        self.scopes.truncate(depth);
        let conditions = match inner.kind {
            Kind::All | Kind::Exists | Kind::ExistsOne | Kind::Filter => 1,
            Kind::Map | Kind::TransformList | Kind::TransformMap | Kind::TransformMapEntry => types.len() - 1,
            Kind::SortBy | Kind::OptMap | Kind::OptFlatMap | Kind::Bind => 0,
        };
        let last = types.last().cloned().unwrap_or(Type::Dyn);
        let result = match (inner.kind, &range) {
            (Kind::All | Kind::Exists | Kind::ExistsOne, _) => Type::Bool,
            (Kind::Filter, Type::Map(keys, _)) => Type::List(keys.clone()),
            (Kind::Filter | Kind::SortBy, kind) => kind.clone(),
            (Kind::Map | Kind::TransformList, _) => Type::List(Arc::new(last)),
            (Kind::TransformMap, Type::Map(keys, _)) => Type::Map(keys.clone(), Arc::new(last)),
            (Kind::TransformMap, Type::List(_)) => Type::Map(Arc::new(Type::Int), Arc::new(last)),
            (Kind::TransformMap, _) => Type::Map(Arc::new(Type::Dyn), Arc::new(last)),
            (Kind::TransformMapEntry | Kind::OptFlatMap | Kind::Bind, _) => last,
            (Kind::OptMap, _) => Type::Optional(Arc::new(last)),
        };
        for (body, kind) in inner.bodies.iter().zip(&types[..conditions]) {
            if matches!(inner.kind, Kind::All | Kind::Exists) {
                self.boolean(body.at, kind);
            } else if !assignable(&Type::Bool, kind, &mut Bindings::new()) {
                // These macros are conditionals over what they collect.
                let collected = match inner.kind {
                    Kind::ExistsOne => Type::Int,
                    Kind::Filter => Type::List(Arc::new(variables_first)),
                    _ => result,
                };
                return self.no_overload(at, "_?_:_", false, &[kind.clone(), collected.clone(), collected]);
            }
        }
        result
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `a.b` as one name.
fn dotted(select: &Select) -> Option<String> {
    match &select.operand.node {
        Node::Ident(name) if !select.test && !select.optional => Some(format!("{name}.{}", select.field)),
        _ => None,
    }
}

/// `a.b.c` when `a` is no variable.
fn qualified_target(expr: &Expr, scopes: &[(Arc<str>, Type)]) -> Option<String> {
    match &expr.node {
        Node::Ident(name) if !scopes.iter().any(|(known, _)| known == name) => Some(name.to_string()),
        Node::Select(select) => qualified(select, scopes),
        _ => None,
    }
}

fn qualified(select: &Select, scopes: &[(Arc<str>, Type)]) -> Option<String> {
    if select.test || select.optional {
        return None;
    }
    Some(format!("{}.{}", qualified_target(&select.operand, scopes)?, select.field))
}

/// Returns true if a value of type `given` may stand in place of a `wanted` one; binds type parameters of `wanted`.
pub(crate) fn assignable(wanted: &Type, given: &Type, bindings: &mut Bindings) -> bool {
    match (wanted, given) {
        (Type::Parameter(name), _) => match bindings.get(name).cloned() {
            None => {
                bindings.insert(*name, given.clone());
                true
            }
            Some(bound) => match join(&bound, given) {
                Some(kind) => {
                    bindings.insert(*name, kind);
                    true
                }
                None => false,
            },
        },
        (Type::Dyn | Type::Wrong, _) | (_, Type::Dyn | Type::Wrong | Type::Parameter(OPEN)) => {
            // Parameters inside still need a type.
            bind_rest(wanted, bindings);
            true
        }
        (Type::List(wanted), Type::List(given)) | (Type::Optional(wanted), Type::Optional(given)) => assignable(wanted, given, bindings),
        (Type::Map(keys, values), Type::Map(given_keys, given_values)) => {
            assignable(keys, given_keys, bindings) && assignable(values, given_values, bindings)
        }
        (wanted, given) => join(wanted, given).is_some(),
    }
}

fn bind_rest(wanted: &Type, bindings: &mut Bindings) {
    match wanted {
        Type::Parameter(name) => {
            bindings.entry(*name).or_insert(Type::Dyn);
        }
        Type::List(inner) | Type::Optional(inner) => bind_rest(inner, bindings),
        Type::Map(keys, values) => {
            bind_rest(keys, bindings);
            bind_rest(values, bindings);
        }
        _ => {}
    }
}

/// The type that both are, if any. Objects are compared by nothing but being objects: names of their types are ours to choose.
fn join(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Wrong, _) | (_, Type::Wrong) => Some(Type::Wrong),
        (Type::Parameter(OPEN), other) | (other, Type::Parameter(OPEN)) => Some(other.clone()),
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        (Type::Null, other) | (other, Type::Null) => match other {
            Type::Null | Type::Object(_) | Type::Record(_) | Type::Optional(_) | Type::Timestamp | Type::Duration | Type::Library(_) => {
                Some(other.clone())
            }
            _ => None,
        },
        (Type::List(left), Type::List(right)) => Some(Type::List(Arc::new(join(left, right)?))),
        (Type::Optional(left), Type::Optional(right)) => Some(Type::Optional(Arc::new(join(left, right)?))),
        (Type::Map(left_keys, left), Type::Map(right_keys, right)) => {
            Some(Type::Map(Arc::new(join(left_keys, right_keys)?), Arc::new(join(left, right)?)))
        }
        (Type::Object(left_schema), Type::Object(right_schema)) => {
            let same = left_schema.same(right_schema) || left_schema.properties.keys().eq(right_schema.properties.keys());
            same.then(|| left.clone())
        }
        (left, right) => same(left, right).then(|| left.clone()),
    }
}

/// Returns true if two items may stand in one literal: as `join`, but what is dynamic stays among its own.
fn homogeneous(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Parameter(OPEN) | Type::Wrong, _) | (_, Type::Parameter(OPEN) | Type::Wrong) => true,
        (Type::Dyn, other) | (other, Type::Dyn) => matches!(other, Type::Dyn),
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => homogeneous(left, right),
        (Type::Map(left_keys, left), Type::Map(right_keys, right)) => homogeneous(left_keys, right_keys) && homogeneous(left, right),
        (left, right) => join(left, right).is_some(),
    }
}

fn same(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => same(left, right),
        (Type::Map(left_keys, left), Type::Map(right_keys, right)) => same(left_keys, right_keys) && same(left, right),
        (Type::Object(left), Type::Object(right)) => left.same(right),
        (Type::Library(left), Type::Library(right)) => left == right,
        (Type::Record(left), Type::Record(right)) => left.same(right),
        (Type::Parameter(left), Type::Parameter(right)) => left == right,
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

fn substitute(kind: &Type, bindings: &Bindings) -> Type {
    match kind {
        Type::Parameter(name) => bindings.get(name).cloned().unwrap_or(Type::Parameter(OPEN)),
        Type::List(inner) => Type::List(Arc::new(substitute(inner, bindings))),
        Type::Optional(inner) => Type::Optional(Arc::new(substitute(inner, bindings))),
        Type::Map(keys, values) => Type::Map(Arc::new(substitute(keys, bindings)), Arc::new(substitute(values, bindings))),
        other => other.clone(),
    }
}
