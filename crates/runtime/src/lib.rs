//! The connections of every controller to the outside: API clients, caches of live objects, work queues with back-off, clock and randomness.
//!
//! ```text
//!   Cluster ──► kube::Client (own identity, or a ServiceAccount's token; over the network or over the embedded router)
//!      │
//!   Cache (list + watch of one kind) ──change──► Queue (dedupe, delay, back-off) ──key──► reconcile ──Outcome──┐
//!                                                  ▲                                                          │
//!                                                  └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Retries live only here: a reconcile reports [`Outcome`] or an error, and the queue decides when the key is due again.

mod accounts;
mod cache;
mod cluster;
mod controller;
mod env;
mod gate;
pub mod jobs;
mod kinds;
pub mod leader;
pub mod metrics;
mod optional;
pub mod parsed;
mod queue;
mod reviews;

pub use accounts::{AccountError, Accounts};
pub use cache::{Cache, Change, Key, Part, Scope};
pub use cluster::{Cluster, ConnectError};
pub use controller::{Outcome, RECONCILE, run};
pub use env::{Clock, Env, ManualClock};
pub use gate::{Gate, NotLeading};
pub use kinds::{KindError, Kinds, Served};
pub use optional::Optional;
pub use queue::{Backoff, Counts, Queue};
pub use reviews::{Access, ReviewError, Reviews};
