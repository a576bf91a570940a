//! JSON objects without unknown keys: a policy with a misspelt key would let in the images that it was to keep out.

use std::fmt;

use super::Malformed;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object whose members are taken one by one; each key appears once, and none may be left over.
#[derive(Debug)]
pub(super) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// Reads the object; anything else is refused, and so is a duplicate key.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(text).map_err(|error| Malformed(error.to_string()))
    }

    /// Reads an object that is a part of a document.
    pub(super) fn of(raw: &RawValue) -> Result<Self, Malformed> {
        Self::parse(raw.get().as_bytes())
    }

    /// Takes an optional member.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, Malformed> {
        let Some(at) = self.0.iter().position(|(found, _)| found == key) else { return Ok(None) };
        let (_, raw) = self.0.swap_remove(at);
        serde_json::from_str(raw.get()).map(Some).map_err(|error| Malformed(format!("{key}: {error}")))
    }

    /// Takes a required member.
    pub(super) fn require<T: DeserializeOwned>(&mut self, key: &str) -> Result<T, Malformed> {
        self.take(key)?.ok_or_else(|| Malformed(format!("Key \"{key}\" missing in a JSON object")))
    }

    /// Returns all members, for objects whose keys are names.
    pub(super) fn into_members(self) -> Vec<(String, Box<RawValue>)> {
        self.0
    }

    /// Refuses members that were not taken.
    pub(super) fn end(self) -> Result<(), Malformed> {
        self.0.first().map_or(Ok(()), |(key, _)| Err(Malformed(format!("Unknown key \"{key}\""))))
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut keys = std::collections::BTreeSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if !keys.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("Duplicate key \"{key}\"")));
                    }
                    members.push((key, map.next_value()?));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn nothing_is_overlooked() {
        let refused = |text: &str| Object::parse(text.as_bytes()).unwrap_err();
        assert!(refused(r#"{"a": 1, "a": 2}"#).to_string().starts_with("Duplicate key \"a\""));
        assert!(refused("[]").to_string().contains("expected a JSON object"));
        assert!(refused("{} {}").to_string().contains("trailing characters"));
        let mut object = Object::parse(br#"{"a": 1, "b": "x"}"#).unwrap();
        assert_eq!(object.take::<u8>("a").unwrap(), Some(1));
        assert_eq!(object.take::<u8>("a").unwrap(), None);
        assert!(object.require::<String>("c").unwrap_err().to_string().contains("Key \"c\" missing"));
        assert_eq!(object.end().unwrap_err().to_string(), "Unknown key \"b\"");
    }
}
