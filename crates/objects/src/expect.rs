//! Preconditions of a write: the object as it was read.

use serde_json::Value;

/// Preconditions of a write; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The object itself, not another one that was created under its name.
    pub uid: Option<String>,
    /// The object in this state.
    pub resource_version: Option<String>,
    /// Or the object in a state that differs only in its status: the content that was read, without the status ([`Expect::as_seen`]).
    pub content: Option<Box<Value>>,
}

impl Expect {
    /// Expects the object that was read, in any state.
    pub fn uid_of(live: &Value) -> Self {
        Self { uid: meta(live, "uid"), ..Self::default() }
    }

    /// Expects the object exactly as it was read.
    pub fn exactly(live: &Value) -> Self {
        Self { uid: meta(live, "uid"), resource_version: meta(live, "resourceVersion"), content: None }
    }

    /// Expects the object as it was read; its status may have changed since.
    pub fn as_seen(live: &Value) -> Self {
        Self { content: Some(Box::new(content(live))), ..Self::exactly(live) }
    }

    /// Returns the same expectation for the object as it is now; `None` if more than its status has changed.
    pub fn renewed(&self, live: &Value) -> Option<Self> {
        let seen = self.content.as_deref()?;
        (self.uid == meta(live, "uid") && *seen == content(live))
            .then(|| Self { resource_version: meta(live, "resourceVersion"), ..self.clone() })
    }

    /// Returns the members of `metadata` that the expectation names, with their values.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.uid.iter().map(|uid| ("uid", uid)).chain(self.resource_version.iter().map(|version| ("resourceVersion", version)))
    }
}

/// Returns an object's content without its status and the fields that every write changes.
fn content(live: &Value) -> Value {
    let mut object = live.clone();
    if let Value::Object(map) = &mut object {
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.retain(|key, _| !matches!(key.as_str(), "managedFields" | "resourceVersion" | "generation"));
        }
    }
    object
}

/// Returns a text of an object's `metadata`.
pub fn meta(object: &Value, key: &str) -> Option<String> {
    object.get("metadata")?.get(key)?.as_str().map(str::to_owned)
}
