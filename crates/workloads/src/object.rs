//! Reading objects of the dynamic kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

/// An object as caches hold it.
pub type Object = Arc<DynamicObject>;

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// Short ways to what controllers read.
pub trait Read {
    /// The name.
    fn name(&self) -> &str;
    /// The namespace; empty where there is none.
    fn namespace(&self) -> &str;
    /// The uid.
    fn uid(&self) -> &str;
    /// The labels.
    fn labels(&self) -> &BTreeMap<String, String>;
    /// An annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// Whether it is being deleted.
    fn deleting(&self) -> bool;
    /// The owner that controls it.
    fn controller(&self) -> Option<&OwnerReference>;
    /// When it was made.
    fn created(&self) -> Timestamp;
    /// What a pointer outside `metadata` leads to; null for nothing.
    fn at(&self, pointer: &str) -> &Value;
    /// The text that a pointer outside `metadata` leads to; empty for nothing.
    fn text(&self, pointer: &str) -> &str;
    /// The number that a pointer outside `metadata` leads to.
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

/// Whether an object is controlled by the one with this uid.
pub fn controlled_by(object: &DynamicObject, uid: &str) -> bool {
    object.controller().is_some_and(|owner| owner.uid == uid)
}

/// The reference by which an owner controls what it makes.
pub fn controller_reference(api_version: &str, kind: &str, owner: &DynamicObject) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true})
}

/// Whether a label selector matches labels. An absent or empty selector matches nothing: controllers never select everything.
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

/// The items of a list that a pointer outside `metadata` leads to.
pub fn items<'a>(object: &'a DynamicObject, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.at(pointer).as_array().into_iter().flatten()
}

/// A time as `metav1.Time` writes it.
pub fn time(at: Timestamp) -> Value {
    Value::String(Timestamp::from_second(at.as_second()).unwrap_or(at).to_string())
}

/// A time that `metav1.Time` wrote.
pub fn parse_time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A condition of a list of conditions.
pub fn condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Adds a member unless it is zero: Go leaves out zeros.
pub fn put(map: &mut Map<String, Value>, name: &str, value: i64) {
    if value != 0 {
        map.insert(name.to_owned(), json!(value));
    }
}
