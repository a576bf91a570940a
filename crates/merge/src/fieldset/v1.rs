//! FieldsV1: field sets as `metadata.managedFields` holds them.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Entry, FieldSet, PathElement, Scalar};

/// A FieldsV1 member that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fieldsV1: {0:?} is no path element (f:, k:, v: or i:)")]
pub struct DecodeError(pub String);

impl FieldSet {
    /// Reads FieldsV1.
    pub fn decode(fields: &Value) -> Result<Self, DecodeError> {
        read(fields).map(|(set, _)| set)
    }

    /// Encodes the set as FieldsV1.
    pub fn encode(&self) -> Value {
        Value::Object(write(self, false))
    }
}

/// The set below, and whether the element itself belongs to the set.
fn read(fields: &Value) -> Result<(FieldSet, bool), DecodeError> {
    let Value::Object(map) = fields else {
        return Err(DecodeError(fields.to_string()));
    };
    let mut own = map.is_empty();
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map {
        if key == "." {
            own = true;
        } else if let Some(element) = read_element(key)? {
            let (below, member) = read(value)?;
            entries.push(Entry { element, member, below });
        }
    }
    Ok((FieldSet::collect(entries), own))
}

fn write(set: &FieldSet, own: bool) -> Map<String, Value> {
    let mut out = Map::new();
    if own {
        out.insert(".".to_owned(), Value::Object(Map::new()));
    }
    let each = |entry: &Entry| {
        // A place with nothing below it is in the set, and needs no "." to say so.
        let below = write(&entry.below, entry.member && !entry.below.is_empty());
        (write_element(&entry.element), Value::Object(below))
    };
    let entries = set.entries().iter();
    if entries.len() < 8 {
        out.extend(entries.map(each));
    } else {
        // Many are quicker put in order at once than one by one.
        out.append(&mut entries.map(each).collect());
    }
    out
}

/// `None` for a kind of element that this version does not know; those are left out, as upstream does.
fn read_element(text: &str) -> Result<Option<PathElement>, DecodeError> {
    let bad = || DecodeError(text.to_owned());
    let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(Scalar(serde_json::from_str(rest).map_err(|_| bad())?)),
        "i" => PathElement::Index(rest.parse().map_err(|_| bad())?),
        "k" => PathElement::Key(serde_json::from_str::<Keys>(rest).map_err(|_| bad())?.0),
        _ => return Ok(None),
    }))
}

fn write_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => ["f:", name].concat(),
        PathElement::Key(keys) => {
            let mut out = String::with_capacity(32);
            out.push_str("k:{");
            for (index, (name, value)) in keys.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(&mut out, name);
                out.push(':');
                write_value(&mut out, &value.0);
            }
            out.push('}');
            out
        }
        PathElement::Value(value) => {
            let mut out = String::from("v:");
            write_value(&mut out, &value.0);
            out
        }
        PathElement::Index(index) => format!("i:{index}"),
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        other => out.push_str(&other.to_string()),
    }
}

/// A JSON string. Keys are names nearly always, which stand as they are.
fn write_text(out: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// The object of a `k:` element, its members in alphabetic order.
struct Keys(Vec<(String, Scalar)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Keys;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys: Vec<(String, Scalar)> = Vec::with_capacity(1);
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    // Of a name that stands there twice the last counts, as in all JSON.
                    match keys.binary_search_by(|(known, _)| known.cmp(&name)) {
                        Ok(place) => keys[place].1 = Scalar(value),
                        Err(place) => keys.insert(place, (name, Scalar(value))),
                    }
                }
                Ok(Keys(keys))
            }
        }

        input.deserialize_map(Members)
    }
}
