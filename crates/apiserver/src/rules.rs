//! CEL rules of custom resources (KAPI-CRD-03), evaluated by `mainstay-cel`.

use mainstay_schema::Schema;
use mainstay_schema::field::{Error as FieldError, Path};
use serde_json::Value;

/// The compiled rules of one schema.
pub struct Rules {}

impl Rules {
    /// Compiles the rules of a schema that was accepted.
    pub fn compile(_schema: &Schema) -> Self {
        Self {}
    }

    /// Adds the findings about an object.
    pub fn check(&self, _schema: &Schema, _value: &Value, _old: Option<&Value>, _errors: &mut Vec<FieldError>) {}
}

/// What is wrong with the rules of a schema.
pub fn problems(_schema: &Schema, _path: &Path) -> Vec<FieldError> {
    Vec::new()
}
