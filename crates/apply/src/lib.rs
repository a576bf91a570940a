//! The only writer that loops use: it carries out steps that somebody else decided, as one identity.
//!
//! ```text
//!   Step, Step, Step ──► Writer (one kube::Client: a ServiceAccount or the controller) ──► API
//!                          │   apply, create, patch, delete, status, finalizers, wait
//!                          ├── owner    may this object be ours?           (pure)
//!                          ├── health   is this object as it should be?    (pure)
//!                          └── order    what comes before what?            (pure)
//!   Recorder ──► events.k8s.io/v1, the same event counted instead of repeated
//! ```
//!
//! Nothing is decided here, and nothing is retried: a step that fails says which object, which verb and why
//! ([`WriteError`]), and the loop's queue asks again.

mod error;
mod events;
mod health;
mod managed;
mod object;
mod order;
mod owner;
mod request;
mod steps;
mod writer;

pub use error::{Reason, Verb, WriteError};
pub use events::{EventKind, Recorder};
pub use health::{Health, health};
pub use object::{ObjectError, ObjectRef};
pub use order::{delete_order, install_order, phase, stale};
pub use owner::{NotOurs, Owner};
pub use steps::{Done, Effect, Failed, Step, Until};
pub use writer::{Expect, Patch, Propagation, Pruned, Writer};
