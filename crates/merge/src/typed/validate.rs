//! Validation of a value against its type, which structured merge needs before it can merge, with upstream's words.

use std::collections::BTreeSet;
use std::fmt;

use mainstay_golang::value as go;
use serde_json::Value;

use super::{Node, ScalarType, Shape};
use crate::fieldset::Step;

/// The parts that do not fit, each as `PATH: problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(pub Vec<String>);

impl fmt::Display for Violations {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => out.write_str(one),
            many => {
                out.write_str("errors:")?;
                many.iter().try_for_each(|one| write!(out, "\n  {one}"))
            }
        }
    }
}

/// The rule for two items of the same key in an associative list: live objects may have them, applied ones may not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// They are an error.
    Refused,
    /// They are allowed.
    Allowed,
}

impl Node<'_> {
    /// Checks a value.
    pub fn validate(self, value: &Value, duplicates: Duplicates) -> Result<(), Violations> {
        let mut walk = Walk { duplicates, path: Vec::new(), found: Vec::new() };
        walk.visit(self, value);
        if walk.found.is_empty() { Ok(()) } else { Err(Violations(walk.found)) }
    }
}

struct Walk<'v> {
    duplicates: Duplicates,
    /// Written out only if something does not fit.
    path: Vec<Step<'v>>,
    found: Vec<String>,
}

impl<'v> Walk<'v> {
    fn report(&mut self, problem: &str) {
        let separator = if self.path.is_empty() { "" } else { ": " };
        self.found.push(format!("{}{separator}{problem}", self.place()));
    }

    fn place(&self) -> String {
        self.path.iter().map(|step| step.owned().to_string()).collect()
    }

    /// Goes a step down; hands the step back.
    fn below(&mut self, step: Step<'v>, node: Node<'v>, value: &'v Value) -> Option<Step<'v>> {
        self.path.push(step);
        self.visit(node, value);
        self.path.pop()
    }

    fn visit(&mut self, node: Node<'v>, value: &'v Value) {
        match (node.shape(Some(value)), value) {
            (_, Value::Null) => {}
            (Shape::Scalar(kind), value) => self.scalar(kind, value),
            (Shape::List(list), Value::Array(items)) => {
                let mut seen = BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    if list.is_atomic() {
                        self.below(Step::Index(index as i64), list.items, item);
                        continue;
                    }
                    match list.element(item) {
                        Err(problem) => {
                            self.report(&format!("element {index}: {problem}"));
                            return;
                        }
                        Ok(step) => {
                            let Some(step) = self.below(step, list.items, item) else { continue };
                            if self.duplicates == Duplicates::Refused && seen.contains(&step) {
                                self.report(&format!("duplicate entries for key {}", step.owned()));
                            } else if self.duplicates == Duplicates::Refused {
                                seen.insert(step);
                            }
                        }
                    }
                }
            }
            (Shape::List(_), other) => self.report(&format!("expected list, got &{{{}}}", go::plain(other))),
            (Shape::Map(map), Value::Object(members)) => {
                for (name, member) in members {
                    if let Some((node, _)) = map.member(name) {
                        self.below(Step::Field(name), node, member);
                    } else {
                        self.found.push(format!("{}.{name}: field not declared in schema", self.place()));
                    }
                }
            }
            (Shape::Map(_), other) => self.report(&format!("expected map, got &{{{}}}", go::plain(other))),
        }
    }

    fn scalar(&mut self, kind: ScalarType, value: &Value) {
        let fits = match kind {
            ScalarType::Numeric => value.is_number(),
            ScalarType::String => value.is_string(),
            ScalarType::Boolean => value.is_boolean(),
            ScalarType::Any => value.is_number() || value.is_string() || value.is_boolean(),
        };
        if fits {
            return;
        }
        let problem = match kind {
            ScalarType::Numeric => format!("expected numeric (int or float), got {}", go::type_name(value)),
            ScalarType::String => format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)),
            ScalarType::Boolean => format!("expected boolean, got &{{{}}}", go::plain(value)),
            ScalarType::Any => format!("expected any scalar, got &{{{}}}", go::plain(value)),
        };
        self.report(&problem);
    }
}
