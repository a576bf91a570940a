//! The common vocabulary of findings, causes, hints and codes.
//!
//! Every message of Mainstay to a user is a [`Finding`]: the object, what happened, why (the causes, outermost first),
//! what would work (the hints) and the place of the evidence. Crates make findings from their typed errors at the faces and in conditions;
//! this crate renders them and knows no subject.
//!
//! ```text
//!   error of a crate ── Finding ──┬─ to_text       terminal, hints on lines of their own
//!                                 ├─ to_condition  one bounded paragraph for status
//!                                 └─ serde         machine output
//! ```

mod chain;
mod count;
mod failure;
mod finding;
mod render;
mod shared;

pub use chain::chain;
pub use count::counted;
pub use failure::{Failure, FailureKind};
pub use finding::{Cause, Code, Finding, Hint, Location, Severity};
pub use render::{CONDITION_BYTES, bounded, to_text};
pub use shared::SharedError;
