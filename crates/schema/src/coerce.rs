//! Bringing a decoded custom resource into the form that Kubernetes stores: ObjectMeta as ObjectMeta, whole floats as integers.

use serde_json::{Number, Value};

use crate::field::Path;
use crate::metadata;

/// Why a member is no ObjectMeta, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMetadata(String);

/// Prunes `metadata` to ObjectMeta's fields and returns the paths of what was removed. Members that are empty go silently, since Go writes none.
///
/// Fields of the wrong type are an error in Go's words when an object comes in (`drop_malformed` false), and are dropped when one that was
/// stored before is read.
pub fn metadata(object: &mut Value, drop_malformed: bool) -> Result<Vec<Path>, InvalidMetadata> {
    let mut unknown = Vec::new();
    if let Some(member) = object.get_mut("metadata") {
        if drop_malformed {
            metadata::drop_malformed(member);
        } else if let Some(problem) = metadata::malformed(member) {
            return Err(InvalidMetadata(problem));
        }
        metadata::prune(member, &Path::new("metadata"), &mut unknown);
        metadata::drop_empty(member);
    }
    Ok(unknown)
}

/// Writes floats without a fraction as whole numbers (`2.0` as `2`), as Go's encoder does.
pub fn numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                // Beyond 2^63 a whole number has no other form; Go writes an exponent only from 1e21 on.
                if float.fract() == 0.0 && float.abs() < 9.2e18 {
                    *number = Number::from(float as i64);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers),
        Value::Object(map) => map.values_mut().for_each(numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// KAPI-REST-03: members of ObjectMeta that are empty are not there, as Go's type leaves them out; those of the object itself stay.
    #[test]
    fn empty_metadata_goes() {
        let mut object =
            json!({"metadata": {"name": "a", "labels": {}, "annotations": null, "finalizers": [], "ownerReferences": []}, "labels": {}});
        assert!(metadata(&mut object, false).unwrap().is_empty());
        assert_eq!(object, json!({"metadata": {"name": "a"}, "labels": {}}));
        let mut kept = json!({"metadata": {"labels": {"a": ""}, "finalizers": ["a/b"]}});
        metadata(&mut kept, false).unwrap();
        assert_eq!(kept, json!({"metadata": {"labels": {"a": ""}, "finalizers": ["a/b"]}}));
    }
}
