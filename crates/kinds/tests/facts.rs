//! The checked-in facts are those that `cargo xtask facts` makes of the recorded documents.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use crate::xtask_facts;

/// KAPI-REST-08: the embedded schemas and resources are exactly what the recorded documents say. `UPDATE_FACTS=1` writes them anew.
#[test]
fn facts_are_those_of_the_recorded_documents() {
    let Some(data) = mainstay_testing::data::path("") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("facts");
    if std::env::var_os("UPDATE_FACTS").is_some() {
        xtask_facts::run(&data, &folder).unwrap();
    }
    for (name, text) in xtask_facts::generate(&data).unwrap() {
        let kept = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(kept == text, "facts/{name} is out of date: run `cargo xtask facts`");
    }
}
