//! How objects refer to the CSV that owns them.

use serde_json::{Map, Value, json};

/// The CSV that owns objects.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// Its apiVersion as written; authors misspell the group.
    pub api_version: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its UID; empty before it exists.
    pub uid: &'a str,
}

impl Owner<'_> {
    /// The owner reference, which blocks no deletion.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": "ClusterServiceVersion", "name": self.name, "uid": self.uid,
            "controller": false, "blockOwnerDeletion": false,
        })
    }

    /// The labels that name the owner.
    pub fn labels(&self) -> Map<String, Value> {
        let labels = [("olm.owner", self.name), ("olm.owner.namespace", self.namespace), ("olm.owner.kind", "ClusterServiceVersion")];
        labels.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value.to_owned()))).collect()
    }
}
