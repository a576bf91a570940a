//! Values that a migration computes from the manifests in the database.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::error::Error;
use crate::manifest::Manifest;

/// Version 1: the images of each bundle. A manifest that cannot be read has none, as in upstream.
pub(super) fn related_images(connection: &Connection) -> Result<(), Error> {
    let mut insert = connection.prepare("INSERT INTO related_image(image, operatorbundle_name) VALUES (?, ?)")?;
    each_manifest(connection, |name, manifest| {
        for image in manifest.images() {
            insert.execute(params![image, name])?;
        }
        Ok(())
    })
}

/// Version 3: the APIs that each entry of a channel requires.
pub(super) fn required_apis(connection: &Connection) -> Result<(), Error> {
    let mut api = connection.prepare("INSERT OR REPLACE INTO api(group_name, version, kind, plural) VALUES (?, ?, ?, ?)")?;
    let mut requirer = connection.prepare("INSERT INTO api_requirer(group_name, version, kind, channel_entry_id) VALUES (?, ?, ?, ?)")?;
    let mut entries = connection.prepare("SELECT entry_id FROM channel_entry WHERE operatorbundle_name = ?")?;
    each_manifest(connection, |name, manifest| {
        let Ok(required) = manifest.required() else { return Ok(()) };
        let ids = entries.query_map([name], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            for found in &required {
                api.execute(params![found.group, found.version, found.kind, found.plural])?;
                requirer.execute(params![found.group, found.version, found.kind, id])?;
            }
        }
        Ok(())
    })
}

/// Version 5: version and skip range of each bundle.
pub(super) fn versions(connection: &Connection) -> Result<(), Error> {
    let mut update = connection.prepare("UPDATE operatorbundle SET version = ?, skiprange = ? WHERE name = ?")?;
    each_manifest(connection, |name, manifest| {
        update.execute(params![manifest.version().unwrap_or_default(), manifest.annotation("olm.skipRange"), name])?;
        Ok(())
    })
}

/// Version 7: the bundle that each bundle replaces, and the others it upgrades from, by the entries of its channels.
pub(super) fn replaces_and_skips(connection: &Connection) -> Result<(), Error> {
    let mut edges = connection.prepare(
        "SELECT DISTINCT replaces.operatorbundle_name FROM channel_entry
         LEFT OUTER JOIN channel_entry replaces ON channel_entry.replaces = replaces.entry_id
         WHERE channel_entry.operatorbundle_name = ? ORDER BY channel_entry.depth ASC",
    )?;
    let mut update = connection.prepare("UPDATE operatorbundle SET replaces = ?, skips = ? WHERE name = ?")?;
    for name in names(connection)? {
        let found = edges.query_map([&name], |row| row.get::<_, Option<String>>(0))?.collect::<Result<Vec<_>, _>>()?;
        let replaces = found.first().cloned().flatten().unwrap_or_default();
        let skips: Vec<String> = found.into_iter().skip(1).flatten().collect();
        update.execute(params![replaces, skips.join(","), name])?;
    }
    Ok(())
}

/// Version 8: the required APIs as dependencies.
pub(super) fn dependencies(connection: &Connection) -> Result<(), Error> {
    let mut insert = connection.prepare(INSERT_DEPENDENCY)?;
    for api in apis(connection, "api_requirer")? {
        let value = json!({"group": api.group, "kind": api.kind, "version": api.version}).to_string();
        insert.execute(params!["olm.gvk", value.into_bytes(), api.name, api.bundle_version, api.path])?;
    }
    Ok(())
}

/// Version 9: the package and the provided APIs as properties; dependencies carry their type only once.
pub(super) fn properties(connection: &Connection) -> Result<(), Error> {
    let mut insert = connection.prepare(
        "INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?)",
    )?;
    let mut package_of = connection.prepare("SELECT DISTINCT package_name FROM channel_entry WHERE operatorbundle_name = ?")?;
    let mut seen = BTreeSet::new();
    for api in apis(connection, "api_provider")? {
        if seen.insert((api.name.clone(), api.bundle_version.clone(), api.path.clone())) {
            let package = package_of.query([&api.name])?.next()?.map(|row| row.get::<_, Option<String>>(0)).transpose()?.flatten();
            let value = json!({"packageName": package.unwrap_or_default(), "version": api.bundle_version.clone().unwrap_or_default()});
            insert.execute(params!["olm.package", value.to_string().into_bytes(), api.name, api.bundle_version, api.path])?;
        }
        let value = json!({"group": api.group, "kind": api.kind, "version": api.version}).to_string();
        insert.execute(params!["olm.gvk", value.into_bytes(), api.name, api.bundle_version, api.path])?;
    }
    let mut rows = connection.prepare("SELECT rowid, CAST(value AS TEXT) FROM dependencies")?;
    let mut update = connection.prepare("UPDATE dependencies SET value = ? WHERE rowid = ?")?;
    let found = rows.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?)))?.collect::<Result<Vec<_>, _>>()?;
    for (id, text) in found {
        let Some(Ok(Value::Object(mut value))) = text.as_deref().map(serde_json::from_str) else { continue };
        if value.remove("type").is_some() {
            update.execute(params![Value::Object(value).to_string(), id])?;
        }
    }
    Ok(())
}

const INSERT_DEPENDENCY: &str =
    "INSERT INTO dependencies(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) VALUES (?, ?, ?, ?, ?)";

struct BundleApi {
    group: String,
    version: String,
    kind: String,
    name: String,
    bundle_version: Option<String>,
    path: Option<String>,
}

fn apis(connection: &Connection, table: &str) -> Result<Vec<BundleApi>, Error> {
    let sql = format!(
        "SELECT DISTINCT group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path FROM {table}
         WHERE group_name IS NOT NULL AND version IS NOT NULL AND kind IS NOT NULL AND operatorbundle_name IS NOT NULL
         ORDER BY rowid"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        Ok(BundleApi {
            group: row.get(0)?,
            version: row.get(1)?,
            kind: row.get(2)?,
            name: row.get(3)?,
            bundle_version: row.get(4)?,
            path: row.get(5)?,
        })
    })?;
    rows.collect::<Result<_, _>>().map_err(Error::from)
}

fn names(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare("SELECT DISTINCT name FROM operatorbundle WHERE name IS NOT NULL")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect::<Result<_, _>>().map_err(Error::from)
}

fn each_manifest(connection: &Connection, mut visit: impl FnMut(&str, &Manifest) -> Result<(), Error>) -> Result<(), Error> {
    let mut csv = connection.prepare("SELECT CAST(csv AS TEXT) FROM operatorbundle WHERE name = ?")?;
    for name in names(connection)? {
        let text: Option<String> = csv.query_row([&name], |row| row.get(0))?;
        // A missing manifest, or one that cannot be read, is skipped, as upstream does with a warning.
        if let Some(manifest) = text.as_deref().and_then(|text| Manifest::parse(text).ok()) {
            visit(&name, &manifest)?;
        }
    }
    Ok(())
}
