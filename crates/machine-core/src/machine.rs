//! A Machine, as far as decisions look at it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_objects::{Labels, labels_of};
use serde_json::Value;

use crate::condition::Condition;
use crate::hooks::LifecycleHooks;

/// Phases of a machine (MACH-API-05).
pub mod phase {
    /// Deletion has begun.
    pub const DELETING: &str = "Deleting";
    /// A terminal error.
    pub const FAILED: &str = "Failed";
}

/// Condition of a machine whose node was drained.
pub const DRAINED: &str = "Drained";

/// A Machine. Fields that are missing or of another type count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// True if its deletion was asked for.
    pub deleting: bool,
    /// UID of the owner that controls it.
    pub controller: Option<String>,
    /// Its lifecycle hooks.
    pub hooks: LifecycleHooks,
    /// Its phase.
    pub phase: Option<String>,
    /// Name of its node.
    pub node: Option<String>,
    /// When its status changed.
    pub last_updated: Option<Timestamp>,
    /// True if its status has an error, even an empty one.
    pub errored: bool,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl Machine {
    /// Reads a Machine.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let time = |path: &str| text(path).and_then(|time| time.parse().ok());
        let present = |path: &str| object.pointer(path).is_some_and(|value| !value.is_null());
        Self {
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            uid: text("/metadata/uid").unwrap_or_default().to_owned(),
            labels: labels_of(object),
            annotations: annotations_of(object),
            created: time("/metadata/creationTimestamp"),
            deleting: present("/metadata/deletionTimestamp"),
            controller: controller_of(object).and_then(|owner| owner["uid"].as_str()).map(str::to_owned),
            hooks: object.pointer("/spec/lifecycleHooks").map(LifecycleHooks::of).unwrap_or_default(),
            phase: text("/status/phase").map(str::to_owned),
            node: object
                .pointer("/status/nodeRef")
                .filter(|node| node.is_object())
                .map(|node| node["name"].as_str().unwrap_or_default().to_owned()),
            last_updated: time("/status/lastUpdated"),
            errored: present("/status/errorReason") || present("/status/errorMessage"),
            conditions: Condition::all_of(object),
        }
    }

    /// Returns whether an annotation is there, with any value.
    pub fn is_annotated(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }

    /// Returns whether it is in this phase.
    pub fn is_in(&self, phase: &str) -> bool {
        self.phase.as_deref() == Some(phase)
    }
}

/// Returns the owner reference that controls an object.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

/// Returns the annotations of an object; values that are no text are left out.
pub(crate) fn annotations_of(object: &Value) -> BTreeMap<String, String> {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
