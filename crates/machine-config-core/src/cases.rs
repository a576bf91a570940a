//! Answers to inputs in the form of the records of upstream's answers: one JSON object an input, the answer under `out`.

mod container_runtime;
mod kubelet;
mod pool;
mod registries;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use container_runtime::container_runtime;
pub use kubelet::kubelet_conf;
pub use pool::{candidates, pool_membership, pool_status};
pub use registries::registries_conf;

/// An input that is not of the recorded form.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A field is missing or has another type.
    #[error("field {field} cannot be read: {source}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The mistake.
        source: serde_json::Error,
    },
    /// The line is no object.
    #[error("the line is no JSON object")]
    NoObject,
}

/// Reads a field of a line; an absent field is read as null.
fn field<T: DeserializeOwned>(line: &Value, field: &'static str) -> Result<T, CaseError> {
    T::deserialize(line.get(field).unwrap_or(&Value::Null)).map_err(|source| CaseError::Field { field, source })
}

/// Reads a field that may be absent or null.
fn optional<T: DeserializeOwned + Default>(line: &Value, name: &'static str) -> Result<T, CaseError> {
    field::<Option<T>>(line, name).map(Option::unwrap_or_default)
}

/// Returns the line with this answer.
fn answered(line: &Value, out: Value) -> Result<Value, CaseError> {
    let mut line = line.as_object().cloned().ok_or(CaseError::NoObject)?;
    line.insert("out".to_owned(), out);
    Ok(Value::Object(line))
}
