//! Contents of Secrets.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Contents of a Secret, by key. The values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, Vec<u8>>);

impl fmt::Debug for Contents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

impl Contents {
    /// Contents of texts.
    pub fn of<const N: usize>(entries: [(&str, String); N]) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.to_owned(), value.into_bytes())).collect())
    }

    /// The contents of a Secret; what is no base64 is left out.
    pub fn read(secret: &Value) -> Self {
        let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
        Self(data.filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?))).collect())
    }

    /// A value as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.0.get(key)?).ok()
    }

    /// Returns true if a key has a value that is not empty.
    pub fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| !value.is_empty())
    }

    /// Adds a text.
    pub fn add(&mut self, key: &str, value: String) {
        self.0.insert(key.to_owned(), value.into_bytes());
    }

    /// Entries with their values as text, for a manifest that is meant to be read by people.
    pub fn texts(&self) -> Map<String, Value> {
        self.0.iter().map(|(key, value)| (key.clone(), Value::String(String::from_utf8_lossy(value).into_owned()))).collect()
    }

    /// The field `data` of a Secret.
    pub fn data(&self) -> Map<String, Value> {
        self.0.iter().map(|(key, value)| (key.clone(), Value::String(STANDARD.encode(value)))).collect()
    }
}
