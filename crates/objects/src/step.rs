//! Steps: what is to be done to objects, in order. Values only: `mainstay-apply` carries them out.

use std::time::Duration;

use serde_json::Value;

use crate::{Expect, ObjectRef, Owner};

impl AsRef<Step> for Step {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes an object that must not exist.
    Create(Value),
    /// Makes an object that must not exist, by a request that names it (`Writer::create_named` of `mainstay-apply`).
    CreateNamed(Value),
    /// Makes an object unless there is one already, which is then left as it is.
    CreateOnce(Value),
    /// Server-side apply.
    Apply {
        /// The fields that are wanted.
        object: Value,
        /// Take fields that other field managers own.
        force: bool,
        /// Preconditions.
        expect: Expect,
    },
    /// Server-side apply of an object that must be the owner's, or new.
    ApplyOwned {
        /// The fields that are wanted, without the owner's marks.
        object: Value,
        /// Its owner.
        owner: Owner,
    },
    /// A patch.
    Patch {
        /// Of what.
        object: ObjectRef,
        /// The subresource, or empty.
        subresource: String,
        /// The patch.
        patch: Patch,
    },
    /// Deletes an object; there being none is fine.
    Delete {
        /// Which.
        object: ObjectRef,
        /// Preconditions.
        expect: Expect,
        /// The fate of its dependents.
        propagation: Propagation,
    },
    /// Deletes those that exist and are the owner's.
    Prune {
        /// Which, in the order of removal.
        objects: Vec<ObjectRef>,
        /// Their owner; others are left alone.
        owner: Owner,
    },
    /// Waits; left out of dry runs, where nothing would come.
    Wait {
        /// For what object.
        object: ObjectRef,
        /// The state to wait for.
        until: Until,
        /// Longest wait.
        timeout: Duration,
    },
    /// Looks once whether an object is as it should be ([`health`](crate::health)), and stops here if it is not: the next attempt is woken
    /// by the object. Left out of dry runs.
    Probe(ObjectRef),
}

/// A state to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// It is as it should be ([`health`](crate::health)).
    Healthy,
    /// It does not exist.
    Gone,
    /// It reports a condition.
    Condition {
        /// Its type.
        name: String,
        /// Its status.
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
    /// They are deleted afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}
