//! Upstream's programs beside ours: `olm` and `catalog` of operator-lifecycle-manager as ordinary clients of one `mainstay up`, our own
//! loops in another, the same objects applied to both, and the same cluster afterwards.
//!
//! ```text
//!   scenarios/*.yaml ──> Pair ──┬── ours      mainstay up
//!                               └── upstream  mainstay up without OLM, olm, catalog
//!                          │
//!                          └──> World of each (what is random or of the moment is replaced) ──> differences, none but `known.rs`
//! ```
//!
//! `make peers` builds upstream's programs; without them every test is skipped, visibly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod catalog;
mod cluster_version;
mod difference;
mod known;
mod pair;
mod scenario;
mod world;

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { scenario::play(stringify!($name)); })*
    };
}

scenarios! {
    all_namespaces,
    api_service,
    config,
    conversion,
    crd_upgrade,
    dependency,
    failing_deployment,
    group_account,
    groups,
    manual_upgrade,
    no_catalog,
    operator_condition,
    own_namespace,
    unsupported_mode,
    webhooks,
}

/// Every file is a test.
#[test]
fn no_scenario_is_forgotten() {
    let files = std::fs::read_dir(scenario::folder()).unwrap();
    let mut names: Vec<String> = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    let mut listed = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(names, listed);
}
