//! The only writer of controllers: it carries out steps that others decided, as one identity.
//!
//! ```text
//!   Step, Step, Step ──► Writer (one kube::Client: a ServiceAccount or the controller) ──► API
//!                              apply, create, patch, delete, status, finalizers, wait
//!   Recorder ──► events.k8s.io/v1, the same event counted instead of repeated
//! ```
//!
//! Nothing is decided here, and nothing is retried: a step that fails says which object, which verb and why ([`WriteError`]), and the queue
//! of the controller tries again.

mod error;
mod events;
mod managed;
mod request;
mod steps;
mod writer;

pub use error::{Reason, Verb, WriteError};
pub use events::{EventKind, Recorder};
pub use steps::{Done, Effect, Failed};
pub use writer::{Pruned, Warnings, Writer};

use kube::api::GroupVersionKind;
use mainstay_objects::ObjectRef;

/// Returns the group, version and kind of an object, as kube names them.
pub fn gvk(object: &ObjectRef) -> GroupVersionKind {
    GroupVersionKind::gvk(object.group(), object.version(), &object.kind)
}
