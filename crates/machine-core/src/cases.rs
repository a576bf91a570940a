//! Answers to inputs in the form of the records of upstream's answers: one JSON object an input, one an answer: the identifier
//! of the input, and the answer under `out`.

mod control_plane;
mod drain;
mod health_check;
mod set;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use control_plane::control_plane;
pub use drain::drain;
pub use health_check::health_check;
pub use set::machine_set;

use crate::condition::Condition;
use crate::health_check::check::CheckError;
use crate::machine::Machine;
use crate::node::Node;

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
    /// The MachineHealthCheck cannot be read.
    #[error("field machineHealthCheck: {0}")]
    HealthCheck(#[from] CheckError),
}

/// Reads a field of a line; an absent field is read as null.
fn field<T: DeserializeOwned>(line: &Value, field: &'static str) -> Result<T, CaseError> {
    T::deserialize(line.get(field).unwrap_or(&Value::Null)).map_err(|source| CaseError::Field { field, source })
}

/// Reads a field that may be absent or null.
fn optional<T: DeserializeOwned + Default>(line: &Value, name: &'static str) -> Result<T, CaseError> {
    field::<Option<T>>(line, name).map(Option::unwrap_or_default)
}

/// The fixed clock of a line.
fn now(line: &Value) -> Result<Timestamp, CaseError> {
    field(line, "now")
}

fn machines(line: &Value) -> Result<Vec<Machine>, CaseError> {
    Ok(optional::<Vec<Value>>(line, "machines")?.iter().map(Machine::of).collect())
}

fn nodes(line: &Value, name: &'static str) -> Result<Vec<Node>, CaseError> {
    Ok(optional::<Vec<Value>>(line, name)?.iter().map(Node::of).collect())
}

/// Returns the conditions as they are recorded, null if there are none.
fn recorded(conditions: &[Condition]) -> Value {
    let recorded = conditions.iter().map(|one| {
        let severity = one.severity.map(crate::condition::Severity::as_str).unwrap_or_default();
        serde_json::json!({
            "type": one.kind, "status": one.status, "severity": severity, "reason": one.reason, "message": one.message,
        })
    });
    if conditions.is_empty() { Value::Null } else { recorded.collect() }
}

/// Returns the answer to a line, with the identifier of the line.
fn answered(line: &Value, out: Value) -> Result<Value, CaseError> {
    let line = line.as_object().ok_or(CaseError::NoObject)?;
    let id = line.get("id").map(|id| ("id".to_owned(), id.clone()));
    Ok(Value::Object(id.into_iter().chain([("out".to_owned(), out)]).collect()))
}
