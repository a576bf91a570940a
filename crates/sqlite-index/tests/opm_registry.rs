//! The same commands on the same bundles as upstream's program was given: the same tables, errors and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use mainstay_sqlite_index::Error;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Scenario {
    name: String,
    steps: Vec<Step>,
    tables: Option<Value>,
}

#[derive(Deserialize)]
struct Step {
    op: String,
    words: Vec<String>,
    flags: Vec<String>,
    exit: u8,
    error: Option<String>,
}

/// CATLG-54, CATLG-55, CATLG-57, CATLG-60, CATLG-63: adding in all modes, overwriting, substituting, removing, pruning and deprecating
/// leave the tables that opm leaves.
#[test]
fn tables_are_those_of_opm() {
    for line in include_str!("data/opm-registry.jsonl").lines() {
        let scenario: Scenario = serde_json::from_str(line).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.db");
        for step in &scenario.steps {
            let what = format!("{}: {} {:?}", scenario.name, step.op, step.words);
            let before = path.exists().then(|| common::tables(&path));
            match common::change(&path, &step.op, &step.words, &step.flags) {
                Ok(_) => assert_eq!(step.error, None, "{what}"),
                Err(error) => {
                    let expected = step.error.as_deref().unwrap_or_else(|| panic!("{what}: {error}"));
                    assert_eq!(by_chance(&error.to_string()), by_chance(expected), "{what}");
                    assert_eq!(exit(&error), step.exit, "{what}");
                    assert_eq!(before, path.exists().then(|| common::tables(&path)), "{what}: a failure changes nothing");
                }
            }
        }
        assert_eq!(scenario.tables.is_some(), path.exists(), "{}", scenario.name);
        let Some(expected) = scenario.tables else { continue };
        let found = common::tables(&path);
        for (table, rows) in expected.as_object().unwrap() {
            let mut rows = rows.as_array().unwrap().clone();
            if table == "operatorbundle" {
                for row in &mut rows {
                    row[5] = common::sorted(row[5].as_str().unwrap_or_default(), ',').into();
                }
            }
            assert_eq!(found[table], common::in_order(rows), "{}: table {table}", scenario.name);
        }
    }
}

/// CATLG-46: 2 for an image that is there, 3 for a version that is there.
fn exit(error: &Error) -> u8 {
    let code = error.parts().into_iter().find_map(|part| match part {
        Error::ImageAlreadyAdded { .. } => Some(2),
        Error::VersionAlreadyAdded => Some(3),
        _ => None,
    });
    code.unwrap_or(1)
}

/// Upstream lists some names in an order of chance.
fn by_chance(text: &str) -> String {
    let Some((before, rest)) = text.split_once("skips/replaces [") else { return text.to_owned() };
    let (names, after) = rest.split_once(']').unwrap();
    format!("{before}skips/replaces [{}]{after}", common::sorted(names, ' '))
}
