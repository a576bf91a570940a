use std::path::{Path, PathBuf};

use crate::{KeyValue, Revision};

/// Failures of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is not in the state that the writer expected; `found` is its state.
    #[error("key {key} has changed")]
    Conflict {
        /// The key.
        key: String,
        /// The key's value; `None` if the key does not exist.
        found: Option<Box<KeyValue>>,
    },
    /// The revision's history was dropped.
    #[error("revision {asked} has been compacted (oldest: {oldest})")]
    Compacted {
        /// The requested revision.
        asked: Revision,
        /// The oldest retained revision.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {asked} is in the future (latest: {latest})")]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The latest revision.
        latest: Revision,
    },
    /// Another process, or another store in this one, holds the folder.
    #[error("{path} is in use by {}", holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}")))]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The ID of that process, if it is known.
        holder: Option<u32>,
    },
    /// The file's content is not what was written.
    #[error("{path} is damaged: {problem}; restore a backup with `mainstay restore`, or move the folder away to start empty")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The file was written by another version of the program.
    #[error("{path} has format {found}, this program reads format {known}; use the program that wrote it")]
    Format {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u64,
        /// The format this program reads.
        known: u64,
    },
    /// A key with a NUL, or an empty one.
    #[error("key {key:?} is not usable: keys are non-empty text without NUL")]
    Key {
        /// The key.
        key: String,
    },
    /// A backup that is not whole.
    #[error("{path} is no whole backup: {problem}")]
    Backup {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A file stands where the store's folder should be: a store of an earlier version, or something else.
    #[error("{path} is no store that this version reads; move it away to start empty")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A key or a value above its size limit.
    #[error("the value of {key} is too large: at most {limit} bytes are stored")]
    TooLarge {
        /// The key.
        key: String,
        /// The limit for values, in bytes.
        limit: usize,
    },
    /// There is no space left. Reads go on, and writes work again when there is some.
    #[error("no space is left on the disk of {path}; writes work again when there is some")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The disk or the file system failed.
    #[error("{path}: {action} failed")]
    Io {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The storage cluster was not reached, or refused or failed the request.
    #[error("{problem}")]
    Remote {
        /// The message of the cluster or of the connection to it.
        problem: String,
        /// The outcome of the request.
        fate: Fate,
    },
    /// The storage cluster cannot be used with this configuration.
    #[error("storage {what}: {problem}")]
    Setup {
        /// The part of the configuration.
        what: String,
        /// The problem.
        problem: String,
    },
    /// The store was closed, or its writer stopped after a failure that is in the log.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// An error for a failed file operation or a full disk.
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::Full { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), action, source },
        }
    }

    /// The same failure for another caller that waited for it.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Full { path } => Self::Full { path: path.clone() },
            Self::Io { path, action, source } => {
                Self::Io { path: path.clone(), action, source: std::io::Error::new(source.kind(), source.to_string()) }
            }
            _ => Self::Closed,
        }
    }
}

/// The outcome of a failed request to a storage cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing happened; the cluster may be able to later.
    Unavailable,
    /// Nothing happened; the cluster is overloaded.
    Busy,
    /// Nothing happened, and a repetition will not help.
    Refused,
    /// A write may or may not have happened.
    Unknown,
}
