//! Small queries that several changes share.

use rusqlite::{Connection, OptionalExtension as _, Params, params};

use crate::error::Error;
use crate::tables::text;

/// The first column of every row that is not null.
pub(super) fn texts(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(text(row, 0)?);
    }
    Ok(found)
}

/// Returns true if a bundle was deprecated.
pub(super) fn is_deprecated(connection: &Connection, bundle: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM deprecated WHERE operatorbundle_name = ?";
    Ok(connection.prepare_cached(sql)?.exists([bundle])?)
}

/// The names of the packages.
pub(super) fn packages(connection: &Connection) -> Result<Vec<String>, Error> {
    texts(connection, "SELECT DISTINCT name FROM package", [])
}

/// The channels of a package.
pub(super) fn channels(connection: &Connection, package: &str) -> Result<Vec<String>, Error> {
    texts(connection, "SELECT DISTINCT name FROM channel WHERE package_name = ?", [package])
}

/// The edges of a bundle according to the tables.
pub(super) struct Edges {
    pub(super) replaces: String,
    pub(super) skips: Vec<String>,
    pub(super) version: String,
}

/// The edges of a bundle.
pub(super) fn edges(connection: &Connection, bundle: &str) -> Result<Edges, Error> {
    let mut statement = connection.prepare_cached("SELECT replaces, skips, version FROM operatorbundle WHERE name = ? LIMIT 1")?;
    let mut rows = statement.query([bundle])?;
    let Some(row) = rows.next()? else {
        return Err(Error::content(format!("no bundle found for bundlename {bundle}")));
    };
    let skips = text(row, 1)?.unwrap_or_default();
    Ok(Edges {
        replaces: text(row, 0)?.unwrap_or_default(),
        skips: if skips.is_empty() { Vec::new() } else { skips.split(',').map(str::to_owned).collect() },
        version: text(row, 2)?.unwrap_or_default(),
    })
}

/// The image of a bundle; `None` if the bundle does not exist, empty if it has no image.
pub(super) fn image(connection: &Connection, bundle: &str) -> Result<Option<String>, Error> {
    let mut statement = connection.prepare_cached("SELECT bundlepath FROM operatorbundle WHERE name = ? LIMIT 1")?;
    let found = statement.query_row([bundle], |row| row.get::<_, Option<String>>(0)).optional()?;
    Ok(found.map(Option::unwrap_or_default))
}

/// Adds a property; an empty version or image is null.
pub(super) fn add_property(
    connection: &Connection,
    kind: &str,
    value: &str,
    bundle: &str,
    version: &str,
    image: &str,
) -> Result<(), Error> {
    let sql =
        "INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?)";
    connection.prepare_cached(sql)?.execute(params![kind, value, bundle, filled(version), filled(image)])?;
    Ok(())
}

/// Returns `None` for an empty text.
pub(super) fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Removes a bundle from every table that names it.
pub(super) fn remove_bundle(connection: &Connection, bundle: &str) -> Result<(), Error> {
    for sql in [
        "DELETE FROM operatorbundle WHERE name = ?",
        "DELETE FROM api_provider WHERE operatorbundle_name = ?",
        "DELETE FROM api_requirer WHERE operatorbundle_name = ?",
        "DELETE FROM channel_entry WHERE operatorbundle_name = ?",
    ] {
        connection.prepare_cached(sql)?.execute([bundle])?;
    }
    Ok(())
}
