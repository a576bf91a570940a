//! Check that the schema of a file is that of an index database.
//!
//! A schema is code: views, triggers and virtual tables run when tables are read or changed. Index databases have tables, indexes and the
//! two triggers of migration 7; everything else is refused before the first table is read.

use rusqlite::Connection;

use crate::error::Error;
use crate::migrations::sql::{PROVIDER_CLEANUP, REQUIRER_CLEANUP};

const OBJECTS: u64 = 1_000;

/// Refuses everything except plain tables, indexes, and the known triggers.
pub(crate) fn check(connection: &Connection) -> Result<(), Error> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if count > OBJECTS {
            return Err(Error::Limit { what: "number of tables and indexes".to_owned(), limit: OBJECTS });
        }
        let (kind, name, sql): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let refuse = |problem: &str| Err(Error::Schema { problem: format!("{kind} {name:?} {problem}") });
        match kind.as_str() {
            "table" if sql.as_deref().is_some_and(is_virtual) => return refuse("is virtual"),
            "table" | "index" => {}
            "trigger" if sql.as_deref().is_some_and(is_known_trigger) => {}
            _ => return refuse("is nothing that an index database has"),
        }
    }
    Ok(())
}

/// The version of the schema; `None` if no migration was recorded.
pub(crate) fn version(connection: &Connection) -> Result<Option<i64>, Error> {
    if !has_table(connection, "schema_migrations")? {
        return Ok(None);
    }
    let mut statement = connection.prepare("SELECT version FROM schema_migrations LIMIT 1")?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| row.get(0)).transpose().map_err(Error::from)
}

/// Returns true if a table of that name exists.
pub(crate) fn has_table(connection: &Connection, name: &str) -> Result<bool, Error> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", [name], |row| row.get(0))?;
    Ok(count > 0)
}

fn is_virtual(sql: &str) -> bool {
    words(sql).take(2).eq(["create", "virtual"])
}

fn is_known_trigger(sql: &str) -> bool {
    [PROVIDER_CLEANUP, REQUIRER_CLEANUP].iter().any(|known| words(known).eq(words(sql)))
}

/// Words and signs of a statement, ignoring blanks and case.
fn words(sql: &str) -> impl Iterator<Item = String> {
    let spaced = sql.replace('(', " ( ").replace(')', " ) ").replace(';', " ; ").replace('=', " = ").to_ascii_lowercase();
    spaced.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_plain_schemas_pass() {
        for (sql, passes) in [
            ("CREATE TABLE package (name TEXT)", true),
            ("CREATE TABLE a (b TEXT); CREATE UNIQUE INDEX pk ON a(b)", true),
            ("CREATE TABLE a (b TEXT); CREATE VIEW package AS SELECT b AS name FROM a", false),
            ("CREATE TABLE a (b TEXT); CREATE TRIGGER t AFTER DELETE ON a BEGIN DELETE FROM a; END", false),
        ] {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(sql).unwrap();
            assert_eq!(check(&connection).is_ok(), passes, "{sql}");
        }
    }

    #[test]
    fn virtual_tables_are_seen() {
        assert!(is_virtual("create  VIRTUAL\ntable x using fts5(a)"));
        assert!(!is_virtual("CREATE TABLE virtual (a)"));
    }
}
