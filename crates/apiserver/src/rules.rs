//! CEL rules of custom resources (KAPI-CRD-03), evaluated by `mainstay-cel`.

use mainstay_cel::{CompiledRules, Reason, RuleError};
use mainstay_schema::Schema;
use mainstay_schema::field::{BadValue, Error as FieldError, Kind, Path};
use serde_json::Value;

/// The compiled rules of one schema.
pub struct Rules {
    compiled: Option<CompiledRules>,
}

impl Rules {
    /// Compiles the rules of a schema that was accepted.
    pub fn compile(schema: &Schema) -> Self {
        match CompiledRules::compile(schema, "") {
            Ok(compiled) => Self { compiled: (!compiled.is_empty()).then_some(compiled) },
            Err(errors) => {
                // Accepted rules compile; these were stored by another version of this program.
                for error in errors {
                    tracing::error!(%error, "a stored rule cannot be compiled and is not enforced");
                }
                Self { compiled: None }
            }
        }
    }

    /// Adds the findings about an object.
    pub fn check(&self, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(compiled) = &self.compiled else { return };
        // Values of the wrong type make rules meaningless: say so instead of evaluating them.
        if let Some(blocked) = mainstay_schema::validate::blocks_rules(errors) {
            errors.push(blocked);
            return;
        }
        for violation in compiled.validate(value, old) {
            let path = if violation.path.is_empty() { Path::root() } else { Path::new(violation.path) };
            errors.push(finding(violation.reason, &path, violation.value.map_or(BadValue::Omitted, BadValue::Value), violation.message));
        }
    }
}

fn finding(reason: Reason, path: &Path, value: BadValue, detail: String) -> FieldError {
    let kind = match reason {
        Reason::Invalid => Kind::Invalid,
        Reason::Forbidden => Kind::Forbidden,
        Reason::Required => Kind::Required,
        Reason::Duplicate => Kind::Duplicate,
        Reason::NotSupported => Kind::NotSupported,
    };
    // Of a duplicate Kubernetes says the value alone.
    let detail = if kind == Kind::Duplicate { String::new() } else { detail };
    FieldError::new(kind, path, value, detail)
}

/// What is wrong with the rules of a schema.
pub fn problems(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let of = |error: RuleError| {
        finding(error.reason, &Path::new(error.path), error.value.map_or(BadValue::Omitted, BadValue::Json), error.detail)
    };
    CompiledRules::refusals(schema, path.as_str()).into_iter().map(of).collect()
}
