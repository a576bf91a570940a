//! What concurrent clients did to objects and saw of them, and whether a correct API server could have answered so.
//!
//! ```text
//!   clients ── operations with begin and end ──► linear: is there an order, key by key, that explains every answer?
//!   watchers ── events, bookmarks, lists ──────► order: one history for all, without loss, repetition or a wrong position?
//! ```
//!
//! The idea is that of etcd's robustness tests: the server is believed nothing, and any traffic will do, since the answers carry their
//! own proof.

pub mod linear;
pub mod order;
pub mod traffic;

/// A resource version.
pub type Revision = u64;
