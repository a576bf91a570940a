//! Bundles and tables for the tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use mainstay_bundle::Bundle;
use mainstay_catalog::{Format, render};
use mainstay_sqlite_index::{AddOptions, Addition, Editor, Error, IndexDatabase, Mode, OnError, PackageRemoval};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

static BUNDLES: LazyLock<BTreeMap<String, BTreeMap<String, String>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/bundles.json")).expect("bundles.json"));

/// The image of one of our bundles.
pub fn image(name: &str) -> String {
    format!("registry.example/b/{name}:v1")
}

/// One of our bundles by name.
pub fn bundle(name: &str) -> Addition {
    let files = &BUNDLES[name];
    let read = Bundle::read_for_catalog(files.iter().map(|(path, text)| (path, text.as_bytes()))).expect(name);
    Addition::new(&image(name), &read).expect(name)
}

/// A change as a command line names it.
pub fn change(path: &Path, op: &str, words: &[String], flags: &[String]) -> Result<Vec<Error>, Error> {
    let has = |flag: &str| flags.iter().any(|word| word == flag);
    let on_error = if has("--permissive") { OnError::Continue } else { OnError::Stop };
    let mut editor = Editor::open(path)?;
    let warnings = match op {
        "add" => {
            let name = |image: &String| image.rsplit('/').next().unwrap().trim_end_matches(":v1").to_owned();
            let bundles: Vec<Addition> = words.iter().map(|image| bundle(&name(image))).collect();
            let mode = match (has("semver"), has("skippatch")) {
                (true, _) => Mode::Semver,
                (_, true) => Mode::SemverSkippatch,
                _ => Mode::Replaces,
            };
            let options = AddOptions { mode, overwrite_latest: has("--overwrite-latest"), enable_alpha: has("--enable-alpha"), on_error };
            editor.add(&bundles, options)?.into_iter().collect()
        }
        "rm" => editor.remove(words, on_error)?,
        "prune" => editor.prune(words, on_error)?,
        "deprecatetruncate" => {
            let removal = if has("--allow-package-removal") { PackageRemoval::Allow } else { PackageRemoval::Refuse };
            editor.deprecate(words, removal, on_error)?
        }
        other => panic!("{other}"),
    };
    editor.commit()?;
    Ok(warnings)
}

/// Adds bundles by name.
pub fn add(path: &Path, names: &[&str], flags: &[&str]) -> Result<Vec<Error>, Error> {
    let words: Vec<String> = names.iter().map(|name| image(name)).collect();
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    change(path, "add", &words, &flags)
}

/// The catalog of a database as JSON.
pub fn rendered(path: &Path) -> String {
    let catalog = IndexDatabase::open(path).and_then(|database| database.to_catalog()).unwrap();
    let mut out = Vec::new();
    render(&catalog, Format::Json, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const TABLES: [(&str, &str); 12] = [
    ("package", "SELECT name, default_channel FROM package"),
    ("channel", "SELECT package_name, name, head_operatorbundle_name FROM channel"),
    (
        "channel_entry",
        "SELECT e.package_name, e.channel_name, e.operatorbundle_name, r.operatorbundle_name, e.depth FROM channel_entry e
         LEFT JOIN channel_entry r ON e.replaces = r.entry_id",
    ),
    (
        "operatorbundle",
        "SELECT name, bundlepath, version, skiprange, replaces, skips, substitutesfor, csv IS NOT NULL, bundle IS NOT NULL, typeof(csv)
         FROM operatorbundle",
    ),
    (
        "properties",
        "SELECT operatorbundle_name, type, CAST(value AS TEXT), typeof(value), operatorbundle_version, operatorbundle_path FROM properties",
    ),
    (
        "dependencies",
        "SELECT operatorbundle_name, type, CAST(value AS TEXT), typeof(value), operatorbundle_version, operatorbundle_path
         FROM dependencies",
    ),
    ("related_image", "SELECT operatorbundle_name, image FROM related_image"),
    ("api", "SELECT group_name, version, kind, plural FROM api"),
    (
        "api_provider",
        "SELECT operatorbundle_name, group_name, version, kind, operatorbundle_version, operatorbundle_path FROM api_provider",
    ),
    (
        "api_requirer",
        "SELECT operatorbundle_name, group_name, version, kind, operatorbundle_version, operatorbundle_path FROM api_requirer",
    ),
    ("deprecated", "SELECT operatorbundle_name FROM deprecated"),
    ("schema_migrations", "SELECT version FROM schema_migrations"),
];

/// All tables, rows sorted, without row ids.
pub fn tables(path: &Path) -> Value {
    let connection = Connection::open(path).unwrap();
    let mut all = serde_json::Map::new();
    for (table, sql) in TABLES {
        let mut statement = connection.prepare(sql).unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut found: Vec<Value> = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let mut cells: Vec<Value> = (0..width).map(|index| cell(row.get_ref(index).unwrap())).collect();
            if table == "operatorbundle" {
                cells[5] = sorted(cells[5].as_str().unwrap_or_default(), ',').into();
            }
            found.push(cells.into());
        }
        all.insert(table.to_owned(), in_order(found));
    }
    all.into()
}

/// Rows by their text.
pub fn in_order(mut rows: Vec<Value>) -> Value {
    rows.sort_by_key(Value::to_string);
    rows.into()
}

/// The parts of a text, sorted.
pub fn sorted(text: &str, between: char) -> String {
    let mut parts: Vec<&str> = text.split(between).collect();
    parts.sort_unstable();
    parts.join(&between.to_string())
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
    }
}
