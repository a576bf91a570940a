//! Runs a syntax tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, Literal, Macro, MacroKind, Node, Select};
use crate::cost::charge::{self, Charge};
use crate::cost::{LIST, MAP, SELECT};
use crate::error::{COST_LIMIT, EvalError};
use crate::fold::is_constant;
use crate::functions;
use crate::value::{Key, Value};

type Outcome = Result<Value, EvalError>;

/// One run of an expression: names and their values, the innermost last, and a meter that stops it.
pub(crate) struct Evaluation {
    scope: Vec<(Arc<str>, Value)>,
    limit: u64,
    cost: u64,
}

impl Evaluation {
    pub(crate) fn new(variables: impl IntoIterator<Item = (Arc<str>, Value)>, limit: u64) -> Self {
        Self { scope: variables.into_iter().collect(), limit, cost: 0 }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::new(COST_LIMIT)) } else { Ok(()) }
    }

    pub(crate) fn run(&mut self, expr: &Expr) -> Outcome {
        match &expr.node {
            Node::Literal(literal) => Ok(literal_value(literal)),
            Node::Constant(value) => Ok(value.clone()),
            Node::Select(select) if select.test => self.presence(select),
            Node::Ident(_) | Node::Select(_) => self.chain(expr, SELECT),
            Node::Call { function, .. } if is_index(function) => self.chain(expr, SELECT),
            Node::And(left, right) => self.logic(left, right, false),
            Node::Or(left, right) => self.logic(left, right, true),
            Node::Conditional(condition, yes, no) => match self.run(condition)? {
                Value::Bool(true) => self.chain(yes, 0),
                Value::Bool(false) => self.chain(no, 0),
                _ => Err(EvalError::overload()),
            },
            Node::Call { function, arguments, charge, .. } => {
                // `or` and `orValue` look at their argument only when they need it.
                if let ("or" | "orValue", [target, other]) = (&**function, &arguments[..]) {
                    let target = self.run(target)?;
                    return match (&target, &**function) {
                        (Value::Optional(Some(_)), "or") => Ok(target),
                        (Value::Optional(Some(inner)), _) => Ok(Value::clone(inner)),
                        (Value::Optional(None), _) => self.run(other),
                        _ => Err(EvalError::overload()),
                    };
                }
                let arguments = self.arguments(arguments, *charge)?;
                // A call that fails has been made all the same.
                let result = functions::call(function, &arguments);
                self.charge(charge.cost(&arguments, result.as_ref().unwrap_or(&Value::Null)))?;
                result
            }
            Node::List(items) => {
                let mut out = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.run(&item.value)?;
                    match (item.optional, value) {
                        (false, value) => out.push(value),
                        (true, Value::Optional(inner)) => out.extend(inner.map(|inner| Value::clone(&inner))),
                        (true, _) => return Err(EvalError::overload()),
                    }
                }
                self.charge(LIST)?;
                Ok(Value::list(out))
            }
            Node::Map(entries) => {
                let mut out = BTreeMap::new();
                for entry in entries {
                    let key = self.run(&entry.key)?.key()?;
                    let value = match (entry.optional, self.run(&entry.value)?) {
                        (false, value) => value,
                        (true, Value::Optional(Some(inner))) => Value::clone(&inner),
                        (true, Value::Optional(None)) => continue,
                        (true, _) => return Err(EvalError::overload()),
                    };
                    out.insert(key, value);
                }
                self.charge(MAP)?;
                Ok(Value::Map(Arc::new(out)))
            }
            Node::Macro(inner) => self.comprehension(inner),
        }
    }

    /// The values of a call's arguments. If one of the arguments of a call of one or two fails, the call is still charged.
    fn arguments(&mut self, arguments: &[Expr], charge: Charge) -> Result<Vec<Value>, EvalError> {
        let mut values = Vec::with_capacity(arguments.len());
        let mut failure = None;
        for argument in arguments {
            match self.run(argument) {
                Ok(value) => values.push(value),
                Err(error) if arguments.len() > 2 || error.is_cost_limit() => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                    values.push(Value::Null);
                }
            }
        }
        let Some(failure) = failure else { return Ok(values) };
        self.charge(charge.cost(&values, &Value::Null))?;
        Err(failure)
    }

    fn variable(&self, name: &str) -> Outcome {
        match self.scope.iter().rev().find(|(known, _)| &**known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// A variable or another value with selections and indexes behind it. `head` is the price of its beginning; each step has its own.
    /// If a whole chain is a branch of a conditional or an index itself, upstream counts no beginning.
    fn chain(&mut self, expr: &Expr, head: u64) -> Outcome {
        match &expr.node {
            Node::Ident(name) => {
                self.charge(head)?;
                self.variable(name)
            }
            Node::Select(select) if !select.test => {
                let operand = self.operand(&select.operand, head)?;
                self.select(select, operand)
            }
            Node::Call { function, arguments, .. } if is_index(function) => {
                let [container, at] = &arguments[..] else { return Err(EvalError::overload()) };
                let container = self.operand(container, head)?;
                let price = if matches!(at.node, Node::Conditional(..)) { 0 } else { SELECT };
                let at = self.chain(at, 0)?;
                let found = functions::call(function, &[container, at]);
                // A value that may be absent, and is, costs nothing.
                if !matches!(found, Ok(Value::Optional(None))) {
                    self.charge(price)?;
                }
                found
            }
            _ => self.run(expr),
        }
    }

    /// The value that a selection or an index is applied to. A value that is no chain becomes the beginning of one.
    fn operand(&mut self, expr: &Expr, head: u64) -> Outcome {
        let begins = match &expr.node {
            Node::Ident(_) | Node::Conditional(..) => false,
            Node::Select(select) => select.test,
            Node::Call { function, .. } => !is_index(function),
            _ => true,
        };
        if begins {
            self.charge(head)?;
        }
        self.chain(expr, head)
    }

    fn select(&mut self, select: &Select, operand: Value) -> Outcome {
        let (operand, optional) = match operand {
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            Value::Optional(None) => return Ok(operand),
            other => (other, select.optional),
        };
        let found = field(&operand, &select.field)?;
        if !optional || found.is_some() {
            self.charge(SELECT)?;
        }
        match (optional, found) {
            (true, Some(inner @ Value::Optional(_))) | (false, Some(inner)) => Ok(inner),
            (true, found) => Ok(Value::Optional(found.map(Arc::new))),
            (false, None) => Err(EvalError::new(format!("no such key: {}", select.field))),
        }
    }

    /// `has(operand.field)`
    fn presence(&mut self, select: &Select) -> Outcome {
        let operand = match self.operand(&select.operand, 0)? {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => Value::clone(&inner),
            other => other,
        };
        self.charge(SELECT)?;
        Ok(Value::Bool(field(&operand, &select.field)?.is_some()))
    }

    /// One side may decide alone, even when the other fails.
    fn logic(&mut self, left: &Expr, right: &Expr, decisive: bool) -> Outcome {
        let decides = |outcome: &Outcome| matches!(outcome, Ok(Value::Bool(flag)) if *flag == decisive);
        let left = self.run(left);
        if decides(&left) || left.as_ref().is_err_and(EvalError::is_cost_limit) {
            return left;
        }
        let right = self.run(right);
        if decides(&right) || right.as_ref().is_err_and(EvalError::is_cost_limit) {
            return right;
        }
        match (left?, right?) {
            (Value::Bool(_), Value::Bool(_)) => Ok(Value::Bool(!decisive)),
            _ => Err(EvalError::overload()),
        }
    }

    fn bound(&mut self, inner: &Macro, values: Vec<Value>, body: &Expr) -> Outcome {
        let depth = self.scope.len();
        self.scope.extend(inner.variables.iter().cloned().zip(values));
        let outcome = self.run(body);
        self.scope.truncate(depth);
        outcome
    }

    /// Macros cost what the loops do that upstream expands them to, the reading of their hidden accumulators included.
    fn comprehension(&mut self, inner: &Macro) -> Outcome {
        use MacroKind as Kind;
        let before = self.cost;
        let range = self.run(&inner.range)?;
        let own = self.cost - before;
        match inner.kind {
            Kind::OptMap | Kind::OptFlatMap => return self.optional(inner, &range, own),
            Kind::SortBy => self.charge(2)?,
            Kind::Bind => {
                // The loop that upstream expands it to runs over an empty list.
                self.charge(LIST)?;
                return self.bound(inner, vec![range], &inner.bodies[0]);
            }
            _ => {}
        }
        let rounds = rounds(&range, inner.variables.len())?;
        match inner.kind {
            Kind::All => self.quantifier(inner, rounds, false),
            Kind::Exists => self.quantifier(inner, rounds, true),
            Kind::ExistsOne => {
                let mut count = 0;
                for values in rounds {
                    if self.condition(inner, values)? {
                        count += 1;
                        self.charge(2)?;
                    }
                }
                self.charge(2)?;
                Ok(Value::Bool(count == 1))
            }
            Kind::Filter => {
                let mut out = Vec::new();
                for values in rounds {
                    let item = values[0].clone();
                    if self.condition(inner, values)? {
                        self.charge(LIST + 3)?;
                        out.push(item);
                    }
                }
                self.charge(1)?;
                Ok(Value::list(out))
            }
            Kind::SortBy => {
                let mut items = Vec::with_capacity(rounds.len());
                let mut keys = Vec::with_capacity(rounds.len());
                for values in rounds {
                    items.push(values[0].clone());
                    keys.push(self.bound(inner, values, &inner.bodies[0])?);
                    self.charge(appended(&inner.bodies[0]))?;
                }
                let keys = Value::list(keys);
                self.charge(1 + charge::sorted(&keys))?;
                match &keys {
                    Value::List(keys) => crate::library::lists::sorted(&items, &keys.items),
                    _ => Err(EvalError::overload()),
                }
            }
            _ => self.transform(inner, rounds),
        }
    }

    /// `own` is what reading the optional value took; the body's variable reads it again.
    fn optional(&mut self, inner: &Macro, range: &Value, own: u64) -> Outcome {
        self.charge(1)?;
        match range {
            Value::Optional(None) => {
                self.charge(1)?;
                Ok(Value::Optional(None))
            }
            Value::Optional(Some(value)) => {
                let body = &inner.bodies[0];
                if inner.variables.iter().any(|name| mentions(body, name)) {
                    self.charge(own + 1)?;
                }
                let result = self.bound(inner, vec![Value::clone(value)], body)?;
                if inner.kind == MacroKind::OptFlatMap {
                    return Ok(result);
                }
                self.charge(1)?;
                Ok(Value::some(result))
            }
            _ => Err(EvalError::overload()),
        }
    }

    fn condition(&mut self, inner: &Macro, values: Vec<Value>) -> Result<bool, EvalError> {
        match self.bound(inner, values, &inner.bodies[0])? {
            Value::Bool(flag) => Ok(flag),
            _ => Err(EvalError::overload()),
        }
    }

    /// Stops at the first decisive item; an error counts only when none decides.
    fn quantifier(&mut self, inner: &Macro, rounds: Vec<Vec<Value>>, decisive: bool) -> Outcome {
        let mut failure = None;
        let mut decided = false;
        for values in rounds {
            // Is the accumulator still open? For `exists` it is negated first.
            self.charge(if decisive { 3 } else { 2 })?;
            if decided {
                break;
            }
            self.charge(1)?;
            match self.condition(inner, values) {
                Ok(flag) => decided = flag == decisive,
                Err(error) if error.is_cost_limit() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        self.charge(1)?;
        match failure {
            Some(failure) if !decided => Err(failure),
            _ => Ok(Value::Bool(decided == decisive)),
        }
    }

    fn transform(&mut self, inner: &Macro, rounds: Vec<Vec<Value>>) -> Outcome {
        let Some((body, conditions)) = inner.bodies.split_last() else { return Err(EvalError::overload()) };
        let mut list = Vec::new();
        let mut map = BTreeMap::new();
        for values in rounds {
            if !conditions.is_empty() && !self.condition(inner, values.clone())? {
                continue;
            }
            let key = values[0].clone();
            let result = self.bound(inner, values, body)?;
            self.charge(match inner.kind {
                MacroKind::TransformMap => 3,
                MacroKind::TransformMapEntry => 2,
                _ => appended(body),
            })?;
            match (inner.kind, result) {
                (MacroKind::TransformMap, result) => insert(&mut map, key.key()?, result)?,
                (MacroKind::TransformMapEntry, Value::Map(entries)) => {
                    for (key, value) in entries.iter() {
                        insert(&mut map, key.clone(), value.clone())?;
                    }
                }
                (MacroKind::TransformMapEntry, _) => return Err(EvalError::overload()),
                (_, result) => list.push(result),
            }
        }
        self.charge(1)?;
        Ok(match inner.kind {
            MacroKind::TransformMap | MacroKind::TransformMapEntry => Value::Map(Arc::new(map)),
            _ => Value::list(list),
        })
    }
}

/// The cost of appending one item: the accumulator, a list of the item (unless that is a constant), their sum.
fn appended(item: &Expr) -> u64 {
    2 + if is_constant(item) { 0 } else { LIST }
}

fn is_index(function: &str) -> bool {
    matches!(function, "_[_]" | "_[?_]")
}

/// A field of a map or of an object.
fn field(operand: &Value, name: &Arc<str>) -> Result<Option<Value>, EvalError> {
    match operand {
        Value::Map(map) => Ok(map.get(&Key::Text(name.clone())).cloned()),
        Value::Lazy(fields) => fields.field(name),
        _ => Err(EvalError::new(format!("no such key: {name}"))),
    }
}

/// Returns true if an expression names a variable.
fn mentions(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    crate::program::names(expr, &mut |known| found |= &**known == name);
    found
}

fn insert(map: &mut BTreeMap<Key, Value>, key: Key, value: Value) -> Result<(), EvalError> {
    if map.contains_key(&key) {
        return Err(EvalError::new(format!("insert failed: key {} already exists", functions::shown(&key.value()))));
    }
    map.insert(key, value);
    Ok(())
}

/// The values of the variables, round by round.
fn rounds(range: &Value, variables: usize) -> Result<Vec<Vec<Value>>, EvalError> {
    Ok(match range {
        Value::List(list) if variables == 2 => {
            list.items.iter().enumerate().map(|(index, item)| vec![Value::Int(index as i64), item.clone()]).collect()
        }
        Value::List(list) => list.items.iter().map(|item| vec![item.clone()]).collect(),
        Value::Map(map) if variables == 2 => map.iter().map(|(key, value)| vec![key.value(), value.clone()]).collect(),
        Value::Map(map) => map.keys().map(|key| vec![key.value()]).collect(),
        other => {
            let name = match other {
                Value::Null => "Null",
                Value::Bool(_) => "Bool",
                Value::Int(_) => "Int",
                Value::Uint(_) => "Uint",
                Value::Double(_) => "Double",
                Value::Text(_) => "String",
                Value::Bytes(_) => "Bytes",
                Value::Timestamp(_) => "Timestamp",
                Value::Duration(_) => "Duration",
                _ => return Err(EvalError::overload()),
            };
            return Err(EvalError::new(format!("got 'types.{name}', expected iterable type")));
        }
    })
}

fn literal_value(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::Text(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
