//! The stored form of objects, and the forms in which they are sent.
//!
//! The store holds JSON that begins with `apiVersion`, `kind` and `metadata`, in this order, and has no resourceVersion: the
//! revision of the store is the one truth. So an answer is made by copying: another head, the revision, the rest. Nothing is parsed
//! to list or to watch, and a custom resource changes its version by changing its head.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::request::negotiate::MetaVersion;

const METADATA: &[u8] = b"\"metadata\":{";
/// The characters of generated names: no names that read as a word.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The stored form of an object. `metadata` must hold at least one field besides the resourceVersion, which is left out.
pub fn encode(api_version: &str, kind: &str, object: &Value) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"apiVersion\":");
    write_json(&mut out, &Value::from(api_version));
    out.extend_from_slice(b",\"kind\":");
    write_json(&mut out, &Value::from(kind));
    out.push(b',');
    out.extend_from_slice(METADATA);
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        write_members(&mut out, metadata, &["resourceVersion"], true);
    }
    out.push(b'}');
    if let Value::Object(map) = object {
        write_members(&mut out, map, &["apiVersion", "kind", "metadata"], false);
    }
    out.push(b'}');
    // What is stored is held as long as the object lives: half of a buffer that grew by doubling would be empty.
    out.shrink_to_fit();
    Bytes::from(out)
}

fn write_members(out: &mut Vec<u8>, map: &Map<String, Value>, without: &[&str], mut first: bool) {
    for (key, value) in map {
        if without.contains(&key.as_str()) {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        write_json(out, &Value::from(key.as_str()));
        out.push(b':');
        write_json(out, value);
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    // Writing a `Value` into memory has no way to fail.
    let _ = serde_json::to_writer(out, value);
}

/// The place where the content of `metadata` begins in a stored object.
pub fn metadata_offset(stored: &[u8]) -> Option<usize> {
    // `apiVersion` and `kind` are names, so the first occurrence is the object's own metadata.
    stored.windows(METADATA.len()).take(512).position(|window| window == METADATA).map(|at| at + METADATA.len())
}

/// The stored `apiVersion` and `kind`.
pub fn type_of(stored: &[u8]) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        api_version: String,
        kind: String,
    }
    serde_json::from_slice::<Head>(stored).ok().map(|head| (head.api_version, head.kind))
}

/// The beginning of an object that is sent: `{"kind":"K","apiVersion":"V",`.
pub fn head(api_version: &str, kind: &str) -> String {
    format!("{{\"kind\":{},\"apiVersion\":{},", Value::from(kind), Value::from(api_version))
}

/// Appends the object as it is sent. `head` is `{` for the items of a built-in list, else [`head`].
pub fn write(out: &mut BytesMut, head: &str, stored: &[u8], offset: usize, revision: u64) {
    out.reserve(head.len() + stored.len() - offset + 64);
    out.put_slice(head.as_bytes());
    out.put_slice(b"\"metadata\":{\"resourceVersion\":\"");
    out.put_slice(revision.to_string().as_bytes());
    out.put_slice(if stored.get(offset) == Some(&b'}') { b"\"" } else { b"\"," });
    out.put_slice(&stored[offset..]);
}

/// The stored object as a value, with its resourceVersion.
pub fn decode(stored: &[u8], revision: u64) -> Result<Value, serde_json::Error> {
    let mut object: Value = serde_json::from_slice(stored)?;
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("resourceVersion".into(), revision.to_string().into());
    }
    Ok(object)
}

/// A stored object to be looked at, without its managed fields (often half of it), and its metadata as it is stored.
pub fn glance(stored: &[u8]) -> Result<(Value, &RawValue), serde_json::Error> {
    let (mut object, metadata) = serde_json::Deserializer::from_slice(stored).deserialize_map(Glance)?;
    object.insert("metadata".into(), serde_json::Deserializer::from_str(metadata.get()).deserialize_map(Unmanaged)?);
    Ok((Value::Object(object), metadata))
}

/// The members of an object but its metadata, which stays text.
struct Glance;

impl<'de> Visitor<'de> for Glance {
    type Value = (Map<String, Value>, &'de RawValue);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a stored object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut object, mut metadata) = (Map::new(), None);
        while let Some(key) = members.next_key::<String>()? {
            if key == "metadata" {
                metadata = Some(members.next_value()?);
            } else {
                object.insert(key, members.next_value()?);
            }
        }
        Ok((object, metadata.ok_or_else(|| serde::de::Error::missing_field("metadata"))?))
    }
}

/// Metadata without managed fields.
struct Unmanaged;

impl<'de> Visitor<'de> for Unmanaged {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut metadata = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if key == "managedFields" {
                members.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(key, members.next_value()?);
            }
        }
        Ok(Value::Object(metadata))
    }
}

/// The member of `metadata` as text; empty when absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a value has at most so many objects and lists around one another.
pub fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(map) => levels > 0 && map.values().all(|value| nests_within(value, levels - 1)),
        Value::Array(items) => levels > 0 && items.iter().all(|item| nests_within(item, levels - 1)),
        _ => true,
    }
}

/// `metadata` for writing; made where it is missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else { unreachable!("made an object just above") };
    let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else { unreachable!("made an object just above") };
    metadata
}

/// The strings of a list in `metadata`.
pub fn meta_list(object: &Value, field: &str) -> Vec<String> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Appends five characters to a prefix that is cut so that the name stays within 63 bytes.
pub fn generate_name(prefix: &str) -> String {
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let suffix: String = (0..5).map(|_| ALPHABET[rand::random_range(0..ALPHABET.len())] as char).collect();
    format!("{}{suffix}", &prefix[..end])
}

/// Returns whether a writer asked that no ownership be kept: with an empty list, or one of an empty entry.
pub fn is_untracked(object: &Value) -> bool {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields")).and_then(Value::as_array);
    entries.is_some_and(|entries| entries.iter().all(|entry| entry.as_object().is_some_and(Map::is_empty)))
}

/// The `PartialObjectMetadata` of an object.
pub fn partial(value: &mut Value, version: MetaVersion) -> Value {
    let mut partial = json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version()});
    partial["metadata"] = value["metadata"].take();
    partial
}

/// Metadata as Go writes it: entries of managed fields in the order of their struct, and the whole in `order`.
pub fn go_metadata(metadata: &Map<String, Value>, order: &[&str]) -> String {
    const MANAGER: [&str; 7] = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let json = mainstay_schema::field::go_json;
    let manager = |entry: &Value| entry.as_object().map_or_else(|| json(entry), |map| go_members(map, &MANAGER, &|_, value| json(value)));
    go_members(metadata, order, &|key, value| match (key, value) {
        ("managedFields", Value::Array(entries)) => format!("[{}]", entries.iter().map(manager).collect::<Vec<_>>().join(",")),
        _ => json(value),
    })
}

/// A JSON object whose members come in this order, others after them.
pub fn go_members(map: &Map<String, Value>, order: &[&str], show: &dyn Fn(&str, &Value) -> String) -> String {
    let known = order.iter().filter_map(|key| map.get_key_value(*key));
    let others = map.iter().filter(|(key, _)| !order.contains(&key.as_str()));
    let name = |key: &String| mainstay_schema::field::go_json(&Value::from(key.as_str()));
    let members: Vec<String> = known.chain(others).map(|(key, value)| format!("{}:{}", name(key), show(key, value))).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn an_object_survives_the_store() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "x"},
            "metadata": {"name": "a", "resourceVersion": "7", "labels": {"l": "m"}}});
        let stored = encode("v1", "ConfigMap", &object);
        let offset = metadata_offset(&stored).unwrap();
        let mut out = BytesMut::new();
        write(&mut out, &head("v2", "ConfigMap"), &stored, offset, 9);
        let sent: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(sent["metadata"]["resourceVersion"], "9");
        assert_eq!(sent["apiVersion"], "v2");
        assert_eq!(sent["data"], object["data"]);
        assert_eq!(decode(&stored, 7).unwrap(), object);
        assert_eq!(type_of(&stored).unwrap(), ("v1".into(), "ConfigMap".into()));
    }
}
