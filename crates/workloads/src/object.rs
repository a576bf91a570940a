//! Readers of dynamic objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

/// An object as the caches hold it.
pub type Object = Arc<DynamicObject>;

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// The readers that controllers use.
pub trait Read {
    /// Returns the name.
    fn name(&self) -> &str;
    /// Returns the namespace; empty if there is none.
    fn namespace(&self) -> &str;
    /// Returns the uid.
    fn uid(&self) -> &str;
    /// Returns the labels.
    fn labels(&self) -> &BTreeMap<String, String>;
    /// Returns an annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// Returns true if the object is being deleted.
    fn deleting(&self) -> bool;
    /// Returns the owner that controls the object.
    fn controller(&self) -> Option<&OwnerReference>;
    /// Returns the creation time.
    fn created(&self) -> Timestamp;
    /// Returns the value at a pointer outside `metadata`; null if absent.
    fn at(&self, pointer: &str) -> &Value;
    /// Returns the text at a pointer outside `metadata`; empty if absent.
    fn text(&self, pointer: &str) -> &str;
    /// Returns the number at a pointer outside `metadata`.
    fn int(&self, pointer: &str) -> Option<i64>;
}

impl Read for DynamicObject {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn controller(&self) -> Option<&OwnerReference> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    fn created(&self) -> Timestamp {
        self.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    fn at(&self, pointer: &str) -> &Value {
        self.data.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    fn int(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }
}

/// Returns true if the owner with this uid controls an object.
pub fn controlled_by(object: &DynamicObject, uid: &str) -> bool {
    object.controller().is_some_and(|owner| owner.uid == uid)
}

/// Returns the owner reference of a controller to an object that it creates.
pub fn controller_reference(api_version: &str, kind: &str, owner: &DynamicObject) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true})
}

/// Returns true if a label selector matches labels. An absent or empty selector matches nothing: controllers never select everything.
pub fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let empty = |name: &str| match selector.get(name) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        return false;
    }
    if let (true, Some(wanted)) = (empty("matchExpressions"), selector["matchLabels"].as_object()) {
        return wanted.iter().all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    }
    let labels = Value::Object(labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>());
    mainstay_rbac::selector_matches(selector, Some(&labels))
}

/// Returns the items of a list at a pointer outside `metadata`.
pub fn items<'a>(object: &'a DynamicObject, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.at(pointer).as_array().into_iter().flatten()
}

/// Writes a time as `metav1.Time` does.
pub fn time(at: Timestamp) -> Value {
    Value::String(Timestamp::from_second(at.as_second()).unwrap_or(at).to_string())
}

/// Reads a time that `metav1.Time` wrote.
pub fn parse_time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns a condition from a list of conditions.
pub fn condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Adds a member unless it is zero, because Go leaves out zeros.
pub fn put(map: &mut Map<String, Value>, name: &str, value: i64) {
    if value != 0 {
        map.insert(name.to_owned(), json!(value));
    }
}
