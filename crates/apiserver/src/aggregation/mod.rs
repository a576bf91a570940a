//! API servers of others behind this one (KAPI-AGG-01).
//!
//! ```text
//!   APIService objects ──► index: who serves which group and version
//!        ▲    │                    │
//!   status    └► availability ─► documents: their discovery and OpenAPI, fetched and kept
//!                                  │
//!   request ─ identify ─ authorize ┴► proxy ──► the other server (front-proxy certificate, X-Remote-* headers)
//! ```
//!
//! An APIService without a Service is served here; one with a Service is somebody else's, whatever this server may have of the same
//! name. Admission does not see what is sent on: that is the other server's part.

mod availability;
mod documents;
mod index;
mod proxy;

pub use availability::Availability;
pub use documents::{Placed, merge_groups, merge_v2};
pub use index::{Aggregation, RemoteApi};
pub use proxy::forward;
