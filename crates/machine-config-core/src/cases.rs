//! Answers to inputs in the form of the records of upstream's answers: one JSON object an input, one an answer: the identifier
//! of the input, and the answer under `out`.

mod configs;
mod container_runtime;
mod kubelet;
mod pool;
mod registries;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use configs::{butane, disruption, merge, reconcilable};
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
        field: String,
        /// The mistake.
        source: serde_json::Error,
    },
    /// The line is no object.
    #[error("the line is no JSON object")]
    NoObject,
}

/// Reads a field of a line; an absent field is read as null.
fn field<T: DeserializeOwned>(line: &Value, field: &str) -> Result<T, CaseError> {
    T::deserialize(line.get(field).unwrap_or(&Value::Null)).map_err(|source| CaseError::Field { field: field.to_owned(), source })
}

/// Reads a field that may be absent or null.
fn optional<T: DeserializeOwned + Default>(line: &Value, name: &str) -> Result<T, CaseError> {
    field::<Option<T>>(line, name).map(Option::unwrap_or_default)
}

/// Returns the answer to a line, with the identifier of the line.
fn answered(line: &Value, out: Value) -> Result<Value, CaseError> {
    let line = line.as_object().ok_or(CaseError::NoObject)?;
    let id = line.get("id").map(|id| ("id".to_owned(), id.clone()));
    Ok(Value::Object(id.into_iter().chain([("out".to_owned(), out)]).collect()))
}
