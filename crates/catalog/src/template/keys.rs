//! The members of a template, by names that ignore case.

use serde_json::Value;

use super::SemverError;
use crate::decode::Shape;

/// Error for a value whose shape the template does not allow.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(Shape);

/// A mapping whose keys were checked against the known ones, case ignored.
pub(super) struct Keys<'v> {
    at: String,
    value: &'v Value,
}

impl<'v> Keys<'v> {
    /// Reads a mapping of any keys.
    pub(super) fn any(value: &'v Value, at: &str) -> Result<Self, ShapeError> {
        if value.is_object() || value.is_null() {
            return Ok(Self { at: at.to_owned(), value });
        }
        Err(shape(if at.is_empty() { "(root)" } else { at }, "a mapping", value))
    }

    /// Reads a mapping of only the given keys.
    pub(super) fn of(value: &'v Value, at: &str, known: &'static str) -> Result<Self, SemverError> {
        let keys = Self::any(value, at)?;
        let is_known = |key: &str| known.split(", ").any(|known| known.eq_ignore_ascii_case(key));
        match value.as_object().and_then(|members| members.keys().find(|key| !is_known(key))) {
            Some(unknown) => Err(SemverError::UnknownField { field: unknown.clone(), at: keys.at, known }),
            None => Ok(keys),
        }
    }

    fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'v Value> {
        get(self.value, key)
    }

    pub(super) fn text(&self, key: &str) -> Result<&'v str, ShapeError> {
        self.get(key).map_or(Ok(""), |value| value.as_str().ok_or_else(|| shape(&self.path(key), "a string", value)))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, ShapeError> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| shape(&self.path(key), "true or false", value)))
    }

    pub(super) fn list(&self, key: &str) -> Result<&'v [Value], ShapeError> {
        let list = |value: &'v Value| value.as_array().map(Vec::as_slice);
        self.get(key).map_or(Ok(&[][..]), |value| list(value).ok_or_else(|| shape(&self.path(key), "a list", value)))
    }
}

/// A member by its name, case ignored, unless it is null.
pub(super) fn get<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    let folded = || members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    members.get(key).or_else(folded).filter(|value| !value.is_null())
}

pub(super) fn shape(field: &str, expected: &'static str, value: &Value) -> ShapeError {
    ShapeError(Shape { field: field.to_owned(), expected, found: crate::decode::kind_of(&value.to_string()) })
}
