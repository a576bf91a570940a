//! What the end-to-end tests stand on: the built binary, a cluster of its own for each test, real clients, registries, shared data.
//!
//! ```text
//!   Cluster (mainstay up, a process) ──┬── kubectl   the real one
//!                                      └── mainstay  the command line against it
//!   Registry (in process, or docker-registry)        bundles, catalogs
//! ```
//!
//! A test that needs something which is not there says `skipped: ...` on standard error and returns; the summary counts it as skipped.

mod binary;
pub mod bundles;
mod cluster;
mod data;
mod process;
mod registry;

pub use binary::mainstay;
pub use cluster::{Cluster, Options};
pub use data::{shared, unpacked};
pub use process::{Output, eventually, peak_memory, resident_memory, run, terminate};
pub use registry::Registry;

/// A kubectl that is new enough, or none.
pub fn kubectl() -> Option<std::path::PathBuf> {
    binary::kubectl()
}

/// Ends the test unless kubectl is there; to be written `let Some(()) = need_kubectl() else { return };`.
pub fn need_kubectl() -> Option<()> {
    if binary::kubectl().is_some() {
        return Some(());
    }
    skip("kubectl 1.32 or newer is not to be had here (make setup)");
    None
}

/// Says visibly that the test proves nothing here.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}
