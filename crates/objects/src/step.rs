//! Steps: changes of objects, in order. They are values only; `mainstay-apply` carries them out.

use std::time::Duration;

use serde_json::Value;

use crate::{Expect, ObjectRef, Owner};

impl AsRef<Step> for Step {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A change of an object, or a wait for one.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates an object that must not exist.
    Create(Value),
    /// Creates an object that must not exist, by a request that names it (`Writer::create_named` of `mainstay-apply`).
    CreateNamed(Value),
    /// Creates an object unless it exists already; an existing one is left as it is.
    CreateOnce(Value),
    /// Server-side apply.
    Apply {
        /// The wanted fields.
        object: Value,
        /// Takes fields from other field managers.
        force: bool,
        /// Preconditions.
        expect: Expect,
    },
    /// Server-side apply of an object that must be the owner's or new.
    ApplyOwned {
        /// The wanted fields, without the owner's marks.
        object: Value,
        /// Its owner.
        owner: Owner,
    },
    /// A patch.
    Patch {
        /// The patched object.
        object: ObjectRef,
        /// The subresource; empty for the object itself.
        subresource: String,
        /// The patch.
        patch: Patch,
    },
    /// Deletes an object; a missing one is no error.
    Delete {
        /// The object.
        object: ObjectRef,
        /// Preconditions.
        expect: Expect,
        /// The fate of its dependents.
        propagation: Propagation,
    },
    /// Deletes the objects that exist and are the owner's.
    Prune {
        /// The objects, in the order of removal.
        objects: Vec<ObjectRef>,
        /// Their owner; objects of others are left alone.
        owner: Owner,
    },
    /// Waits for a state; left out of dry runs, which would never reach it.
    Wait {
        /// The object.
        object: ObjectRef,
        /// The state to wait for.
        until: Until,
        /// Longest wait.
        timeout: Duration,
    },
    /// Checks once that an object is as it should be ([`health`](crate::health)), and stops here if it is not: the object wakes the next
    /// attempt. Left out of dry runs.
    Probe(ObjectRef),
}

/// A state to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The object is as it should be ([`health`](crate::health)).
    Healthy,
    /// The object does not exist.
    Gone,
    /// The object reports a condition.
    Condition {
        /// The type of the condition.
        name: String,
        /// The status of the condition.
        status: String,
    },
}

/// A patch and its format.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON Patch: a list of operations.
    Json(Value),
    /// JSON Merge Patch.
    Merge(Value),
    /// Strategic Merge Patch.
    Strategic(Value),
}

/// The fate of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted afterwards.
    #[default]
    Background,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents stay.
    Orphan,
}
