//! JSON with a memory for duplicate keys: Kubernetes names them under `fieldValidation` (KAPI-REST-03).

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How many duplicates are named.
const NAMED: usize = 100;
/// How many fields are put in order.
const ORDERED: usize = 2_000;

/// Parses JSON; the last of several equal keys wins, each repeated one is named by its path.
pub fn parse(body: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Node { path: Path::Root, found: &found, every: false }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found.into_inner()))
}

/// The paths of all fields of a JSON text, in the order in which they end.
pub fn order(body: &[u8]) -> Vec<String> {
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(body);
    // The text was parsed before; what does not parse has no order.
    let _ = Node { path: Path::Root, found: &found, every: true }.deserialize(&mut reader);
    found.into_inner()
}

#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => out.write_str(key),
            Path::Key(parent, key) => write!(out, "{parent}.{key}"),
            Path::Index(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

struct Node<'a> {
    path: Path<'a>,
    found: &'a RefCell<Vec<String>>,
    /// Whether every field is noted, not only those that occur twice.
    every: bool,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(Node { path: Path::Index(&self.path, list.len()), found: self.found, every: self.every })?
        {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let path = Path::Key(&self.path, &key);
            let value = members.next_value_seed(Node { path, found: self.found, every: self.every })?;
            let twice = map.contains_key(&key);
            if twice || self.every {
                let mut found = self.found.borrow_mut();
                let path = path.to_string();
                if self.every {
                    // The last of equal keys is the one that counts.
                    found.retain(|known| *known != path);
                }
                if found.len() < NAMED || self.every && found.len() < ORDERED {
                    found.push(path);
                }
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// KAPI-REST-03: duplicate keys are found wherever they are, the last one wins.
    #[test]
    fn duplicates_are_named() {
        let (value, duplicates) = parse(br#"{"a":1,"a":2,"b":{"c":[{"d":1,"d":2}]}}"#).unwrap();
        assert_eq!(value["a"], 2);
        assert_eq!(duplicates, ["a", "b.c[0].d"]);
    }
}
