//! Preconditions of a write: the object that was seen.

use serde_json::Value;

/// Preconditions of a write; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// This very object, and not one made again under its name.
    pub uid: Option<String>,
    /// In this state.
    pub resource_version: Option<String>,
    /// Or in another state that says the same but for its status: what was seen, without that ([`Expect::as_seen`]).
    pub content: Option<Box<Value>>,
}

impl Expect {
    /// The object as it was seen.
    pub fn uid_of(live: &Value) -> Self {
        Self { uid: meta(live, "uid"), ..Self::default() }
    }

    /// The object exactly as it was seen.
    pub fn exactly(live: &Value) -> Self {
        Self { uid: meta(live, "uid"), resource_version: meta(live, "resourceVersion"), content: None }
    }

    /// The object as it was seen; its status may have changed since.
    pub fn as_seen(live: &Value) -> Self {
        Self { content: Some(Box::new(content(live))), ..Self::exactly(live) }
    }

    /// The same expectation of the object as it is now; nothing unless its status alone has changed since.
    pub fn renewed(&self, live: &Value) -> Option<Self> {
        let seen = self.content.as_deref()?;
        (self.uid == meta(live, "uid") && *seen == content(live))
            .then(|| Self { resource_version: meta(live, "resourceVersion"), ..self.clone() })
    }

    /// The members of `metadata` that it names, with their values.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.uid.iter().map(|uid| ("uid", uid)).chain(self.resource_version.iter().map(|version| ("resourceVersion", version)))
    }
}

/// An object's content without its status and the fields that every write changes.
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

/// A text of an object's `metadata`.
pub fn meta(object: &Value, key: &str) -> Option<String> {
    object.get("metadata")?.get(key)?.as_str().map(str::to_owned)
}
