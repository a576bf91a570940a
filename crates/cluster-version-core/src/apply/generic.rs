//! Kinds without rules of their own: each top-level field of the manifest replaces the live one; those that the manifest lacks stay.

use serde_json::{Map, Value};

use super::Change;

/// Top-level fields that are not compared.
const KEPT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// Metadata that is replaced when something else differs.
const REPLACED: [&str; 3] = ["annotations", "labels", "ownerReferences"];

/// A field that only the live object has is a difference, too, although the write leaves it alone: upstream writes again each time.
pub(super) fn change(live: &Value, wanted: &Value) -> Change {
    let (Some(own), Some(given)) = (live.as_object(), wanted.as_object()) else { return Change::None };
    let compared = |map: &Map<String, Value>| -> Vec<(String, Value)> {
        map.iter().filter(|(field, _)| !KEPT.contains(&field.as_str())).map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    // What the manifest has of the fields that are not compared counts if the live object lacks it.
    let lacks = KEPT.iter().any(|field| given.contains_key(*field) && !own.contains_key(*field));
    let (mut left, mut right) = (compared(own), compared(given));
    left.sort_by(|one, other| one.0.cmp(&other.0));
    right.sort_by(|one, other| one.0.cmp(&other.0));
    if left == right && !lacks {
        return Change::None;
    }
    let mut object = own.clone();
    object.extend(right);
    let metadata = super::value::part(&mut object, "metadata");
    for field in REPLACED {
        match given.get("metadata").and_then(|metadata| metadata.get(field)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    Change::Update(Value::Object(object))
}
