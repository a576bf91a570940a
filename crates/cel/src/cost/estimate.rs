//! The worst case of a checked expression, before it runs.
//!
//! Macros are counted as the loops that upstream expands them to, so each has the cost of its hidden accumulator, too.

use std::sync::Arc;

use super::calls;
use super::decl::Decl;
use super::range::Range;
use super::{LIST, MAP, SELECT};
use crate::ast::{Expr, Literal, Macro, MacroKind, Node};
use crate::types::Type;

/// Estimates the cost of evaluating an expression under `root` (what `self` holds).
pub(crate) fn estimate(expr: &Expr, root: &Arc<Decl>) -> Range {
    Estimator { root, locals: Vec::new() }.expr(expr).cost
}

/// The known facts of a subexpression.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) cost: Range,
    /// Characters, items or entries of its value.
    pub(crate) size: Option<Range>,
    /// Sizes of what its value holds.
    pub(crate) entry: Option<Entry>,
    pub(crate) place: Place,
    pub(crate) kind: Type,
    /// The number, of a literal.
    pub(crate) number: Option<i64>,
}

impl Facts {
    pub(crate) fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }

    /// The size of an item of this list, from where it stands in the schema.
    pub(crate) fn item_size(&self) -> Range {
        self.place.decl.as_ref().and_then(|decl| decl.items.as_ref()).map_or(Range::UNKNOWN, |items| Range::new(0, items.max_elements))
    }
}

/// Sizes of keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    list: bool,
    key: Range,
    pub(crate) value: Range,
}

impl Entry {
    pub(crate) fn union(self, other: Self) -> Self {
        Self { list: self.list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// The place of a value in the schema. The first step of any path names a variable, and every variable holds the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    begun: bool,
    decl: Option<Arc<Decl>>,
}

enum Step<'a> {
    Variable,
    Field(&'a str),
    Keys,
    Indices,
    Items,
}

struct Local {
    name: Arc<str>,
    place: Place,
    size: Option<Range>,
    entry: Option<Entry>,
}

struct Estimator<'a> {
    root: &'a Arc<Decl>,
    locals: Vec<Local>,
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

impl Estimator<'_> {
    fn step(&self, place: &Place, step: &Step<'_>) -> Place {
        if !place.begun {
            return Place { begun: true, decl: Some(self.root.clone()) };
        }
        let decl = place.decl.as_ref().and_then(|decl| match step {
            Step::Field(name) => decl.field(name),
            Step::Keys => decl.keys.clone(),
            Step::Items => decl.items.clone(),
            Step::Indices | Step::Variable => None,
        });
        Place { begun: true, decl }
    }

    /// Facts without a size of their own: the schema knows it, or the type.
    pub(crate) fn facts(cost: Range, place: Place, kind: &Type) -> Facts {
        let known = place.decl.as_ref().map(|decl| Range::new(0, decl.max_elements));
        let size = known.or_else(|| is_scalar(kind).then(|| Range::exactly(1)));
        Facts { cost, size, entry: None, place, kind: kind.clone(), number: None }
    }

    fn expr(&mut self, expr: &Expr) -> Facts {
        let kind = &expr.kind;
        match &expr.node {
            Node::Literal(literal) => {
                let size = match literal {
                    Literal::Text(text) => text.chars().count() as u64,
                    Literal::Bytes(bytes) => bytes.len() as u64,
                    _ => 1,
                };
                let number = if let Literal::Int(number) = literal { Some(*number) } else { None };
                let nowhere = Self::facts(Range::exactly(0), Place::default(), kind);
                Facts { size: Some(Range::exactly(size)), number, ..nowhere }
            }
            Node::Ident(name) => self.variable(name, kind),
            // The name of a type.
            Node::Constant(_) => Self::facts(Range::exactly(SELECT), self.step(&Place::default(), &Step::Variable), kind),
            Node::Select(select) => {
                let operand = self.expr(&select.operand);
                if select.optional && !select.test {
                    // A call of two arguments, of which the second is a literal.
                    return Self::facts(operand.cost.plus(Range::exactly(1)), Place::default(), kind);
                }
                if select.test {
                    return Self::facts(operand.cost, Place::default(), kind);
                }
                let counts = matches!(operand.kind, Type::Map(..) | Type::Object(_) | Type::Record(_) | Type::Parameter(_));
                let cost = operand.cost.plus(Range::exactly(if counts { SELECT } else { 0 }));
                Self::facts(cost, self.step(&operand.place, &Step::Field(&select.field)), kind)
            }
            Node::And(left, right) | Node::Or(left, right) => {
                let (left, right) = (self.expr(left).cost, self.expr(right).cost);
                Self::facts(Range::new(left.min, left.plus(right).max), Place::default(), kind)
            }
            Node::Conditional(condition, yes, no) => {
                let (condition, yes, no) = (self.expr(condition), self.expr(yes), self.expr(no));
                let cost = condition.cost.plus(yes.cost.union(no.cost));
                let size = Some(yes.size_or_unknown().union(no.size_or_unknown()));
                let entry = yes.entry.zip(no.entry).map(|(yes, no)| yes.union(no));
                Facts { size, entry, ..Self::facts(cost, Place::default(), kind) }
            }
            Node::List(items) => {
                let mut cost = Range::exactly(LIST);
                let mut value: Option<Range> = None;
                for item in items {
                    let item = self.expr(&item.value);
                    cost = cost.plus(item.cost);
                    value = Some(value.map_or(item.size_or_unknown(), |value| value.union(item.size_or_unknown())));
                }
                let entry = Entry { list: true, key: Range::exactly(1), value: value.unwrap_or(Range::exactly(0)) };
                let size = Some(Range::exactly(items.len() as u64));
                Facts { size, entry: Some(entry), ..Self::facts(cost, Place::default(), kind) }
            }
            Node::Map(entries) => {
                let mut cost = Range::exactly(MAP);
                let mut sizes: Option<(Range, Range)> = None;
                for entry in entries {
                    let (key, value) = (self.expr(&entry.key), self.expr(&entry.value));
                    cost = cost.plus(key.cost).plus(value.cost);
                    let (key, value) = (key.size_or_unknown(), value.size_or_unknown());
                    sizes = Some(sizes.map_or((key, value), |(keys, values)| (keys.union(key), values.union(value))));
                }
                let (key, value) = sizes.unwrap_or((Range::exactly(0), Range::exactly(0)));
                let size = Some(Range::exactly(entries.len() as u64));
                Facts { size, entry: Some(Entry { list: false, key, value }), ..Self::facts(cost, Place::default(), kind) }
            }
            Node::Call { function, member, arguments, .. } => self.call(function, *member, arguments, kind),
            Node::Macro(inner) => self.comprehension(inner, kind),
        }
    }

    fn variable(&self, name: &str, kind: &Type) -> Facts {
        let cost = Range::exactly(SELECT);
        let Some(local) = self.locals.iter().rev().find(|local| &*local.name == name) else {
            return Self::facts(cost, self.step(&Place::default(), &Step::Variable), kind);
        };
        let mut facts = Self::facts(cost, local.place.clone(), kind);
        facts.size = facts.size.or(local.size);
        facts.entry = local.entry;
        facts
    }

    fn call(&mut self, function: &str, member: bool, arguments: &[Expr], kind: &Type) -> Facts {
        let all: Vec<Facts> = arguments.iter().map(|argument| self.expr(argument)).collect();
        let total = all.iter().fold(Range::exactly(0), |sum, one| sum.plus(one.cost));
        if let ("dyn", [only]) = (function, &all[..]) {
            // A cast for the checker alone: what is known of the value stays known.
            let nowhere = Self::facts(total.plus(Range::exactly(1)), Place::default(), kind);
            return Facts { size: only.size, entry: only.entry, ..nowhere };
        }
        let (cost, mut size) = calls::estimate(function, member, &all);
        let place = match function {
            "_[_]" => self.step(&all[0].place, &Step::Items),
            _ => Place::default(),
        };
        if function == "_[_]" {
            size = all[0].entry.map(|entry| entry.value);
        }
        let entry = match (function, &all[..]) {
            ("_+_", [left, right]) => left.entry.zip(right.entry).map(|(left, right)| left.union(right)),
            _ => None,
        };
        let plain = Self::facts(total.plus(cost), place, kind);
        Facts { size: size.or(plain.size), entry, ..plain }
    }

    /// A body with these variables.
    fn with(&mut self, locals: Vec<Local>, body: &Expr) -> Facts {
        let depth = self.locals.len();
        self.locals.extend(locals);
        let facts = self.expr(body);
        self.locals.truncate(depth);
        facts
    }

    fn loop_variables(&self, inner: &Macro, range: &Facts) -> Vec<Local> {
        let list = range.entry.map_or(matches!(range.kind, Type::List(_)), |entry| entry.list);
        let (keys, values) = (range.entry.map(|entry| entry.key), range.entry.map(|entry| entry.value));
        let local =
            |name: &Arc<str>, step: Step<'_>, size| Local { name: name.clone(), place: self.step(&range.place, &step), size, entry: None };
        match &inner.variables[..] {
            [key, value] => vec![local(key, if list { Step::Indices } else { Step::Keys }, keys), local(value, Step::Items, values)],
            [only] if list => vec![local(only, Step::Items, values)],
            [only] => vec![local(only, Step::Keys, keys)],
            _ => Vec::new(),
        }
    }

    fn comprehension(&mut self, inner: &Macro, kind: &Type) -> Facts {
        use MacroKind as Kind;
        let range = self.expr(&inner.range);
        match inner.kind {
            Kind::OptMap | Kind::OptFlatMap => return self.optional(inner, &range, kind),
            Kind::SortBy => return self.sort_by(inner, &range, kind),
            Kind::Bind => return self.bind(inner, &range),
            _ => {}
        }
        let mut bodies = Vec::with_capacity(inner.bodies.len());
        for body in &inner.bodies {
            let variables = self.loop_variables(inner, &range);
            bodies.push(self.with(variables, body));
        }
        let Some((last, conditions)) = bodies.split_last() else { return range };
        let one = Range::exactly(1);
        // Every use of the accumulator is a variable that is read.
        let (begin, condition, step, result, size, entry) = match inner.kind {
            Kind::All => (0, 2, Range::new(1, last.cost.max.saturating_add(1)), 1, one, None),
            Kind::Exists => (0, 3, Range::new(1, last.cost.max.saturating_add(1)), 1, one, None),
            Kind::ExistsOne => (0, 0, last.cost.plus(Range::new(1, 2)), 2, one, None),
            Kind::Filter => {
                let variable = Range::exactly(SELECT);
                let variables = self.loop_variables(inner, &range);
                let item = variables.into_iter().next_back();
                let facts = item.map(|item| {
                    let mut facts = Self::facts(variable, item.place, &item_kind(&range.kind));
                    facts.size = facts.size.or(item.size);
                    facts
                });
                let value = facts.map_or(Range::UNKNOWN, |facts| facts.size_or_unknown());
                let step = last.cost.plus(Range::new(1, 3 + LIST));
                (LIST, 0, step, 1, range.size_or_unknown(), Some(list_of(value)))
            }
            Kind::TransformMap | Kind::TransformMapEntry => {
                let insert = if inner.kind == Kind::TransformMap { 3 } else { 2 };
                let inserted = last.cost.plus(Range::exactly(insert));
                (MAP, 0, conditional(conditions, inserted), 1, range.size_or_unknown(), None)
            }
            _ => {
                let appended = last.cost.plus(Range::exactly(2 + LIST));
                let entry = Some(list_of(last.size_or_unknown()));
                (LIST, 0, conditional(conditions, appended), 1, range.size_or_unknown(), entry)
            }
        };
        let each = step.plus(Range::exactly(condition));
        let total = range.cost.plus(Range::exactly(begin + result)).plus(range.size_or_unknown().times(each));
        Facts { size: Some(size), entry, ..Self::facts(total, Place::default(), kind) }
    }

    /// `x.optMap(v, body)`: does `x` have a value, and the body with that value bound.
    fn optional(&mut self, inner: &Macro, target: &Facts, kind: &Type) -> Facts {
        let one = Range::exactly(1);
        let value = Self::facts(target.cost.plus(one), Place::default(), &inner_kind(&target.kind));
        let locals = inner
            .variables
            .iter()
            .map(|name| Local { name: name.clone(), place: Place::default(), size: value.size, entry: None })
            .collect();
        let Some(body) = inner.bodies.first().map(|body| self.with(locals, body)) else { return value };
        let bound = Range::exactly(LIST).plus(value.cost).plus(body.cost);
        let wrapped = inner.kind == MacroKind::OptMap;
        let present = if wrapped { bound.plus(one) } else { bound };
        let cost = target.cost.plus(one).plus(present.union(one));
        // The other branch has no size of its own, so that of the whole is unknown unless the type knows it.
        let size = Some(if is_scalar(kind) { one } else { Range::UNKNOWN });
        Facts { size, ..Self::facts(cost, Place::default(), kind) }
    }

    /// `cel.bind(x, value, body)`: a loop over an empty list, whose accumulator is the value.
    fn bind(&mut self, inner: &Macro, value: &Facts) -> Facts {
        let local = |name: &Arc<str>| Local { name: name.clone(), place: value.place.clone(), size: value.size, entry: value.entry };
        let locals = inner.variables.iter().map(local).collect();
        let Some(body) = inner.bodies.first().map(|body| self.with(locals, body)) else { return value.clone() };
        Facts { cost: Range::exactly(LIST).plus(value.cost).plus(body.cost), ..body }
    }

    /// `l.sortBy(x, key)`: `l` is bound to a variable, its keys are mapped from it, both go into one call.
    fn sort_by(&mut self, inner: &Macro, target: &Facts, kind: &Type) -> Facts {
        let one = Range::exactly(1);
        let variables = self.loop_variables(inner, target);
        let Some(key) = inner.bodies.first().map(|body| self.with(variables, body)) else { return target.clone() };
        let size = target.size_or_unknown();
        let keys = Range::exactly(SELECT + LIST + 1).plus(size.times(key.cost.plus(Range::exactly(2 + LIST))));
        let factor = if matches!(key.kind, Type::String | Type::Bytes) { 2.1 } else { 2.0 };
        let squared = size.times(size);
        let sorting = squared.scaled(factor).plus(Range::exactly(1 + LIST));
        let cost = Range::exactly(LIST).plus(target.cost).plus(one).plus(keys).plus(sorting);
        Facts { size: Some(squared), ..Self::facts(cost, Place::default(), kind) }
    }
}

/// A step that only some items take; the others read the accumulator.
fn conditional(conditions: &[Facts], step: Range) -> Range {
    match conditions.first() {
        Some(condition) => condition.cost.plus(step.union(Range::exactly(SELECT))),
        None => step,
    }
}

/// The accumulator begins as an empty list.
fn list_of(value: Range) -> Entry {
    Entry { list: true, key: Range::exactly(1), value: Range::exactly(0).union(value) }
}

fn inner_kind(kind: &Type) -> Type {
    if let Type::Optional(inner) = kind { Type::clone(inner) } else { Type::Dyn }
}

fn item_kind(kind: &Type) -> Type {
    match kind {
        Type::List(items) => Type::clone(items),
        Type::Map(keys, _) => Type::clone(keys),
        _ => Type::Dyn,
    }
}
