//! Index databases: whole files, and rows in the tables of a good one.

use std::path::Path;
use std::sync::LazyLock;

use mainstay_catalog::{Catalog, Format, Limits as CatalogLimits, MemorySource, render};
use mainstay_sqlite_index::{Editor, IndexDatabase, Limits};
use rusqlite::Connection;

const LIMITS: Limits = Limits { file_bytes: 8 << 20, value_bytes: 1 << 20, rows: 100_000, total_bytes: 16 << 20, steps: 50_000_000 };

/// An empty database of the newest schema.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let Ok(directory) = tempfile::tempdir() else { panic!("no temporary folder") };
    let path = directory.path().join("index.db");
    let made = Editor::open(&path).and_then(Editor::commit);
    match made.map(|()| std::fs::read(&path)) {
        Ok(Ok(bytes)) => bytes,
        other => panic!("no empty database: {other:?}"),
    }
});

/// A file, or lines of `table<TAB>cell<TAB>cell...`. It reads as a catalog that can be written and read again, or as an error.
pub fn databases(data: &[u8]) {
    let Ok(directory) = tempfile::tempdir() else { return };
    let path = directory.path().join("index.db");
    let is_file = data.starts_with(b"SQLite format 3");
    if std::fs::write(&path, if is_file { data } else { &EMPTY }).is_err() {
        return;
    }
    if !is_file && insert(&path, &String::from_utf8_lossy(data)).is_err() {
        return;
    }
    let Ok(catalog) = IndexDatabase::open_limited(&path, LIMITS).and_then(|database| database.to_catalog()) else { return };
    let mut lines = Vec::new();
    assert!(render(&catalog, Format::JsonLines, &mut lines).is_ok(), "a catalog that cannot be written");
    let again = Catalog::load(&MemorySource::of("catalog.json", lines), &CatalogLimits::default());
    assert!(again.is_ok_and(|again| again.bundles.len() == catalog.bundles.len()), "a catalog that cannot be read again");
}

fn insert(path: &Path, text: &str) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF")?;
    for line in text.lines().take(200) {
        let mut cells = line.split('\t');
        let Some(table @ ("package" | "channel" | "channel_entry" | "operatorbundle" | "properties" | "dependencies" | "related_image")) =
            cells.next()
        else {
            continue;
        };
        // `-` is null.
        let cells: Vec<Option<&str>> = cells.map(|cell| (cell != "-").then_some(cell)).collect();
        let places = vec!["?"; cells.len()].join(", ");
        // Rows that do not fit are left out.
        let _ = connection.execute(&format!("INSERT INTO {table} VALUES ({places})"), rusqlite::params_from_iter(cells));
    }
    Ok(())
}

pub fn database_seeds() -> Vec<Vec<u8>> {
    let csv = r#"{"kind":"ClusterServiceVersion","metadata":{"name":"p.v1"},"spec":{"icon":[{"base64data":"aWNvbg==","mediatype":"image/png"}],"relatedImages":[{"name":"a","image":"r.example/a:1"}]}}"#;
    let rows = [
        "package\tp\tc".to_owned(),
        "channel\tc\tp\tp.v2".to_owned(),
        "channel_entry\t1\tc\tp\tp.v2\t2\t0".to_owned(),
        "channel_entry\t2\tc\tp\tp.v1\t-\t1".to_owned(),
        "channel_entry\t3\tc\tp\tp.v0\t-\t1".to_owned(),
        "channel_entry\t4\tc\tp\tp.v2\t3\t1".to_owned(),
        format!("operatorbundle\tp.v1\t{csv}\t{csv}\tr.example/p:v1\t\t1.0.0\t\t\t"),
        format!("operatorbundle\tp.v2\t{csv}\t{csv}\tr.example/p:v2\t<2.0.0\t2.0.0\tp.v1\tp.v0\t"),
        "properties\tolm.package\t{\"packageName\":\"p\",\"version\":\"1.0.0\"}\tp.v1\t1.0.0\tr.example/p:v1".to_owned(),
        "properties\tolm.gvk\t{\"group\":\"g\",\"kind\":\"K\",\"version\":\"v1\"}\tp.v2\t2.0.0\tr.example/p:v2".to_owned(),
        "dependencies\tolm.package\t{\"packageName\":\"q\",\"version\":\">1.0.0\"}\tp.v2\t2.0.0\tr.example/p:v2".to_owned(),
        "related_image\tr.example/b:1\tp.v2".to_owned(),
    ];
    vec![EMPTY.clone(), rows.join("\n").into_bytes()]
}
