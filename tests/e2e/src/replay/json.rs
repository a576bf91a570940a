//! JSON documents that keep the order of their members: placeholders are numbered in the order of appearance.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Number;

/// A JSON value. Members of an object stay in the order in which they were written; of two with one name the last counts.
#[derive(Debug, Clone, Default)]
pub enum Json {
    /// `null`, and what is not there.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of these members.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Self {
        Self::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// The member of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Whether an object has the member.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a member of an object; a new one comes last. What is no object stays as it is.
    pub fn set(&mut self, key: &str, value: Json) {
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => members.push((key.to_owned(), value)),
            }
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// A number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Json] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object; none of anything else.
    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The text form in which scenarios are searched and managed fields are ordered: ASCII only, a space after `,` and `:`.
    pub fn spaced(&self) -> String {
        let mut text = String::new();
        self.write_spaced(&mut text);
        text
    }

    fn write_spaced(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => text.push_str(&number.to_string()),
            Self::String(value) => write_ascii(value, text),
            Self::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    item.write_spaced(text);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    write_ascii(key, text);
                    text.push_str(": ");
                    value.write_spaced(text);
                }
                text.push('}');
            }
        }
    }
}

/// A JSON string of ASCII characters.
fn write_ascii(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    text.extend(["\\u", &format!("{unit:04x}")]);
                }
            }
        }
    }
    text.push('"');
}

/// Equal as JSON: members in any order, numbers by value.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Number(left), Self::Number(right)) => left == right || left.as_f64() == right.as_f64(),
            (Self::String(left), Self::String(right)) => left == right,
            (Self::Array(left), Self::Array(right)) => left == right,
            (Self::Object(left), Self::Object(right)) => {
                left.len() == right.len() && left.iter().all(|(key, value)| other.get(key) == Some(value))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut object = Json::Object(Vec::new());
        while let Some((key, value)) = access.next_entry::<String, Json>()? {
            object.set(&key, value);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn order_stays_and_does_not_count() {
        let written: Json = serde_json::from_str(r#"{"b": 1, "a": [true, null, 1.5, -2], "b": 2}"#).unwrap();
        assert_eq!(written.to_string(), r#"{"b":2,"a":[true,null,1.5,-2]}"#);
        assert_eq!(written.spaced(), r#"{"b": 2, "a": [true, null, 1.5, -2]}"#);
        let other: Json = serde_json::from_str(r#"{"a": [true, null, 1.5, -2], "b": 2.0}"#).unwrap();
        assert_eq!(written, other);
        assert_ne!(Json::Bool(true), Json::Number(1.into()));
    }

    #[test]
    fn searched_text_is_ascii() {
        assert_eq!(Json::from("é\"\\\n\u{1F600}\u{7f}").spaced(), r#""\u00e9\"\\\n\ud83d\ude00\u007f""#);
    }
}
