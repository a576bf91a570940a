//! Manifests whose objects are deleted (CVO-DEL-01 to CVO-DEL-05).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::Mode;

/// The annotation of a manifest whose object is deleted.
pub const DELETE: &str = "release.openshift.io/delete";

/// The annotation has a value that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid delete annotation \"{DELETE}\" value: \"{value}\"")]
pub struct InvalidAnnotation {
    value: String,
}

/// Returns whether a manifest with these annotations means that its object is deleted (CVO-DEL-01).
pub fn is_deletion(annotations: &Value) -> Result<bool, InvalidAnnotation> {
    match annotations.get(DELETE) {
        None => Ok(false),
        Some(value) if value == "true" => Ok(true),
        Some(value) => Err(InvalidAnnotation { value: value.as_str().map_or_else(|| value.to_string(), str::to_owned) }),
    }
}

/// An object that is deleted, as it is named in messages: `configmap "demo/old"`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    kind: String,
    namespace: String,
    name: String,
}

impl Object {
    /// The object of a manifest. Kinds that are known by a rule of their own are named in lower case.
    pub fn of(manifest: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&manifest["kind"]);
        let metadata = &manifest["metadata"];
        let kind = if crate::apply::has_rules(manifest) { kind.to_lowercase() } else { kind };
        Self { kind, namespace: text(&metadata["namespace"]), name: text(&metadata["name"]) }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) };
        write!(out, "{} \"{name}\"", self.kind)
    }
}

/// The progress of the deletion of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Requested { expected: Option<Timestamp> },
    Verified { at: Timestamp },
}

/// The next step about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is gone.
    Gone,
    /// Nothing: it is going, until this time if it says one.
    Going {
        /// When it is expected to be gone.
        expected: Option<Timestamp>,
    },
    /// Nothing but a warning: it was gone, and is there again.
    Reappeared {
        /// When it was seen gone.
        deleted: Timestamp,
    },
    /// Nothing: it is deleted while the cluster is being updated alone.
    NotNow,
    /// Delete it, and call [`Deletions::requested`] when that succeeded.
    Delete,
}

/// The deletions of this process.
#[derive(Clone, Debug, Default)]
pub struct Deletions(BTreeMap<Object, State>);

impl Deletions {
    /// The next step about an object that is there, or not (CVO-DEL-02, CVO-DEL-03).
    pub fn observe(&mut self, object: &Object, present: bool, mode: Mode, now: Timestamp) -> Step {
        match (self.0.get(object), present) {
            (Some(State::Verified { at }), true) => Step::Reappeared { deleted: *at },
            (Some(State::Requested { expected }), true) => Step::Going { expected: *expected },
            (Some(State::Verified { .. }), false) => Step::Gone,
            // It may have been deleted by an earlier process.
            (Some(State::Requested { .. }) | None, false) => {
                self.0.insert(object.clone(), State::Verified { at: now });
                Step::Gone
            }
            (None, true) if mode == Mode::Updating => Step::Delete,
            (None, true) => Step::NotNow,
        }
    }

    /// The deletion was requested; `expected` is the object's deletion time, if it has one.
    pub fn requested(&mut self, object: Object, expected: Option<Timestamp>) {
        self.0.insert(object, State::Requested { expected });
    }

    /// Objects whose deletion was requested and is not done, as they are named in messages.
    pub fn in_progress(&self) -> Vec<String> {
        let going = self.0.iter().filter(|(_, state)| matches!(state, State::Requested { .. }));
        going.map(|(object, _)| object.to_string()).collect()
    }
}

/// The message about an object that is there again.
pub fn reappeared(object: &Object, deleted: Timestamp) -> String {
    format!("{object} has reappeared after having been deleted at {}.", deleted.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

/// Why an object is not deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Its manifest does not say so.
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
    /// It cannot be read.
    #[error("Error running delete for {object}, err=Cannot get {object} to delete, err={cause}.")]
    Unreadable {
        /// The object.
        object: Object,
        /// The cause.
        cause: String,
    },
    /// The request failed.
    #[error("Delete request for {object} failed, err={cause}")]
    Refused {
        /// The object.
        object: Object,
        /// The cause.
        cause: String,
    },
}
