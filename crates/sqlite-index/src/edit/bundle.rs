//! The rows of one bundle.

use rusqlite::{Connection, params};

use super::query::{add_property, filled, is_deprecated};
use super::substitutes;
use crate::addition::Addition;
use crate::error::Error;

/// Use of alpha features (`--enable-alpha`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alpha {
    Off,
    On,
}

/// Inserts everything that belongs to a bundle itself; channels come later.
pub(super) fn insert(connection: &Connection, bundle: &Addition, alpha: Alpha) -> Result<(), Error> {
    if bundle.name.is_empty() {
        return Err(Error::content("csv name not found"));
    }
    if !bundle.substitutes_for.is_empty() && alpha == Alpha::Off {
        return Err(Error::content(
            "SubstitutesFor is an alpha-only feature. You must enable alpha features with the flag --enable-alpha in order to use this feature.",
        ));
    }
    let sql = "INSERT INTO operatorbundle(name, csv, bundle, bundlepath, version, skiprange, replaces, skips, substitutesfor)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let values = params![
        bundle.name,
        bundle.csv.as_bytes(),
        bundle.manifests.as_bytes(),
        bundle.image,
        bundle.version,
        bundle.skip_range,
        bundle.replaces,
        bundle.skips.join(","),
        bundle.substitutes_for
    ];
    let inserted = connection.prepare_cached(sql)?.execute(values);
    inserted.map_err(|error| Error::content(format!("failed to add bundle {:?}: {}", bundle.name, plain(&error))))?;
    for image in &bundle.images {
        let sql = "INSERT INTO related_image(image, operatorbundle_name) VALUES (?, ?)";
        connection.prepare_cached(sql)?.execute([image, &bundle.name])?;
    }
    let (version, image) = (filled(&bundle.version), filled(&bundle.image));
    for (kind, value) in &bundle.dependencies {
        let sql = "INSERT INTO dependencies(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
            VALUES (?, ?, ?, ?, ?)";
        connection.prepare_cached(sql)?.execute(params![kind, value.as_bytes(), bundle.name, version, image])?;
    }
    let mut properties = bundle.properties.clone();
    if is_deprecated(connection, &bundle.name)? {
        properties.insert(("olm.deprecated".to_owned(), "{}".to_owned()));
    }
    for (kind, value) in &properties {
        add_property(connection, kind, value, &bundle.name, &bundle.version, &bundle.image)?;
    }
    if alpha == Alpha::On {
        substitutes::apply(connection, bundle).map_err(|error| Error::content(format!("failed to add substitutes : {error}")))?;
    }
    insert_apis(connection, bundle)
}

fn insert_apis(connection: &Connection, bundle: &Addition) -> Result<(), Error> {
    let (version, image) = (filled(&bundle.version), filled(&bundle.image));
    let provided = bundle.provided.iter().map(|api| (api, "api_provider"));
    for (api, table) in provided.chain(bundle.required.iter().map(|api| (api, "api_requirer"))) {
        let sql = "INSERT OR IGNORE INTO api(group_name, version, kind, plural) VALUES (?, ?, ?, ?)";
        connection.prepare_cached(sql)?.execute([&api.group, &api.version, &api.kind, &api.plural])?;
        let sql = format!(
            "INSERT INTO {table}(group_name, version, kind, operatorbundle_name, operatorbundle_version, operatorbundle_path)
             VALUES (?, ?, ?, ?, ?, ?)"
        );
        connection.prepare_cached(&sql)?.execute(params![api.group, api.version, api.kind, bundle.name, version, image])?;
    }
    Ok(())
}

/// The plain message of an SQLite error.
pub(super) fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}
