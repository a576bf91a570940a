//! The content of ObjectMeta, for objects whose schema leaves it out: custom resources and embedded objects.

use mainstay_golang::value::json_type;
use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::names;

/// The JSON type of one of ObjectMeta's fields.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Time,
    Count,
    Texts,
    TextMap,
    Owners,
    Managers,
}

const FIELDS: &[(&str, Shape)] = &[
    ("annotations", Shape::TextMap),
    ("creationTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::Count),
    ("deletionTimestamp", Shape::Time),
    ("finalizers", Shape::Texts),
    ("generateName", Shape::Text),
    ("generation", Shape::Count),
    ("labels", Shape::TextMap),
    ("managedFields", Shape::Managers),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("ownerReferences", Shape::Owners),
    ("resourceVersion", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
];
/// The members of ObjectMeta in the order of Go's type.
pub const GO_ORDER: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OWNER_FIELDS: &[&str] = &["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGER_FIELDS: &[&str] = &["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];
/// All annotations of an object together.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Removes the fields that ObjectMeta does not know; their paths are added to `unknown`.
pub fn prune(metadata: &mut Value, path: &Path, unknown: &mut Vec<Path>) {
    let Value::Object(map) = metadata else {
        return;
    };
    retain(map, path, unknown, |key| shape(key).is_some());
    for (list, known) in [("ownerReferences", OWNER_FIELDS), ("managedFields", MANAGER_FIELDS)] {
        if let Some(Value::Array(items)) = map.get_mut(list) {
            for (index, item) in items.iter_mut().enumerate() {
                if let Value::Object(item) = item {
                    retain(item, &path.child(list).index(index), unknown, |key| known.contains(&key));
                }
            }
        }
    }
}

/// Removes empty labels, annotations, owner references and finalizers: Go's type does not write them.
pub fn drop_empty(metadata: &mut Value) {
    let Value::Object(map) = metadata else { return };
    // A null among texts is Go's empty text.
    for name in ["labels", "annotations"] {
        let members = map.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten();
        members.filter(|(_, member)| member.is_null()).for_each(|(_, member)| *member = Value::from(""));
    }
    for name in ["labels", "annotations", "ownerReferences", "finalizers"] {
        let is_empty = match map.get(name) {
            Some(Value::Null) => true,
            Some(Value::Object(members)) => members.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            _ => false,
        };
        if is_empty {
            map.remove(name);
        }
    }
}

/// Removes the fields of ObjectMeta whose values have the wrong type.
pub fn drop_malformed(metadata: &mut Value) {
    if let Value::Object(map) = metadata {
        map.retain(|key, value| shape(key).is_none_or(|shape| misfit(key, shape, value).is_none()));
    }
}

/// Returns the part that cannot be read as ObjectMeta, in Go's words; `None` when all can.
pub fn malformed(metadata: &Value) -> Option<String> {
    match metadata {
        Value::Null => None,
        Value::Object(map) => map.iter().find_map(|(key, value)| misfit(key, shape(key)?, value)),
        other => Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", json_type(other))),
    }
}

/// The checks of an embedded object's metadata: names, labels, annotations.
pub(crate) fn validate_embedded(metadata: &Value, path: &Path, errors: &mut Vec<Error>) {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    for (key, name) in [("generateName", text("generateName")), ("name", text("name"))] {
        for wrong in names::path_segment(name) {
            errors.push(Error::invalid(&path.child(key), name, wrong));
        }
    }
    let namespace = text("namespace");
    if !namespace.is_empty() {
        for wrong in names::dns1123_label(namespace) {
            errors.push(Error::invalid(&path.child("namespace"), namespace, wrong));
        }
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation < 0) {
        errors.push(Error::invalid(&path.child("generation"), generation, "must be greater than or equal to 0"));
    }
    labels(metadata.get("labels"), &path.child("labels"), errors);
    annotations(metadata.get("annotations"), &path.child("annotations"), errors);
}

/// The checks of labels.
pub fn labels(labels: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for wrong in names::qualified_name(key) {
            errors.push(Error::invalid(path, key, wrong));
        }
        let value = value.as_str().unwrap_or_default();
        for wrong in names::label_value(value) {
            errors.push(Error::invalid(&path.key(key), value, wrong));
        }
    }
}

/// The checks of annotations: keys, and the size of all of them.
pub fn annotations(annotations: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Unlike labels, annotations take capitals in their prefix.
        for wrong in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(path, key, wrong));
        }
    }
    if size > ANNOTATIONS_SIZE {
        errors.push(Error::too_long(path, "", ANNOTATIONS_SIZE as u64));
    }
}

fn shape(key: &str) -> Option<Shape> {
    FIELDS.iter().find(|(name, _)| *name == key).map(|(_, shape)| *shape)
}

fn retain(map: &mut Map<String, Value>, path: &Path, unknown: &mut Vec<Path>, known: impl Fn(&str) -> bool) {
    map.retain(|key, _| {
        let keep = known(key);
        if !keep {
            unknown.push(path.child(key));
        }
        keep
    });
}

fn misfit(key: &str, shape: Shape, value: &Value) -> Option<String> {
    let complain = |value: &Value, below: &str, wanted: &str| {
        Some(format!("json: cannot unmarshal {} into Go struct field ObjectMeta.{key}{below} of type {wanted}", json_type(value)))
    };
    match (shape, value) {
        (_, Value::Null) | (Shape::Text | Shape::Time, Value::String(_)) => None,
        (Shape::Text | Shape::Time, other) => complain(other, "", "string"),
        (Shape::Count, Value::Number(number)) if number.is_i64() => None,
        (Shape::Count, other) => complain(other, "", "int64"),
        (Shape::Texts, Value::Array(items)) => {
            items.iter().find(|item| !item.is_string() && !item.is_null()).and_then(|item| complain(item, "", "string"))
        }
        (Shape::Texts, other) => complain(other, "", "[]string"),
        (Shape::TextMap, Value::Object(map)) => {
            map.values().find(|item| !item.is_string() && !item.is_null()).and_then(|item| complain(item, "", "string"))
        }
        (Shape::TextMap, other) => complain(other, "", "map[string]string"),
        (Shape::Owners, Value::Array(items)) => {
            items.iter().find(|item| !item.is_object() && !item.is_null()).and_then(|item| complain(item, "", "v1.OwnerReference"))
        }
        (Shape::Owners, other) => complain(other, "", "[]v1.OwnerReference"),
        (Shape::Managers, Value::Array(items)) => {
            items.iter().find(|item| !item.is_object() && !item.is_null()).and_then(|item| complain(item, "", "v1.ManagedFieldsEntry"))
        }
        (Shape::Managers, other) => complain(other, "", "[]v1.ManagedFieldsEntry"),
    }
}
