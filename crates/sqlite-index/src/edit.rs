//! Changes to a database: made on a private copy beside it, which replaces it when everything is done, unless another program has changed
//! the database meanwhile.

mod add;
mod bundle;
mod channels;
mod deprecate;
mod graph;
mod original;
mod overwrite;
mod query;
mod remove;
mod substitutes;

use std::fs::{File, Permissions};
use std::path::Path;

use rusqlite::{Connection, Transaction};
use tempfile::TempPath;

pub use add::{AddOptions, Mode, UnknownMode};
pub use deprecate::PackageRemoval;
use original::Original;

use crate::error::Error;
use crate::limits::Limits;
use crate::open::examine;
use crate::{connect, migrations, schema};

/// Handling of errors (`--permissive`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Stop at the error; nothing is changed.
    #[default]
    Stop,
    /// Keep the successful changes and return the errors as warnings.
    Continue,
}

/// A database that is being changed. Dropping it changes nothing.
#[derive(Debug)]
pub struct Editor {
    // Declared before the copy, so that it is closed before the copy is removed.
    connection: Connection,
    copy: TempPath,
    original: Original,
    limits: Limits,
}

impl Editor {
    /// Opens a database, or begins a new one if the file is missing or empty. Its schema is brought to the newest version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_limited(path, Limits::default())
    }

    /// [`Editor::open`] with custom limits.
    pub fn open_limited(path: impl AsRef<Path>, limits: Limits) -> Result<Self, Error> {
        let original = Original::of(path.as_ref())?;
        let path = &original.path;
        let io = |source| Error::Io { path: path.clone(), source };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let copy = tempfile::Builder::new()
            .prefix(".index-")
            .suffix(".db")
            .permissions(readable())
            .tempfile_in(directory)
            .map_err(io)?
            .into_temp_path();
        if original.has_content() {
            examine(path, &limits)?;
            let checked = connect::read_only(path, &limits)?;
            schema::check(&checked)?;
            drop(checked);
            std::fs::copy(path, &copy).map_err(io)?;
        }
        let connection = connect::private(&copy, &limits)?;
        migrations::migrate(&connection)?;
        Ok(Self { connection, copy, original, limits })
    }

    /// Replaces the old database by the changed one. If the old one has changed since, nothing is done.
    pub fn commit(self) -> Result<(), Error> {
        let Self { connection, copy, original, .. } = self;
        connection.close().map_err(|(_, error)| Error::Sqlite(error))?;
        let synced = File::open(&copy).and_then(|file| file.sync_all());
        synced.map_err(|source| Error::Io { path: original.path.clone(), source })?;
        original.replace(copy)
    }

    fn begin(&self) -> Result<Transaction<'_>, Error> {
        Ok(self.connection.unchecked_transaction()?)
    }

    fn vacuum(&self) -> Result<(), Error> {
        Ok(self.connection.execute_batch("VACUUM")?)
    }
}

#[cfg(unix)]
fn readable() -> Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    Permissions::from_mode(0o644)
}
