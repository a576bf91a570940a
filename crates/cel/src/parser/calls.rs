//! Calls, and the macros that look like them.

use std::sync::Arc;

use crate::ast::{Expr, Macro, MacroKind, Node, Select};
use crate::cost::charge::Charge;
use crate::error::Issue;

pub(super) fn call(at: usize, function: &str, member: bool, arguments: Vec<Expr>) -> Expr {
    Expr::new(at, Node::Call { function: function.into(), member, arguments, charge: Charge::default() })
}

pub(super) fn global_call(at: usize, name: &Arc<str>, mut arguments: Vec<Expr>) -> Result<Expr, Issue> {
    if &**name == "has" && arguments.len() == 1 {
        return match arguments.pop() {
            Some(Expr { node: Node::Select(select), .. }) if !select.test => {
                Ok(Expr::new(at, Node::Select(Select { test: true, ..select })))
            }
            Some(other) => Err(Issue::new(other.at, "invalid argument to has() macro")),
            None => Err(Issue::new(at, "invalid argument to has() macro")),
        };
    }
    Ok(call(at, name, false, arguments))
}

pub(super) fn member_call(at: usize, name: &Arc<str>, target: Expr, mut arguments: Vec<Expr>) -> Result<Expr, Issue> {
    use MacroKind as Kind;
    // Kind, variables, bodies.
    let expansion = match (&**name, arguments.len()) {
        ("all", 2) => Some((Kind::All, 1)),
        ("all", 3) => Some((Kind::All, 2)),
        ("exists", 2) => Some((Kind::Exists, 1)),
        ("exists", 3) => Some((Kind::Exists, 2)),
        ("exists_one", 2) => Some((Kind::ExistsOne, 1)),
        ("exists_one" | "existsOne", 3) => Some((Kind::ExistsOne, 2)),
        ("map", 2 | 3) => Some((Kind::Map, 1)),
        ("filter", 2) => Some((Kind::Filter, 1)),
        ("transformList", 3 | 4) => Some((Kind::TransformList, 2)),
        ("transformMap", 3 | 4) => Some((Kind::TransformMap, 2)),
        ("transformMapEntry", 3 | 4) => Some((Kind::TransformMapEntry, 2)),
        ("sortBy", 2) => Some((Kind::SortBy, 1)),
        ("optMap", 2) => Some((Kind::OptMap, 1)),
        ("optFlatMap", 2) => Some((Kind::OptFlatMap, 1)),
        _ => None,
    };
    let Some((kind, count)) = expansion else {
        arguments.insert(0, target);
        return Ok(call(at, name, true, arguments));
    };
    let bodies = arguments.split_off(count);
    let variables: Vec<Arc<str>> = arguments.into_iter().map(variable_name).collect::<Result<_, _>>()?;
    if let [first, second] = &variables[..]
        && first == second
    {
        return Err(Issue::new(at, format!("duplicate variable name: {first}")));
    }
    Ok(Expr::new(at, Node::Macro(Box::new(Macro { kind, range: target, variables, bodies }))))
}

fn variable_name(expr: Expr) -> Result<Arc<str>, Issue> {
    match expr.node {
        Node::Ident(name) => Ok(name),
        _ => Err(Issue::new(expr.at, "argument must be a simple name")),
    }
}
