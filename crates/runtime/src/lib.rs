//! What every loop needs of the outside: a way to the API, caches of live objects, work queues with back-off, clock and chance.
//!
//! ```text
//!   Cluster ──► kube::Client (own identity, or a ServiceAccount's token; over the network or over the embedded router)
//!      │
//!   Cache (list + watch of one kind) ──change──► Queue (dedupe, delay, back-off) ──key──► reconcile ──Outcome──┐
//!                                                  ▲                                                          │
//!                                                  └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Retries live here and nowhere else: a reconcile reports [`Outcome`] or an error, the queue decides when it is asked again.

mod accounts;
mod cache;
mod cluster;
mod controller;
mod env;
mod gate;
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
