//! The schema's history: every version that index databases ever had, and the way to the newest.
//!
//! Two of upstream's migrations do not do what they were meant to, and are done right here: the one to version 5 writes versions into new
//! rows in place of the bundles' own, so that such a database comes out empty; the one to version 9 gives every dependency the value of
//! the first one.

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
    // Tables are replaced on the way; what refers to them is put right before the end.
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
