//! JSON with a memory for duplicate keys: Kubernetes names them under `fieldValidation` (KAPI-REST-03).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most duplicates that are named.
const NAMED: usize = 100;
/// The longest path that is told, in bytes. A long key above many fields would be repeated with each of them.
const LENGTH: usize = 4 << 10;

/// Parses JSON; the last of several equal keys wins, each repeated one is named by its path.
pub fn parse(body: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    // Halves of surrogate pairs are replaced, as Go does; only escapes can be such.
    let whole = if body.windows(2).any(|pair| pair == b"\\u") {
        std::str::from_utf8(body).map_or(Cow::Borrowed(body), |text| match mainstay_golang::json_reader::without_half_pairs(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    } else {
        Cow::Borrowed(body)
    };
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(&whole);
    let value = Node { path: Path::Root, found: &found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found.into_inner()))
}

/// The places where these paths end in a JSON text; the last of equal keys is the one that counts.
pub fn order<'p>(body: &[u8], paths: impl IntoIterator<Item = &'p str>) -> HashMap<&'p str, usize> {
    let wanted: Vec<(u64, &str)> = paths.into_iter().map(|path| (extend(BEGIN, path.as_bytes()), path)).collect();
    let found = RefCell::new(Order { places: wanted.iter().map(|(hash, _)| (*hash, None)).collect(), count: 0 });
    let mut reader = serde_json::Deserializer::from_slice(body);
    // The text was parsed before; what does not parse has no order.
    let _ = Field { hash: BEGIN, root: true, found: &found }.deserialize(&mut reader);
    let Order { places, .. } = found.into_inner();
    wanted.into_iter().filter_map(|(hash, path)| Some((path, places.get(&hash).copied().flatten()?))).collect()
}

/// FNV-1a of the text of a path: that of a longer one goes on from that of its parent, so that no path has to be written to be known.
const BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

fn extend(hash: u64, text: &[u8]) -> u64 {
    text.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Order {
    places: HashMap<u64, Option<usize>>,
    count: usize,
}

/// A value on the way through a text whose fields are put in order.
#[derive(Clone, Copy)]
struct Field<'a> {
    hash: u64,
    root: bool,
    found: &'a RefCell<Order>,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let hash = extend(self.hash, format!("[{index}]").as_bytes());
            if items.next_element_seed(Field { hash, root: false, ..self })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(key) = members.next_key::<String>()? {
            let parent = if self.root { self.hash } else { extend(self.hash, b".") };
            let hash = extend(parent, key.as_bytes());
            members.next_value_seed(Field { hash, root: false, ..self })?;
            let mut found = self.found.borrow_mut();
            found.count += 1;
            let count = found.count;
            if let Some(place) = found.places.get_mut(&hash) {
                *place = Some(count);
            }
        }
        Ok(())
    }
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

impl Path<'_> {
    fn length(&self) -> usize {
        match self {
            Path::Root => 0,
            Path::Key(parent, key) => parent.length() + 1 + key.len(),
            Path::Index(parent, _) => parent.length() + 3,
        }
    }

    /// The path as it is told: its end when it is long.
    fn told(&self) -> String {
        match self {
            Path::Key(_, key) if self.length() > LENGTH => format!("….{}", key.chars().take(LENGTH / 4).collect::<String>()),
            _ => self.to_string(),
        }
    }
}

struct Node<'a> {
    path: Path<'a>,
    found: &'a RefCell<Vec<String>>,
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
        while let Some(item) = items.next_element_seed(Node { path: Path::Index(&self.path, list.len()), found: self.found })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let path = Path::Key(&self.path, &key);
            let value = members.next_value_seed(Node { path, found: self.found })?;
            // Only what is told is written.
            if map.contains_key(&key) && self.found.borrow().len() < NAMED {
                self.found.borrow_mut().push(path.told());
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

    /// KAPI-REST-03: what is told of a body does not become much more than the body.
    #[test]
    fn paths_do_not_multiply_a_long_key() {
        let body = format!("{{\"{}\":{{{}\"a\":1}}}}", "k".repeat(700_000), "\"a\":1,\"b\":2,".repeat(50_000));
        let (_, duplicates) = parse(body.as_bytes()).unwrap();
        assert_eq!(duplicates.len(), NAMED);
        assert!(duplicates.iter().map(String::len).sum::<usize>() < 1 << 20);
        assert!(order(body.as_bytes(), duplicates.iter().map(String::as_str)).len() <= 2);
    }

    /// KAPI-REST-03: paths are ordered by where they end, the last of equal keys counts, whatever their number and length.
    #[test]
    fn paths_have_their_place_in_the_text() {
        let text = br#"{"z":1,"a":{"c":[0,{"d":1}],"b":2},"z":3,"unasked":4}"#;
        let order = order(text, ["a", "z", "a.c[1].d", "a.b", "absent"]);
        let mut found: Vec<(usize, &str)> = order.into_iter().map(|(path, place)| (place, path)).collect();
        found.sort_unstable();
        assert_eq!(found.into_iter().map(|(_, path)| path).collect::<Vec<_>>(), ["a.c[1].d", "a.b", "a", "z"]);
    }
}
