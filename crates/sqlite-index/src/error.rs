//! Errors of reading and changing an index database.

use std::io;
use std::path::PathBuf;

/// Reason why a database cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, read or written.
    #[error("{path}: the file cannot be used")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not an SQLite database.
    #[error("{path}: not an SQLite 3 database")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A journal beside the file holds changes that are not in the database yet.
    #[error("{path}: {beside} holds changes that are not in the database yet")]
    Unfinished {
        /// The database.
        path: PathBuf,
        /// The journal beside it.
        beside: PathBuf,
    },
    /// Another program has changed the file meanwhile.
    #[error("{path}: another program has changed the database meanwhile; nothing was written")]
    Changed {
        /// The database.
        path: PathBuf,
    },
    /// The schema holds something that an index database never has.
    #[error("schema: {problem}")]
    Schema {
        /// The unexpected part.
        problem: String,
    },
    /// The database exceeds a limit.
    #[error("{what} is over the limit of {limit}")]
    Limit {
        /// The part that is too large.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// SQLite reports an error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The content of the tables is inconsistent; the message is upstream's.
    #[error("{0}")]
    Content(String),
    /// A migration of an older schema failed.
    #[error("migration {version} of the schema: {problem}")]
    Migration {
        /// The target version of the migration.
        version: i64,
        /// The cause.
        problem: String,
    },
    /// A bundle image is in the database already: exit code 2 of opm (CATLG-46).
    #[error("Bundle {image} already exists")]
    ImageAlreadyAdded {
        /// The image.
        image: String,
    },
    /// The database holds a bundle of that name already: exit code 3 of opm (CATLG-46).
    #[error("Bundle already added that provides package and csv")]
    VersionAlreadyAdded,
    /// The image is not in the database.
    #[error("Bundle Image not in database")]
    ImageNotFound,
    /// The deprecation would remove the default channel.
    #[error("Bundle deprecation causing default channel removal")]
    DefaultChannelRemoval,
    /// Several errors at once, in upstream's format.
    #[error("{}", aggregate(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// Returns `Ok` for no error, the error itself for one, [`Error::Several`] for more.
    pub(crate) fn collect(errors: Vec<Self>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Several(errors)) }
    }

    pub(crate) fn content(text: impl Into<String>) -> Self {
        Self::Content(text.into())
    }

    /// The errors that this one consists of.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Several(errors) => errors.iter().flat_map(Self::parts).collect(),
            other => vec![other],
        }
    }
}

/// Errors in brackets, each text once; a single one without.
fn aggregate(errors: &[Error]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors.iter().flat_map(Error::parts) {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
