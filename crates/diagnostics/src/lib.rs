//! The one vocabulary of findings, causes, hints and codes.
//!
//! Whatever a part of Mainstay has to say to a person is a [`Finding`]: which object, what happened, why (the causes, outermost first),
//! what would work (the hints) and where the evidence is. Crates make findings from their typed errors at the faces and in conditions;
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
