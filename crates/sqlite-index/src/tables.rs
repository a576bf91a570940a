//! The tables as plain rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::Error;
use crate::limits::Limits;

/// A row of `channel_entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryRow {
    pub(crate) id: i64,
    pub(crate) channel: Option<String>,
    pub(crate) package: Option<String>,
    pub(crate) bundle: Option<String>,
    pub(crate) replaces: Option<i64>,
    pub(crate) depth: Option<i64>,
}

/// The columns of `operatorbundle` that are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundleRow {
    pub(crate) manifests: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) skip_range: Option<String>,
}

/// A row of `properties` or `dependencies`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypedRow {
    pub(crate) kind: String,
    pub(crate) value: String,
}

/// A row of `channel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChannelRow {
    pub(crate) name: String,
    pub(crate) head: Option<String>,
}

/// The data of a catalog in the database.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Default channels by package.
    pub(crate) packages: BTreeMap<String, Option<String>>,
    /// Channels by package.
    pub(crate) channels: BTreeMap<String, Vec<ChannelRow>>,
    /// Entries in the order of their ids.
    pub(crate) entries: Vec<EntryRow>,
    pub(crate) bundles: HashMap<String, BundleRow>,
    /// The manifests of the heads of channels.
    pub(crate) csvs: HashMap<String, Option<String>>,
    pub(crate) properties: HashMap<String, Vec<TypedRow>>,
    pub(crate) dependencies: HashMap<String, Vec<TypedRow>>,
    pub(crate) related_images: HashMap<String, BTreeSet<String>>,
}

impl Tables {
    pub(crate) fn read(connection: &Connection, limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader { connection, limits, rows: 0, bytes: 0 };
        let mut tables = Self::default();
        reader.each("SELECT name, default_channel FROM package", |cells| {
            if let [Some(name), channel] = cells {
                tables.packages.insert(name.clone(), channel.clone());
            }
        })?;
        reader.each("SELECT package_name, name, head_operatorbundle_name FROM channel ORDER BY rowid", |cells| {
            if let [Some(package), name, head] = cells {
                let channel = ChannelRow { name: name.clone().unwrap_or_default(), head: head.clone() };
                tables.channels.entry(package.clone()).or_default().push(channel);
            }
        })?;
        reader.entries(&mut tables.entries)?;
        reader.each("SELECT name, bundle, bundlepath, version, skiprange FROM operatorbundle", |cells| {
            if let [Some(name), manifests, path, version, skip_range] = cells {
                let (manifests, path) = (manifests.take(), path.take());
                let row = BundleRow { manifests, path, version: version.take(), skip_range: skip_range.take() };
                tables.bundles.insert(std::mem::take(name), row);
            }
        })?;
        let heads = "SELECT name, csv FROM operatorbundle WHERE name IN (SELECT head_operatorbundle_name FROM channel)";
        reader.each(heads, |cells| {
            if let [Some(name), csv] = cells {
                tables.csvs.insert(std::mem::take(name), csv.take());
            }
        })?;
        for (sql, into) in [
            ("SELECT operatorbundle_name, type, value FROM properties ORDER BY rowid", &mut tables.properties),
            ("SELECT operatorbundle_name, type, value FROM dependencies ORDER BY rowid", &mut tables.dependencies),
        ] {
            reader.each(sql, |cells| {
                if let [Some(bundle), kind, value] = cells {
                    let row = TypedRow { kind: kind.take().unwrap_or_default(), value: value.take().unwrap_or_default() };
                    into.entry(std::mem::take(bundle)).or_default().push(row);
                }
            })?;
        }
        reader.each("SELECT operatorbundle_name, image FROM related_image", |cells| {
            if let [Some(bundle), Some(image)] = cells {
                tables.related_images.entry(std::mem::take(bundle)).or_default().insert(std::mem::take(image));
            }
        })?;
        Ok(tables)
    }
}

struct Reader<'a> {
    connection: &'a Connection,
    limits: &'a Limits,
    rows: u64,
    bytes: u64,
}

impl Reader<'_> {
    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.rows += 1;
        self.bytes += bytes as u64;
        for (what, found, limit) in
            [("number of rows", self.rows, self.limits.rows), ("size of all values", self.bytes, self.limits.total_bytes)]
        {
            if found > limit {
                return Err(Error::Limit { what: what.to_owned(), limit });
            }
        }
        Ok(())
    }

    fn each(&mut self, sql: &str, mut visit: impl FnMut(&mut [Option<String>])) -> Result<(), Error> {
        let mut statement = self.connection.prepare(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut cells = (0..width).map(|index| text(row, index)).collect::<Result<Vec<_>, _>>()?;
            self.count(cells.iter().flatten().map(String::len).sum())?;
            visit(&mut cells);
        }
        Ok(())
    }

    fn entries(&mut self, entries: &mut Vec<EntryRow>) -> Result<(), Error> {
        let sql = "SELECT entry_id, channel_name, package_name, operatorbundle_name, replaces, depth FROM channel_entry ORDER BY entry_id";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let entry = EntryRow {
                id: row.get(0)?,
                channel: text(row, 1)?,
                package: text(row, 2)?,
                bundle: text(row, 3)?,
                replaces: row.get(4)?,
                depth: row.get(5)?,
            };
            self.count([&entry.channel, &entry.package, &entry.bundle].into_iter().flatten().map(String::len).sum())?;
            entries.push(entry);
        }
        Ok(())
    }
}

/// A cell as text, regardless of its storage type: programs have written the same column as text and as bytes.
pub(crate) fn text(row: &Row<'_>, index: usize) -> Result<Option<String>, Error> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}
