//! Functions on lists.

use std::cmp::Ordering;

use crate::error::EvalError;
use crate::value::{List, Value};

const MAX_ITEMS: i64 = 100_000;

pub(crate) fn is_sorted(list: &List) -> Result<Value, EvalError> {
    for pair in list.items.windows(2) {
        if pair[0].compare(&pair[1])?.is_none_or(Ordering::is_gt) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

pub(crate) fn sum(list: &List) -> Result<Value, EvalError> {
    let mut items = list.items.iter().cloned();
    let Some(first) = items.next() else { return Ok(Value::Int(0)) };
    items.try_fold(first, |sum, item| crate::functions::arithmetic("_+_", &sum, &item))
}

/// The smallest or the greatest item.
pub(crate) fn extreme(list: &List, name: &str) -> Result<Value, EvalError> {
    let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
    let mut items = list.items.iter();
    let Some(mut best) = items.next() else {
        return Err(EvalError::new(format!("{name} called on empty list")));
    };
    for item in items {
        if item.compare(best)? == Some(wanted) {
            best = item;
        }
    }
    Ok(best.clone())
}

pub(crate) fn index_of(list: &List, value: &Value) -> Value {
    Value::Int(list.items.iter().position(|item| item.equals(value)).map_or(-1, |at| at as i64))
}

pub(crate) fn last_index_of(list: &List, value: &Value) -> Value {
    Value::Int(list.items.iter().rposition(|item| item.equals(value)).map_or(-1, |at| at as i64))
}

pub(crate) fn slice(list: &List, start: i64, end: i64) -> Result<Value, EvalError> {
    let length = list.items.len();
    if start < 0 || end < 0 {
        return Err(EvalError::new(format!("cannot slice({start}, {end}), negative indexes not supported")));
    }
    if start > end {
        return Err(EvalError::new(format!("cannot slice({start}, {end}), start index must be less than or equal to end index")));
    }
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if to <= length => Ok(Value::list(list.items[from..to].to_vec())),
        _ => Err(EvalError::new(format!("cannot slice({start}, {end}), list is length {length}"))),
    }
}

pub(crate) fn flatten(list: &List, depth: i64) -> Result<Value, EvalError> {
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    append_flat(&mut out, list, depth.min(100));
    Ok(Value::list(out))
}

fn append_flat(out: &mut Vec<Value>, list: &List, depth: i64) {
    for item in &list.items {
        match item {
            Value::List(inner) if depth > 0 => append_flat(out, inner, depth - 1),
            other => out.push(other.clone()),
        }
    }
}

pub(crate) fn distinct(list: &List) -> Value {
    let mut out: Vec<Value> = Vec::new();
    for item in &list.items {
        if !out.iter().any(|known| known.equals(item)) {
            out.push(item.clone());
        }
    }
    Value::list(out)
}

/// Items in the order of their keys; equal keys keep their order.
pub(crate) fn sorted(items: &[Value], keys: &[Value]) -> Result<Value, EvalError> {
    for pair in keys.windows(2) {
        pair[0].compare(&pair[1])?;
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|left, right| keys[*left].compare(&keys[*right]).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|index| items[index].clone()).collect()))
}

pub(crate) fn range(count: i64) -> Result<Value, EvalError> {
    if count > MAX_ITEMS {
        return Err(EvalError::new(format!("lists.range({count}) is longer than {MAX_ITEMS}")));
    }
    Ok(Value::list((0..count).map(Value::Int).collect()))
}
