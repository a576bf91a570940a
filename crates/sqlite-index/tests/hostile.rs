//! Files that are no index databases, and some that were made to do harm.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use mainstay_sqlite_index::{Editor, Error, IndexDatabase, Limits};
use proptest::prelude::*;
use rusqlite::Connection;

fn database(directory: &tempfile::TempDir) -> std::path::PathBuf {
    let path = directory.path().join("index.db");
    common::add(&path, &["foo-1.0.0", "bar-1.0.0"], &[]).unwrap();
    path
}

/// CATLG-63: a file that is something else is refused by its name.
#[test]
fn no_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    for bytes in [&b""[..], b"SQLite format 2\0", b"{\"schema\": \"olm.package\"}", b"SQLite format 3"] {
        std::fs::write(&path, bytes).unwrap();
        let error = IndexDatabase::open(&path).unwrap_err();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        assert_eq!(Editor::open(&path).is_ok(), bytes.is_empty(), "an empty file becomes a new database");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(IndexDatabase::open(&path), Err(Error::Io { .. })));
}

/// CATLG-63: views, triggers and changes that are not in the file yet are refused.
#[test]
fn schemas_that_do_something() {
    for sql in [
        "DROP TABLE package; CREATE VIEW package AS SELECT 'x' AS name, 'y' AS default_channel",
        "CREATE TRIGGER t AFTER DELETE ON package BEGIN DELETE FROM channel; END",
        "DROP TRIGGER api_provider_cleanup; CREATE TRIGGER api_provider_cleanup AFTER DELETE ON api_provider BEGIN DELETE FROM package; END",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = database(&directory);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        for error in [IndexDatabase::open(&path).unwrap_err(), Editor::open(&path).unwrap_err()] {
            assert!(matches!(error, Error::Schema { .. }), "{sql}: {error}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = database(&directory);
    std::fs::write(directory.path().join("index.db-wal"), "x").unwrap();
    assert!(matches!(IndexDatabase::open(&path), Err(Error::Unfinished { .. })));
}

/// CATLG-63: limits on the file, on values, on rows and on all of it.
#[test]
fn limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(&directory);
    let all = Limits::default();
    for limits in [
        Limits { file_bytes: 1000, ..all },
        Limits { value_bytes: 600, ..all },
        Limits { rows: 5, ..all },
        Limits { total_bytes: 500, ..all },
        Limits { steps: 0, ..all },
    ] {
        let outcome = IndexDatabase::open_limited(&path, limits).and_then(|database| database.to_catalog());
        assert_eq!(outcome.is_ok(), limits.steps == 0, "{limits:?}: the first million steps are free");
    }
}

/// CATLG-63: reading changes nothing, not even to bring an older schema up.
#[test]
fn reading_leaves_the_file_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(&directory);
    Connection::open(&path).unwrap().execute_batch("DROP TABLE deprecated; UPDATE schema_migrations SET version = 11").unwrap();
    let before = std::fs::read(&path).unwrap();
    let database = IndexDatabase::open(&path).unwrap();
    assert_eq!(database.version(), Some(11));
    database.to_catalog().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// CATLG-56: what is served keeps the constraints that rendering loses.
#[test]
fn constraints_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(&directory);
    let sql = r#"INSERT INTO dependencies VALUES ('olm.constraint', '{"package": {"packageName": "q"}}', 'foo.v1.0.0', '1.0.0', NULL)"#;
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let database = IndexDatabase::open(&path).unwrap();
    let constraints = |catalog: mainstay_catalog::Catalog| {
        let properties = catalog.bundles.into_iter().flat_map(|bundle| bundle.properties);
        properties.filter(|property| property.kind == "olm.constraint").map(|property| property.value.get().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(constraints(database.to_catalog().unwrap()), [""; 0]);
    assert_eq!(constraints(database.to_served_catalog().unwrap()), [r#"{"package":{"packageName":"q"}}"#]);
}

/// CATLG-56: a deprecated bundle is served, for clusters have it installed and ask for it by name; a rendered catalog has it no more.
#[test]
fn deprecated_bundles_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    for bundle in ["foo-1.0.0", "foo-1.1.0", "foo-1.2.0"] {
        common::add(&path, &[bundle], &[]).unwrap();
    }
    common::change(&path, "deprecatetruncate", &[common::image("foo-1.1.0")], &[]).unwrap();
    let database = IndexDatabase::open(&path).unwrap();
    let names = |catalog: &mainstay_catalog::Catalog| catalog.bundles.iter().map(|bundle| bundle.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&database.to_catalog().unwrap()), ["foo.v1.2.0"]);
    let served = database.to_served_catalog().unwrap();
    assert_eq!(names(&served), ["foo.v1.1.0", "foo.v1.2.0"]);
    assert!(served.bundles[0].properties.iter().any(|property| property.kind == "olm.deprecated" && property.value.get() == "{}"));
    assert!(served.channels.iter().any(|channel| channel.entries.iter().any(|entry| entry.name.as_str() == "foo.v1.1.0")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// CATLG-63: whatever bytes are changed or missing, reading ends with a catalog or an error.
    #[test]
    fn damaged_files(cut in 0.0f64..1.0, changes in prop::collection::vec((0.0f64..1.0, any::<u8>()), 0..40)) {
        static WHOLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::read(database(&directory)).unwrap()
        });
        let mut bytes = WHOLE.clone();
        for (place, byte) in &changes {
            let at = (place * bytes.len() as f64) as usize;
            bytes[at] = *byte;
        }
        if cut < 0.5 {
            bytes.truncate((cut * 2.0 * WHOLE.len() as f64) as usize);
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.db");
        std::fs::write(&path, &bytes).unwrap();
        let catalog = IndexDatabase::open(&path).and_then(|database| database.to_catalog());
        if changes.is_empty() && cut >= 0.5 {
            prop_assert!(catalog.is_ok());
        }
    }
}
