//! What the end-to-end tests stand on: the built binary, a cluster of its own for each test, real clients, registries, shared data.
//!
//! ```text
//!   Cluster (mainstay up, a process) ──┬── kubectl   the real one
//!                                      └── mainstay  the command line against it
//!   Registry (in process, or docker-registry)        bundles, catalogs
//!   replay (recorded answers of a real API server)   scenarios
//! ```
//!
//! A test that needs something which is not there says `skipped: ...` on standard error and returns; the summary counts it as skipped.

mod binary;
pub mod bundles;
pub mod calls;
pub mod client;
mod cluster;
mod data;
mod given;
pub mod history;
mod process;
mod registry;
pub mod replay;

pub use binary::mainstay;
pub use calls::need_calls;
pub use cluster::{Cluster, Options};
pub use data::unpacked;
pub use process::{Output, eventually, peak_memory, resident_memory, run, signal, terminate};
pub use registry::Registry;

/// A kubectl that is new enough, or none.
pub fn kubectl() -> Option<std::path::PathBuf> {
    binary::kubectl()
}

/// A program of `make setup`, else of the path; none, with a visible skip, where it is not to be had.
pub fn program(name: &str) -> Option<std::path::PathBuf> {
    let found = binary::program(name);
    if found.is_none() {
        skip(&format!("{name} is not to be had here (make setup)"));
    }
    found
}

/// Every kubectl that is there: what [`kubectl`] answers, and the newest one, where Go could build it.
pub fn every_kubectl() -> Vec<std::path::PathBuf> {
    binary::kubectl().into_iter().chain(binary::program("kubectl-next")).collect()
}

/// A Python with the kubernetes package, from `make setup`; none, with a visible skip, where it is not to be had.
pub fn python_client() -> Option<std::path::PathBuf> {
    python_with("kubernetes")
}

/// A Python with one of the packages of `python/requirements.txt`, from `make setup`; none, with a visible skip, where it is not to be had.
pub fn python_with(package: &str) -> Option<std::path::PathBuf> {
    let python = binary::root().join(".cache/python/bin/python");
    let import = format!("import {package}");
    let works = std::process::Command::new(&python).args(["-c", &import]).stderr(std::process::Stdio::null()).status();
    if works.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    skip(&format!("Python's {package} is not to be had here (make setup)"));
    None
}

/// A file or folder of this crate.
pub fn here(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Ends the test unless kubectl is there; to be written `let Some(()) = need_kubectl() else { return };`.
pub fn need_kubectl() -> Option<()> {
    if binary::kubectl().is_some() {
        return Some(());
    }
    skip("kubectl 1.32 or newer is not to be had here (make setup)");
    None
}

/// Ends the test unless clusters are `mainstay up`'s own; to be written as [`need_kubectl`].
pub fn need_embedded() -> Option<()> {
    if std::env::var_os(given::GIVEN).is_none() {
        return Some(());
    }
    skip(&format!("it tests `mainstay up` itself, and {} names another cluster", given::GIVEN));
    None
}

/// Says visibly that the test proves nothing here.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}
