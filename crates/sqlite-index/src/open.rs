//! Read-only opening of a database.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use mainstay_catalog::Catalog;
use rusqlite::Connection;
use tempfile::TempPath;

use crate::convert::Purpose;
use crate::error::Error;
use crate::limits::Limits;
use crate::tables::{Tables, text};
use crate::{connect, convert, migrations, schema};

/// An index database, open for reading. The file is never changed, not even to bring it to the newest schema.
#[derive(Debug)]
pub struct IndexDatabase {
    // Declared before the copy, so that it is closed before the copy is removed.
    connection: Connection,
    version: Option<i64>,
    limits: Limits,
    _copy: Option<TempPath>,
}

impl IndexDatabase {
    /// Opens a file (CATLG-63).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_limited(path, Limits::default())
    }

    /// [`IndexDatabase::open`] with custom limits.
    pub fn open_limited(path: impl AsRef<Path>, limits: Limits) -> Result<Self, Error> {
        let path = path.as_ref();
        examine(path, &limits)?;
        let connection = connect::read_only(path, &limits)?;
        schema::check(&connection)?;
        let version = schema::version(&connection)?;
        if version.is_some_and(|version| version >= migrations::LATEST) {
            return Ok(Self { connection, version, limits, _copy: None });
        }
        drop(connection);
        let copy = tempfile::NamedTempFile::new().map_err(|source| Error::Io { path: path.to_owned(), source })?.into_temp_path();
        std::fs::copy(path, &copy).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let connection = connect::private(&copy, &limits)?;
        migrations::migrate(&connection)?;
        Ok(Self { connection, version, limits, _copy: Some(copy) })
    }

    /// The schema version of the file; `None` for files from before schema versions.
    pub fn version(&self) -> Option<i64> {
        self.version
    }

    /// The names of the packages, sorted.
    pub fn packages(&self) -> Result<Vec<String>, Error> {
        let mut statement = self.connection.prepare("SELECT DISTINCT name FROM package WHERE name IS NOT NULL ORDER BY name")?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect::<Result<_, _>>().map_err(Error::from)
    }

    /// The channels of a package by name, with their heads.
    pub fn channels(&self, package: &str) -> Result<Vec<(String, String)>, Error> {
        let sql = "SELECT name, head_operatorbundle_name FROM channel WHERE package_name = ? AND name IS NOT NULL ORDER BY name";
        self.pairs(sql, package)
    }

    /// The default channel of a package; empty if there is none.
    pub fn default_channel(&self, package: &str) -> Result<String, Error> {
        let found = self.pairs("SELECT default_channel, NULL FROM package WHERE name = ? LIMIT 1", package)?;
        Ok(found.into_iter().next().map(|(channel, _)| channel).unwrap_or_default())
    }

    /// The images of a package's bundles, with their versions.
    pub fn images(&self, package: &str) -> Result<Vec<(String, String)>, Error> {
        let sql = "SELECT DISTINCT bundlepath, version FROM operatorbundle
            INNER JOIN channel_entry ON operatorbundle.name = channel_entry.operatorbundle_name
            WHERE channel_entry.package_name = ? ORDER BY bundlepath";
        self.pairs(sql, package)
    }

    fn pairs(&self, sql: &str, package: &str) -> Result<Vec<(String, String)>, Error> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([package])?;
        let mut pairs = Vec::new();
        while let Some(row) = rows.next()? {
            pairs.push((text(row, 0)?.unwrap_or_default(), text(row, 1)?.unwrap_or_default()));
        }
        Ok(pairs)
    }

    /// Returns the catalog in the database (CATLG-52).
    pub fn to_catalog(&self) -> Result<Catalog, Error> {
        convert::catalog(&Tables::read(&self.connection, &self.limits)?, Purpose::Render)
    }

    /// Returns the catalog for serving: it keeps deprecated bundles, and the requirements of bundles in `olm.constraint`, which
    /// `opm render` loses (CATLG-56).
    pub fn to_served_catalog(&self) -> Result<Catalog, Error> {
        convert::catalog(&Tables::read(&self.connection, &self.limits)?, Purpose::Serve)
    }
}

/// Checks that the file may be opened at all.
pub(crate) fn examine(path: &Path, limits: &Limits) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    if size > limits.file_bytes {
        return Err(Error::Limit { what: format!("size of {} in bytes", path.display()), limit: limits.file_bytes });
    }
    let mut magic = [0; 16];
    if file.read_exact(&mut magic).is_err() || &magic != b"SQLite format 3\0" {
        return Err(Error::NotADatabase { path: path.to_owned() });
    }
    for suffix in ["-wal", "-journal"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(suffix);
        let beside = PathBuf::from(beside);
        if std::fs::metadata(&beside).is_ok_and(|metadata| metadata.len() > 0) {
            return Err(Error::Unfinished { path: path.to_owned(), beside });
        }
    }
    Ok(())
}
