//! The update service of clusters (`docs/spec/cluster-version.md`, section 23): releases and graph-data in, graphs out.
//!
//! ```text
//!   registry repository, directory, OCI layout, list ── scrape ──┐   (by digest, kept on disk)
//!   graph-data directory, archive, image ────────────────────────┴── build ── Snapshot ── routes
//! ```
//!
//! Requests read an immutable [`Snapshot`] that a rebuild replaces as a whole; a rebuild that fails changes nothing. Each answer is encoded once a
//! snapshot. The decisions (which nodes and edges) are `mainstay-update-graph`'s.

mod error;
mod graph_data;
mod kept;
mod metrics;
mod openapi;
mod routes;
mod scrape;
mod service;
mod signatures;
mod snapshot;
mod sources;

pub use error::Error;
pub use graph_data::{GraphDataPlace, from_archive as graph_data_from_archive, from_directory as graph_data_from_directory};
pub use service::{Addresses, Bound, Config, Service};
pub use snapshot::Snapshot;
pub use sources::{Place, read_place};
