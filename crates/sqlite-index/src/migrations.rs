//! The schema's history: every version of index databases, and the migrations to the newest.
//!
//! Two of upstream's migrations are wrong, and are done right here: the one to version 5 writes versions into new rows instead of the
//! bundles' own, so that such a database comes out empty; the one to version 9 gives every dependency the value of the first one.

mod backfill;
pub(crate) mod sql;

use rusqlite::Connection;

use crate::error::Error;
use crate::schema;

/// The newest version of the schema.
pub const LATEST: i64 = 13;

/// Brings a database to the newest version, in one transaction. A database of a later version stays as it is.
pub(crate) fn migrate(connection: &Connection) -> Result<(), Error> {
    let first = schema::version(connection)?.map_or(0, |version| version.saturating_add(1));
    if first > LATEST {
        return Ok(());
    }
    // The migrations replace tables; references to them are repaired before the end.
    let enforced: bool = connection.pragma_query_value(None, "foreign_keys", |row| row.get(0))?;
    connection.pragma_update(None, "foreign_keys", false)?;
    let outcome = run(connection, first.max(0));
    connection.pragma_update(None, "foreign_keys", enforced)?;
    outcome
}

fn run(connection: &Connection, first: i64) -> Result<(), Error> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(sql::MIGRATIONS_TABLE)?;
    for version in first..=LATEST {
        step(&transaction, version).map_err(|error| Error::Migration { version, problem: error.to_string() })?;
    }
    transaction.execute("DELETE FROM schema_migrations", [])?;
    transaction.execute("INSERT INTO schema_migrations(version) VALUES (?)", [LATEST])?;
    transaction.commit()?;
    Ok(())
}

fn step(connection: &Connection, version: i64) -> Result<(), Error> {
    match version {
        0 => connection.execute_batch(sql::INITIAL)?,
        1 => {
            connection.execute_batch(sql::RELATED_IMAGES)?;
            backfill::related_images(connection)?;
        }
        2 => connection.execute_batch("ALTER TABLE operatorbundle ADD COLUMN bundlepath TEXT")?,
        3 => {
            connection.execute_batch(sql::REQUIRED_APIS)?;
            backfill::required_apis(connection)?;
        }
        4 => {
            for table in sql::CASCADING {
                let name = table.0;
                connection.execute_batch(&format!("ALTER TABLE {name} RENAME TO {name}_old"))?;
            }
            for (_, create) in sql::CASCADING {
                connection.execute_batch(create)?;
            }
            for (name, _) in sql::CASCADING {
                connection.execute_batch(&format!("INSERT INTO {name} SELECT * FROM {name}_old; DROP TABLE {name}_old"))?;
            }
        }
        5 => {
            connection.execute_batch(
                "ALTER TABLE operatorbundle ADD COLUMN skiprange TEXT; ALTER TABLE operatorbundle ADD COLUMN version TEXT",
            )?;
            backfill::versions(connection)?;
        }
        6 => connection.execute_batch(sql::APIS_OF_BUNDLES)?,
        7 => {
            connection
                .execute_batch("ALTER TABLE operatorbundle ADD COLUMN replaces TEXT; ALTER TABLE operatorbundle ADD COLUMN skips TEXT")?;
            connection.execute_batch(sql::PROVIDER_CLEANUP)?;
            connection.execute_batch(sql::REQUIRER_CLEANUP)?;
            backfill::replaces_and_skips(connection)?;
        }
        8 => {
            connection.execute_batch(sql::DEPENDENCIES)?;
            backfill::dependencies(connection)?;
        }
        9 => {
            connection.execute_batch(sql::PROPERTIES)?;
            backfill::properties(connection)?;
        }
        10 => connection.execute_batch(sql::PATHS_OF_PROPERTIES)?,
        11 => connection.execute_batch("ALTER TABLE operatorbundle ADD COLUMN substitutesfor TEXT")?,
        12 => connection.execute_batch(sql::DEPRECATED)?,
        _ => connection.execute_batch(sql::FORGET_TRUNCATED)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::path::Path;

    use mainstay_catalog::{Format, render};
    use rusqlite::params;
    use serde_json::json;

    use super::*;
    use crate::IndexDatabase;

    fn csv(name: &str, version: &str, annotations: &serde_json::Value, required: &serde_json::Value) -> String {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "version": version, "customresourcedefinitions": {"required": required},
                "relatedImages": [{"name": "r", "image": format!("registry.example/{name}:r")}],
                "install": {"strategy": "deployment", "spec": {"deployments": [
                    {"name": "d", "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}}}
                ]}},
            },
        })
        .to_string()
    }

    /// A database from before versions: the tables of the first schema, and two bundles in a channel.
    fn first_schema(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        // As the index is edited; each statement would wait for the disk.
        connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF").unwrap();
        connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        connection.execute_batch(sql::INITIAL).unwrap();
        let required = json!([{"name": "things.req.example", "kind": "Thing", "version": "v1"}]);
        for (name, csv) in [
            ("p.v1", csv("p.v1", "1.0.0", &json!({}), &json!([]))),
            ("p.v2", csv("p.v2", "2.0.0", &json!({"olm.skipRange": "<2.0.0"}), &required)),
            ("q.v1", csv("q.v1", "1.0.0", &json!({}), &json!([{"name": "others.req.example", "kind": "Other", "version": "v2"}]))),
        ] {
            connection.execute("INSERT INTO operatorbundle VALUES (?1, ?2, ?2)", params![name, csv]).unwrap();
        }
        connection
            .execute_batch(
                "INSERT INTO package VALUES ('p', 'c'), ('q', 'c');
                 INSERT INTO channel VALUES ('c', 'p', 'p.v2'), ('c', 'q', 'q.v1');
                 INSERT INTO channel_entry VALUES (1, 'c', 'p', 'p.v1', NULL, 1), (2, 'c', 'p', 'p.v2', 1, 0), (3, 'c', 'q', 'q.v1', NULL, 0);
                 INSERT INTO api VALUES ('p.example', 'v1', 'Pea', 'peas');
                 INSERT INTO api_provider VALUES ('p.example', 'v1', 'Pea', 1), ('p.example', 'v1', 'Pea', 2);",
            )
            .unwrap();
        connection
    }

    fn rendered(path: &Path) -> String {
        let mut out = Vec::new();
        render(&IndexDatabase::open(path).unwrap().to_catalog().unwrap(), Format::Json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// CATLG-63: a database of every version of the schema reads as the same catalog, also one from before versions.
    #[test]
    fn every_version_reads_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let unversioned = directory.path().join("unversioned.db");
        drop(first_schema(&unversioned));
        let expected = rendered(&unversioned);
        for fact in
            ["\"replaces\": \"p.v1\"", "\"skipRange\": \"<2.0.0\"", "registry.example/c:1", "\"kind\": \"Thing\"", "\"kind\": \"Other\""]
        {
            assert!(expected.contains(fact), "{fact}: {expected}");
        }
        for last in 0..=LATEST {
            let path = directory.path().join(format!("v{last}.db"));
            let connection = first_schema(&path);
            connection.execute_batch(sql::MIGRATIONS_TABLE).unwrap();
            for version in 1..=last {
                step(&connection, version).unwrap();
            }
            connection.execute("INSERT INTO schema_migrations(version) VALUES (?)", [last]).unwrap();
            drop(connection);
            assert_eq!(IndexDatabase::open(&path).unwrap().version(), Some(last));
            assert_eq!(rendered(&path), expected, "version {last}");
        }
    }

    #[test]
    fn a_later_version_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("later.db");
        let connection = first_schema(&path);
        migrate(&connection).unwrap();
        connection.execute("UPDATE schema_migrations SET version = 99", []).unwrap();
        migrate(&connection).unwrap();
        assert_eq!(schema::version(&connection).unwrap(), Some(99));
    }
}
