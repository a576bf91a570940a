//! Sample releases of our own, for `mainstay demo cluster-update`, for tests and for trying things out (CVO-SIM-02, CVO-SIM-06).
//!
//! ```text
//!   Release ── payload::files ── ImageBuilder ── registry or layout ──┐
//!   SigningKey ── signatures of the digests, in the layout of a store ┴─► Published { version, image, folder }
//!   graph_data::files      channels, blocked edges
//!   metrics::Endpoint      answers /api/v1/query as Prometheus does; its value can be switched
//! ```
//!
//! There are four releases: three patch levels of one minor version, and the next minor version; and a pair that has all operators of the platform. Nothing of it is anybody else's content.

mod component;
mod error;
pub mod graph_data;
pub mod metrics;
pub mod payload;
mod platform;
mod publish;
mod signing;

pub use error::Error;
pub use payload::{Images, Release, Trust, releases};
pub use platform::{PLATFORM_QUERY, platform_files, platform_graph_data, platform_releases, platform_retarget};
pub use publish::{Published, Target, publish, write_files};
pub use signing::SigningKey;
