//! The quick way for JSON text, which keeps note of duplicate keys.

use std::cell::RefCell;
use std::fmt;

use serde_json::de::{SliceRead, StreamDeserializer};
use serde_json::{Map, Number, Value};

use crate::Duplicate;
use crate::compose::Path;

/// Reads the first JSON value of `text`: the value, its duplicates and the bytes it took.
pub(crate) fn first(text: &str, line: usize) -> Result<(Value, Vec<Duplicate>, usize), serde_json::Error> {
    // The stream type only serves to learn where the value ends.
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

/// A value with its duplicates.
struct Noted(Value, Vec<Duplicate>);

impl<'de> serde::Deserialize<'de> for Noted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duplicates = RefCell::new(Vec::new());
        let seed = Seed { path: Path::Root, duplicates: &duplicates };
        let value = serde::de::DeserializeSeed::deserialize(seed, deserializer)?;
        Ok(Self(value, duplicates.into_inner()))
    }
}

struct Seed<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<Duplicate>>,
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
        // Kubernetes knows 64-bit signed integers; what is larger becomes a float.
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
                self.duplicates.borrow_mut().push(self.path.duplicate(&key, 0));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
