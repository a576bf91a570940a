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

/// Problems of the rules of a schema, and of defaults that break them.
pub fn problems(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = CompiledRules::refusals(schema, path.as_str()).into_iter().map(FieldError::from).collect();
    if errors.is_empty() {
        broken_defaults(schema, path, &mut errors);
    }
    errors
}

/// A default must follow the rules of its own schema, unchanged and new. Those below `additionalProperties` are forbidden anyway.
fn broken_defaults(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.default.as_ref().filter(|default| !default.is_null())
        && let Ok(rules) = CompiledRules::compile(schema, "")
    {
        let mut found = Vec::new();
        rules.check(default, Some(default), &mut found);
        if found.is_empty() {
            rules.check(default, None, &mut found);
        }
        let path = path.child("default");
        errors.extend(found.into_iter().map(|error| error.below(&path)));
    }
    if let Some(items) = &schema.items {
        broken_defaults(items, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        broken_defaults(property, &path.child("properties").key(name), errors);
    }
}
