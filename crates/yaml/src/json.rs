//! The fast path for JSON text, which records duplicate keys.

use std::cell::RefCell;
use std::fmt;

use serde_json::de::{SliceRead, StreamDeserializer};
use serde_json::{Map, Number, Value};

use crate::Duplicate;
use crate::path::{Duplicates, Path};

/// Reads the first JSON value of `text`: the value, its duplicates and its length in bytes.
pub(crate) fn first(text: &str, line: usize) -> Result<(Value, Vec<Duplicate>, usize), serde_json::Error> {
    // Text after a word or number does not matter, as in Go.
    let text = word(text).unwrap_or(text);
    // The stream type is used only to learn the end of the value.
    let mut values: StreamDeserializer<'_, SliceRead<'_>, Noted> = serde_json::Deserializer::from_slice(text.as_bytes()).into_iter();
    match values.next() {
        Some(Ok(Noted(value, mut duplicates))) => {
            for duplicate in &mut duplicates {
                duplicate.line = line;
            }
            Ok((value, duplicates, values.byte_offset()))
        }
        Some(Err(error)) => Err(error),
        None => Ok((Value::Null, Vec::new(), text.len())),
    }
}

/// The word or number that a text begins with.
fn word(text: &str) -> Option<&str> {
    if let Some(word) = ["null", "true", "false"].into_iter().find(|word| text.starts_with(word)) {
        return Some(&text[..word.len()]);
    }
    let digits = |from: usize| text.as_bytes()[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let begins = |at: usize, with: &[u8]| text.as_bytes().get(at).is_some_and(|byte| with.contains(byte));
    let mut end = usize::from(begins(0, b"-"));
    end += match (digits(end), begins(end, b"0")) {
        (0, _) => return None,
        (_, true) => 1,
        (count, false) => count,
    };
    if begins(end, b".") {
        end += 1 + Some(digits(end + 1)).filter(|count| *count > 0)?;
    }
    if begins(end, b"eE") {
        end += 1 + usize::from(begins(end + 1, b"+-"));
        end += Some(digits(end)).filter(|count| *count > 0)?;
    }
    Some(&text[..end])
}

/// A value with its duplicates.
struct Noted(Value, Vec<Duplicate>);

impl<'de> serde::Deserialize<'de> for Noted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duplicates = RefCell::new(Duplicates::default());
        let seed = Seed { path: Path::Root, duplicates: &duplicates };
        let value = serde::de::DeserializeSeed::deserialize(seed, deserializer)?;
        Ok(Self(value, duplicates.into_inner().list))
    }
}

struct Seed<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Duplicates>,
}

impl<'de> serde::de::DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        // Kubernetes knows 64-bit signed integers; a larger number becomes a float.
        Ok(match i64::try_from(number) {
            Ok(number) => Value::from(number),
            Err(_) => Number::from_f64(number as f64).map_or(Value::Null, Value::Number),
        })
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Seed { path: Path::Item(&self.path, items.len()), duplicates: self.duplicates })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(Seed { path: Path::Field(&self.path, &key), duplicates: self.duplicates })?;
            if map.contains_key(&key) {
                self.duplicates.borrow_mut().add(&self.path, &key, 0);
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
