//! Kubernetes objects as JSON values: their references, owners, order and health. Pure functions of the object itself, shared by every
//! installer and controller.
//!
//! ```text
//!   Value ──┬── ObjectRef   which object (kind, namespace, name)
//!           ├── Owner       whose it is, and the marks that say so
//!           ├── order       what is installed before what, and removed after it
//!           ├── conditions  what its status says of it
//!           ├── health      ready, waiting or failed, by its own status
//!           └── Step        what is to be done to it, and what it must be for that
//!   labels ──── LabelSelector, Requirements   which objects are chosen
//!   IntOrString   a limit: a number, or a share of one
//!   Packed   a value that is large and held for long
//! ```

mod conditions;
mod expect;
mod health;
mod int_or_string;
mod object;
mod order;
mod owner;
mod packed;
mod selector;
mod step;

pub use conditions::{Condition, condition, is_condition_true, set_condition};
pub use expect::{Expect, meta};
pub use health::{Health, health};
pub use int_or_string::{IntOrString, IntOrStringError, PlainText, Rounding};
pub use object::{ObjectError, ObjectRef};
pub use order::{delete_order, install_order, phase, stale};
pub use owner::{NotOurs, Owner, asks_to_be_kept};
pub use packed::Packed;
pub use selector::{LabelSelector, Labels, Requirement, Requirements, SelectorError, SelectorOperator, SelectorRequirement, labels_of};
pub use step::{Patch, Propagation, Step, Until};
