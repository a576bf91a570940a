//! Connections that trust nothing in the file: bounded values and steps, no schema functions, no extensions, nothing else attached.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::limits::Limits;

/// Opens, without write permission, a file that does not change meanwhile.
pub(crate) fn read_only(path: &Path, limits: &Limits) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(address(path), flags)?;
    restrict(&mut connection, limits)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    Ok(connection)
}

/// Opens a private copy for changes.
pub(crate) fn private(path: &Path, limits: &Limits) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    restrict(&mut connection, limits)?;
    // The copy is private, and it is synced once at its end.
    connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON;")?;
    Ok(connection)
}

fn restrict(connection: &mut Connection, limits: &Limits) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, limits.value_bytes)?;
    // VACUUM needs one attached database.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
    let (every, mut left) = (1_000_000, limits.steps);
    connection.progress_handler(
        every,
        Some(move || {
            left = left.saturating_sub(u64::from(every.unsigned_abs()));
            left == 0
        }),
    )?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;")?;
    Ok(())
}

/// The URI of the file, marked as immutable: SQLite takes no lock and looks for no journal.
fn address(path: &Path) -> String {
    let mut out = String::from("file:");
    if !path.is_absolute() {
        out.push_str("./");
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => out.push(char::from(*byte)),
            other => {
                // Writing to a String does not fail.
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out.push_str("?immutable=1");
    out
}
