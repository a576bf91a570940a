//! References to objects.

use std::fmt;

use serde_json::Value;

/// An object by its kind and name. The namespace is empty for cluster-wide kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields are those of the object")]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// The error for an object that cannot be written because it lacks a part of its identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object has no {0}")]
pub struct ObjectError(pub &'static str);

impl ObjectRef {
    /// Returns the reference of an object.
    pub fn of(object: &Value) -> Result<Self, ObjectError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            api_version: text("/apiVersion").ok_or(ObjectError("apiVersion"))?,
            kind: text("/kind").ok_or(ObjectError("kind"))?,
            namespace: text("/metadata/namespace").unwrap_or_default(),
            name: text("/metadata/name").ok_or(ObjectError("metadata.name"))?,
        })
    }

    /// Returns the reference of an object that is to be created. A prefix from which the server makes the name stands for the name.
    pub fn to_create(object: &Value) -> Result<Self, ObjectError> {
        let prefix = object["metadata"]["generateName"].as_str().filter(|_| object["metadata"]["name"].is_null());
        match prefix {
            Some(prefix) => {
                let mut named = serde_json::json!({"apiVersion": object["apiVersion"], "kind": object["kind"]});
                named["metadata"] = serde_json::json!({"namespace": object["metadata"]["namespace"], "name": prefix});
                Self::of(&named)
            }
            None => Self::of(object),
        }
    }

    /// Returns the group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the version: `v1` of `apps/v1`.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&*self.api_version, |(_, version)| version)
    }

    /// Returns whether both name the same object, in any version.
    pub fn same(&self, other: &Self) -> bool {
        self.group() == other.group() && self.kind == other.kind && self.namespace == other.namespace && self.name == other.name
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(out, "{} {}", self.kind, self.name)
        } else {
            write!(out, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
