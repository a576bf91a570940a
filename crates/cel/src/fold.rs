//! Constant folding: what is known before an expression runs is computed once (lists and maps of constants, conversions of constants,
//! membership in an empty list). A conversion that can only fail makes the expression useless, and is refused.

use crate::ast::{Expr, Node};
use crate::cost::PER_CALL_LIMIT;
use crate::cost::charge::Charge;
use crate::error::CompileError;
use crate::eval::Evaluation;
use crate::types::Type;
use crate::value::{Identity, Value};

const CONVERSIONS: [&str; 10] = ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Replaces what is constant by its value, from the inside out.
pub(crate) fn fold(expr: &mut Expr) -> Result<(), CompileError> {
    // From here on nothing asks for types, and some hold much: that of `variables` all those before.
    expr.kind = Type::Dyn;
    match &mut expr.node {
        Node::Literal(_) | Node::Constant(_) | Node::Ident(_) => return Ok(()),
        Node::Select(select) => return fold(&mut select.operand),
        Node::And(left, right) | Node::Or(left, right) => {
            fold(left)?;
            return fold(right);
        }
        Node::Conditional(condition, yes, no) => {
            fold(condition)?;
            fold(yes)?;
            return fold(no);
        }
        Node::Macro(inner) => {
            fold(&mut inner.range)?;
            return inner.bodies.iter_mut().try_for_each(fold);
        }
        Node::Call { function, arguments, charge, .. } => {
            arguments.iter_mut().try_for_each(fold)?;
            match (&**function, &arguments[..]) {
                (name, [only]) if CONVERSIONS.contains(&name) && is_constant(only) => {}
                ("@in", [_, list]) => match constant_list(list) {
                    Some([]) => {
                        expr.node = Node::Constant(Value::Bool(false));
                        return Ok(());
                    }
                    Some(items) if items.iter().all(is_primitive) => {
                        // Found by its value, without a look at every item.
                        if matches!(charge, Charge::InList) {
                            *charge = Charge::Flat(0);
                        }
                        return Ok(());
                    }
                    _ => return Ok(()),
                },
                _ => return Ok(()),
            }
        }
        Node::List(items) => {
            items.iter_mut().try_for_each(|item| fold(&mut item.value))?;
            if !items.iter().all(|item| !item.optional && is_constant(&item.value)) {
                return Ok(());
            }
        }
        Node::Map(entries) => {
            for entry in entries.iter_mut() {
                fold(&mut entry.key)?;
                fold(&mut entry.value)?;
            }
            if !entries.iter().all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value)) {
                return Ok(());
            }
        }
    }
    let value = Evaluation::new([], PER_CALL_LIMIT).run(expr);
    expr.node = Node::Constant(value.map_err(|error| CompileError::Instantiation(error.to_string()))?);
    Ok(())
}

/// Returns true if a node's value is known.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    matches!(expr.node, Node::Literal(_) | Node::Constant(_))
}

fn constant_list(expr: &Expr) -> Option<&[Value]> {
    match &expr.node {
        Node::Constant(Value::List(list)) if matches!(list.identity, Identity::Position) => Some(&list.items),
        _ => None,
    }
}

fn is_primitive(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_))
}
