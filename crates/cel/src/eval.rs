//! Runs a syntax tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, Literal, Macro, MacroKind, Node, Select};
use crate::check::TYPE_NAMES;
use crate::error::{COST_LIMIT, EvalError};
use crate::functions;
use crate::value::{Key, Value};

type Outcome = Result<Value, EvalError>;

/// Names and their values, the innermost last.
pub(crate) struct Evaluation {
    scope: Vec<(Arc<str>, Value)>,
    steps: u64,
}

impl Evaluation {
    pub(crate) fn new(variables: impl IntoIterator<Item = (Arc<str>, Value)>, steps: u64) -> Self {
        Self { scope: variables.into_iter().collect(), steps }
    }

    pub(crate) fn run(&mut self, expr: &Expr) -> Outcome {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| EvalError::new(COST_LIMIT))?;
        match &expr.node {
            Node::Literal(literal) => Ok(literal_value(literal)),
            Node::Ident(name) => self.variable(name),
            Node::Select(select) => self.select(select),
            Node::And(left, right) => self.logic(left, right, false),
            Node::Or(left, right) => self.logic(left, right, true),
            Node::Conditional(condition, yes, no) => match self.run(condition)? {
                Value::Bool(true) => self.run(yes),
                Value::Bool(false) => self.run(no),
                _ => Err(EvalError::overload()),
            },
            Node::Call { function, arguments, .. } => {
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
                let arguments = arguments.iter().map(|argument| self.run(argument)).collect::<Result<Vec<_>, _>>()?;
                self.charge(&arguments)?;
                functions::call(function, &arguments)
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
                Ok(Value::Map(Arc::new(out)))
            }
            Node::Macro(inner) => self.comprehension(inner),
        }
    }

    /// Functions that walk their arguments cost as much as these are long.
    fn charge(&mut self, arguments: &[Value]) -> Result<(), EvalError> {
        let length: usize = arguments
            .iter()
            .map(|argument| match argument {
                Value::Text(text) => text.len() / 10,
                Value::Bytes(bytes) => bytes.len() / 10,
                Value::List(list) => list.items.len(),
                Value::Map(map) => map.len(),
                _ => 0,
            })
            .sum();
        self.steps = self.steps.checked_sub(length as u64).ok_or_else(|| EvalError::new(COST_LIMIT))?;
        Ok(())
    }

    fn variable(&self, name: &str) -> Outcome {
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| &**known == name) {
            return Ok(value.clone());
        }
        match TYPE_NAMES.iter().find(|known| **known == name) {
            Some(name) => Ok(Value::Type(name)),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, select: &Select) -> Outcome {
        let operand = self.run(&select.operand)?;
        let (operand, optional) = match operand {
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            Value::Optional(None) if select.test => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            other => (other, select.optional),
        };
        let Value::Map(map) = &operand else {
            return Err(EvalError::new(format!("no such key: {}", select.field)));
        };
        let found = map.get(&Key::Text(select.field.clone()));
        match (select.test, optional, found) {
            (true, _, found) => Ok(Value::Bool(found.is_some())),
            (false, true, Some(inner @ Value::Optional(_))) | (false, false, Some(inner)) => Ok(inner.clone()),
            (false, true, found) => Ok(Value::Optional(found.cloned().map(Arc::new))),
            (false, false, None) => Err(EvalError::new(format!("no such key: {}", select.field))),
        }
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

    fn comprehension(&mut self, inner: &Macro) -> Outcome {
        use MacroKind as Kind;
        let range = self.run(&inner.range)?;
        match inner.kind {
            Kind::OptMap | Kind::OptFlatMap => {
                return match range {
                    Value::Optional(None) => Ok(range),
                    Value::Optional(Some(value)) => {
                        let result = self.bound(inner, vec![Value::clone(&value)], &inner.bodies[0])?;
                        Ok(if inner.kind == Kind::OptMap { Value::some(result) } else { result })
                    }
                    _ => Err(EvalError::overload()),
                };
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
                    count += u32::from(self.condition(inner, values)?);
                }
                Ok(Value::Bool(count == 1))
            }
            Kind::Filter => {
                let mut out = Vec::new();
                for values in rounds {
                    let item = values[0].clone();
                    if self.condition(inner, values)? {
                        out.push(item);
                    }
                }
                Ok(Value::list(out))
            }
            Kind::SortBy => {
                let mut items = Vec::with_capacity(rounds.len());
                let mut keys = Vec::with_capacity(rounds.len());
                for values in rounds {
                    items.push(values[0].clone());
                    keys.push(self.bound(inner, values, &inner.bodies[0])?);
                }
                crate::library::lists::sorted(&items, &keys)
            }
            _ => self.transform(inner, rounds),
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
        for values in rounds {
            match self.condition(inner, values) {
                Ok(flag) if flag == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(error) if error.is_cost_limit() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
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
        Ok(match inner.kind {
            MacroKind::TransformMap | MacroKind::TransformMapEntry => Value::Map(Arc::new(map)),
            _ => Value::list(list),
        })
    }
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
