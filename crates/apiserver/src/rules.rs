//! CEL rules of custom resources (KAPI-CRD-03), evaluated by `mainstay-cel`.

use mainstay_cel::CompiledRules;
use mainstay_schema::Schema;
use mainstay_schema::field::{Error as FieldError, Path};
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
        if let Some(compiled) = &self.compiled {
            compiled.check(value, old, errors);
        }
    }
}

/// Problems of the rules of a schema.
pub fn problems(schema: &Schema, path: &Path) -> Vec<FieldError> {
    CompiledRules::refusals(schema, path.as_str()).into_iter().map(FieldError::from).collect()
}
