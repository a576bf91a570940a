//! The life cycle of installed content: the parts that every installer needs, independent of kinds. Pure functions of facts.
//!
//! ```text
//!   History (revisions) ─┐
//!   wanted objects ──────┼─► change ──► steps ──┬── preview      every object, field by field, before it happens
//!   Live objects ────────┘                      ├── preflight    permissions, owners, kinds, CRDs: a Reason where one refuses
//!                                               ├── approval     whether a person has to be asked, and was
//!                                               └── after        what the records say once the steps are done
//!   health_gate, rollback, removal, pin: verdicts about a way back, a way out, and staying        explanation: the answer to "why"
//! ```
//!
//! Everything here works on a [`Subject`], never on one kind: ClusterExtensions, Subscriptions and cluster updates plan with the same functions.
//! An installer supplies the wanted objects, their owner and its name; everything that follows is implemented once, here.

pub mod approval;
pub mod change;
pub mod explanation;
pub mod health_gate;
pub mod live;
pub mod object;
pub mod pin;
pub mod policy;
pub mod preflight;
pub mod preview;
pub mod reason;
pub mod removal;
pub mod revision;
pub mod rollback;

pub use live::{Fact, Instances, Live, LiveObjects};
pub use mainstay_api::lifecycle::Subject;
pub use reason::Reason;
