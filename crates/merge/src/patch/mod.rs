//! The effect of a PATCH on an object, in the three formats of KAPI-PATCH-01.

mod identity;
mod json;
mod merge;
mod strategic;

pub use json::{MAX_COPY_BYTES, MAX_OPERATIONS, json_patch};
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use mainstay_golang::value::json_type;
use serde_json::Value;

/// The reason for refusing a patch. The text is the one of a Status; [`PatchError::code`] is its HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is no patch of its format.
    #[error("error decoding patch: {0}")]
    Decode(String),
    /// A JSON patch with too many operations.
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// The copies of a JSON patch would make the object grow too much.
    #[error(
        "Request entity too large: Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {MAX_COPY_BYTES}"
    )]
    TooMuchCopied(usize),
    /// A patch that does not fit the object: Kubernetes does not say more than this text; `detail` is for logs.
    #[error("the server rejected our request due to an error in our request")]
    Rejected {
        /// The part that did not fit, e.g. `operation 2: test of /data/a failed`.
        detail: String,
    },
    /// A merge patch that is `null`, or a strategic merge patch whose directives have the wrong form.
    #[error("{0}")]
    BadRequest(&'static str),
    /// A strategic merge patch that cannot be carried out; Kubernetes answers 500 to these.
    #[error("{0}")]
    Unmergeable(String),
}

impl PatchError {
    /// The HTTP status of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Decode(_) | Self::BadRequest(_) => 400,
            Self::TooManyOperations(_) | Self::TooMuchCopied(_) => 413,
            Self::Rejected { .. } => 422,
            Self::Unmergeable(_) => 500,
        }
    }

    /// The `reason` of the Status; empty if Kubernetes gives none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Decode(_) | Self::BadRequest(_) => "BadRequest",
            Self::TooManyOperations(_) | Self::TooMuchCopied(_) => "RequestEntityTooLarge",
            Self::Rejected { .. } => "Invalid",
            Self::Unmergeable(_) => "",
        }
    }
}

/// Returns the operations of a JSON patch body, or Kubernetes' words if it is none.
pub fn decode_json_patch(body: &[u8]) -> Result<Vec<Value>, PatchError> {
    match decode(body)? {
        Value::Array(operations) => match operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
            None => Ok(operations),
            Some(other) => {
                Err(PatchError::Decode(format!("json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp", json_type(other))))
            }
        },
        Value::Null => Ok(Vec::new()),
        other => {
            Err(PatchError::Decode(format!("json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp", json_type(&other))))
        }
    }
}

/// A merge patch body, which must be an object.
pub fn decode_merge_patch(body: &[u8]) -> Result<Value, PatchError> {
    match decode(body)? {
        Value::Null => Err(PatchError::BadRequest("Invalid JSON Patch")),
        _ => decode_object_patch(body),
    }
}

/// A strategic merge patch body, which must be an object or nothing.
pub fn decode_object_patch(body: &[u8]) -> Result<Value, PatchError> {
    match decode(body)? {
        patch @ Value::Object(_) => Ok(patch),
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        other => {
            Err(PatchError::Decode(format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_type(&other))))
        }
    }
}

fn decode(body: &[u8]) -> Result<Value, PatchError> {
    serde_json::from_slice(body).map_err(|error| {
        PatchError::Decode(if error.is_eof() { "unexpected end of JSON input".into() } else { syntax_error(body, &error) })
    })
}

fn syntax_error(body: &[u8], error: &serde_json::Error) -> String {
    // Line and column count from 1; the column is that of the offending byte.
    let before: usize = body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(|line| line.len() + 1).sum();
    let offset = before + error.column().saturating_sub(1);
    match body.get(offset..).map(String::from_utf8_lossy).and_then(|rest| rest.chars().next()) {
        Some(character) => format!("invalid character '{character}' looking for beginning of value"),
        None => error.to_string(),
    }
}
